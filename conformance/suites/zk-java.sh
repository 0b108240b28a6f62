#!/usr/bin/env bash
# ZooKeeper's Java client and Curator's recipes: see clients/zookeeper-java. CONNECT names the servers; ZOOKEEPER_CLIENT_VERSION is another
# version of the client (3.8.6, say). Two steps wait for the server's sweep of containers and TTL nodes, once a minute; SHORT=1 leaves them out.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need java "install the package openjdk-17-jdk-headless"
need javac "install the package openjdk-17-jdk-headless"
need mvn "install the package maven"
client=$conformance/clients/zookeeper-java version=${ZOOKEEPER_CLIENT_VERSION:-3.9.5}
build=$cache/zookeeper-java-$version
if [ ! -e "$build/built" ] || [ -n "$(find "$client" -newer "$build/built" -type f)" ]; then
  mkdir -p "$build"
  told=$(mvn -q -B -f "$client/pom.xml" -Dzookeeper.version="$version" -Dbuild.dir="$build" \
    compile dependency:build-classpath -Dmdep.outputFile="$build/classpath") || { echo "FAIL the Java client does not build: $told"; exit 1; }
  touch "$build/built"
fi
export SHORT
exec timeout 600 java -Xmx768m -Dfile.encoding=UTF-8 -Dcurator-dont-log-connection-problems=true \
  -cp "$build/classes:$(cat "$build/classpath")" suite.ZooKeeperSuite "$CONNECT"
