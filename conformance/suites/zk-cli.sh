#!/usr/bin/env bash
# ZooKeeper's own shell: see clients/zkcli/shell.py. CONNECT names the servers.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need python3 "install the package python3"
need java "install the package openjdk-17-jre-headless"
need mvn "install the package maven"
jars=$("$conformance/peers/kafka.sh" jars 39) || skip "ZooKeeper's jars could not be fetched from Maven Central"
exec timeout 300 python3 "$conformance/clients/zkcli/shell.py" "$jars" "$CONNECT"
