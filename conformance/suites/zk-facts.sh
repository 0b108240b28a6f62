#!/usr/bin/env bash
# What a ZooKeeper server does on the wire, fact by fact: see clients/zookeeper/facts.py. CONNECT names the servers.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need python3 "install the package python3"
export PYTHONDONTWRITEBYTECODE=1
exec timeout 300 python3 "$conformance/clients/zookeeper/facts.py" "$CONNECT"
