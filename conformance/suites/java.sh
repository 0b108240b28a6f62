#!/usr/bin/env bash
# Apache Kafka's Java client: see clients/java. BOOTSTRAP is the broker; KAFKA_CLIENTS_VERSION another version of kafka-clients.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need java "install the package openjdk-17-jdk-headless"
need javac "install the package openjdk-17-jdk-headless"
need mvn "install the package maven"
client=$conformance/clients/java version=${KAFKA_CLIENTS_VERSION:-4.1.2}
build=$cache/java-$version
if [ ! "$build/built" -nt "$client/src/main/java/JavaClient.java" ] || [ ! "$build/built" -nt "$client/pom.xml" ]; then
  mkdir -p "$build"
  mvn -q -B -f "$client/pom.xml" -Dkafka.version="$version" -Dbuild.dir="$build" \
    compile dependency:build-classpath -Dmdep.outputFile="$build/classpath" || { echo "FAIL the Java client does not build"; exit 1; }
  touch "$build/built"
fi
exec timeout 300 java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$build/classes:$(cat "$build/classpath")" JavaClient "$BOOTSTRAP"
