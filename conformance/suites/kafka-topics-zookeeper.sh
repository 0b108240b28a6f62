#!/usr/bin/env bash
# Apache Kafka 2.8.2's TopicCommand, which reads and writes the coordinators directly, on the cluster that CLUSTER controls: what it creates the
# brokers serve, and it prints the table of what the brokers created. (4.x has no such tool any more.)
. "$(dirname "$(realpath "$0")")/../lib.sh"
need_cluster
need java "install the package openjdk-17-jre-headless"
need mvn "install the package maven"
jars=$("$conformance/peers/kafka.sh" jars 28) || skip "Kafka 2.8's jars could not be fetched from Maven Central"
build_sillon || skip "the sillon program does not build"
bootstrap=$("$CLUSTER" bootstrap)
connect=$("$CLUSTER" connect)
topic=zookeeper-$(date +%s%N | tail -c 10)
told_file=$WORK/kafka-topics-zookeeper.output

topics() {
  timeout 90 java -Xmx256m -XX:TieredStopAtLevel=1 "-DLOGF=$WORK/kafka-topics-zookeeper.log" "-Dlog4j.configuration=file:$conformance/peers/log4j.properties" \
    -cp "$jars/*" kafka.admin.TopicCommand --zookeeper "$connect" "$@" >"$told_file" 2>&1
}
sillon() { "$SILLON" --bootstrap-server "$bootstrap" "$@"; }
told() { grep -qE "$1" "$told_file" || { echo "no /$1/ in: $(head -c 300 "$told_file")"; return 1; }; }
rows() { grep -cE "^	Topic: $1	Partition: [0-9]+	Leader: [1-3]	Replicas: [1-3],[1-3],[1-3]	Isr: [1-3],[1-3],[1-3]\$" "$told_file"; }
described() { # TOPIC ROWS
  topics --describe --topic "$1" && [ "$(rows "$1")" = "$2" ]
}

create() { topics --create --topic "$topic" --partitions 4 --replication-factor 3 --config retention.ms=3600000 && told "^Created topic $topic\."; }
describe() {
  within 30 described "$topic" 4 &&
    told "^Topic: $topic	(TopicId: [A-Za-z0-9_-]{22}	)?PartitionCount: 4	ReplicationFactor: 3	Configs: retention.ms=3600000\$"
}
# The two tables have to name the same leaders, replicas and replicas in sync.
same_table() {
  topics --describe --topic "$topic" && sillon topics describe "$topic" | sed -nE 's/^(	Topic: .*)	Elr: .*/\1/p' >"$told_file.sillon" &&
    diff <(grep '^	Topic: ' "$told_file") "$told_file.sillon"
}
served() { seq 1000 | timeout 60 kcat -b "$bootstrap" -P -t "$topic" -X acks=all -q && [ "$(timeout 60 kcat -b "$bootstrap" -C -t "$topic" -o beginning -e -q | wc -l)" = 1000 ]; }
the_other_way() { sillon topics create "$topic-b" --partitions 3 --replication-factor 3 --config max.message.bytes=2000000 && within 30 described "$topic-b" 3 && told 'Configs: .*max.message.bytes=2000000'; }
has_partitions() { [ "$(sillon topics describe "$topic" | grep -c 'Partition: ')" = "$1" ]; }
add_partitions() { topics --alter --topic "$topic" --partitions 5 && within 30 has_partitions 5 && within 30 described "$topic" 5; }
is_gone() { ! sillon topics list | grep -qx "$1"; }
delete() { topics --delete --topic "$topic" && within 30 is_gone "$topic" && sillon topics delete "$topic-b" && topics --list && ! grep -qE "^$topic" "$told_file"; }

step "topic made through the coordinators" create
step "described: leaders and replicas in sync" describe
step "the same table as the brokers tell" same_table
if command -v kcat >/dev/null; then step "written and read" served; fi
step "a topic that the brokers made" the_other_way
step "partitions added through the coordinators" add_partitions
step "deleted" delete
finish
