#!/usr/bin/env bash
# A real Apache Kafka 3.9.1 in ZooKeeper mode, and the 2.8 tools that talk to ZooKeeper, on the ensemble that CONNECT names. Where CONTROL (see
# ../ensemble.sh) can do it, the leading coordinator is killed while the broker is at work. WORK is a directory to work in.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need java "install the package openjdk-17-jre-headless"
need mvn "install the package maven"
need kcat "install the package kcat"
jars28=$("$conformance/peers/kafka.sh" jars 28) || skip "Kafka 2.8's jars could not be fetched from Maven Central"
jars39=$("$conformance/peers/kafka.sh" jars 39) || skip "Kafka 3.9's jars could not be fetched from Maven Central"

work=$WORK/kafka-on-coordinator
mkdir -p "$work"
chroot=/kafka-$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')
zookeeper=$CONNECT$chroot
port1=$(free_port)
port2=$(free_port)
broker1=127.0.0.1:$port1
broker2=127.0.0.1:$port2
seq -f 'line-%08g-0123456789abcdefghijklmnopqrstuvwxyz' 1 20000 >"$work/lines"

# ---- the tools

# java_tool JARS CLASS ARGUMENTS...
java_tool() {
  timeout 90 java -Xmx256m -XX:TieredStopAtLevel=1 "-DLOGF=$work/tools.log" "-Dlog4j.configuration=file:$conformance/peers/log4j.properties" \
    -cp "$1/*" "${@:2}" 2>&1
}
topics() { java_tool "$jars28" kafka.admin.TopicCommand --zookeeper "$zookeeper" "$@"; }
reassign() {
  java_tool "$jars28" kafka.admin.ReassignPartitionsCommand --zookeeper "$zookeeper" --reassignment-json-file "$work/reassignment.json" "$@"
}
topic_configuration() { java_tool "$jars39" kafka.admin.ConfigCommand --bootstrap-server "$broker1" --entity-type topics --entity-name t1 "$@"; }
shell() { java_tool "$jars39" org.apache.zookeeper.ZooKeeperMain -waitforconnection -timeout 20000 -server "$CONNECT" "$@"; }
metadata() { kcat -b "$1" -m 3 -L ${2:+-t "$2"} 2>/dev/null; }

# produce TOPIC: standard input, a record for each line.
produce() { timeout 60 kcat -b "$broker1" -P -t "$1" -X acks=all -q; }
consume() { timeout 60 kcat -b "$broker1" -C -t "$1" -o beginning -e -q; }

# ---- the brokers

start_kafka() { # NUMBER PORT
  cat >"$work/broker$1.properties" <<PROPERTIES
broker.id=$1
listeners=PLAINTEXT://127.0.0.1:$2
zookeeper.connect=$zookeeper
zookeeper.session.timeout.ms=10000
zookeeper.connection.timeout.ms=30000
log.dirs=$work/log$1
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
replica.lag.time.max.ms=10000
file.delete.delay.ms=2000
PROPERTIES
  rm -f "$work/exit$1"
  (
    java -Xms256m -Xmx512m "-DLOGF=$work/broker$1.log" "-Dlog4j.configuration=file:$conformance/peers/log4j.properties" -cp "$jars39/*" \
      kafka.Kafka "$work/broker$1.properties" >"$work/broker$1.output" 2>&1 </dev/null &
    echo $! >"$work/pid$1"
    wait $!
    echo $? >"$work/exit$1"
  ) >/dev/null 2>&1 &
}
has_ended() { [ -e "$work/exit$1" ]; }

# brokers_are ADDRESS "1 2 ": the brokers that the metadata names, in order.
brokers_are() { [ "$(metadata "$1" | sed -n 's/^ *broker \([0-9]*\) at.*/\1/p' | sort | tr '\n' ' ')" = "$2" ]; }

start_and_see() { # NUMBER PORT BROKERS
  start_kafka "$1" "$2"
  seen_or_ended() { has_ended "$1" || brokers_are "127.0.0.1:$2" "$3"; }
  within 90 seen_or_ended "$@" || return 1
  if has_ended "$1"; then
    grep -hE 'ERROR|FATAL|Exception' "$work/broker$1.log" | head -n 3
    return 1
  fi
}

# The exit code of a controlled shutdown is that of SIGTERM, or 0.
stop_kafka() { # NUMBER
  kill "$(cat "$work/pid$1")"
  within 60 has_ended "$1" || return 1
  case $(cat "$work/exit$1") in 0 | 143) ;; *) echo "exit code $(cat "$work/exit$1")" && return 1 ;; esac
}

kill_kafka() { # NUMBER
  kill -9 "$(cat "$work/pid$1")" && within 10 has_ended "$1"
}

# ---- what the metadata has to say

# partition_lines TOPIC: `leader isr` of each partition, the ISR sorted.
partition_lines() {
  local leader isr
  metadata "$broker1" "$1" | sed -n 's/^ *partition .* leader \(-\?[0-9]*\), replicas: [0-9,]*, isrs: \([0-9,]*\).*/\1 \2/p' |
    while read -r leader isr; do
      echo "$leader $(tr , '\n' <<<"$isr" | sort | paste -sd,)"
    done
}

# in_sync TOPIC COUNT ISR: so many partitions, each with this ISR and a leader.
in_sync() {
  local lines
  lines=$(partition_lines "$1")
  [ "$(wc -l <<<"$lines")" = "$2" ] && [ "$(grep -cE "^[1-9][0-9]* $3\$" <<<"$lines")" = "$2" ]
}

led_by() { # TOPIC COUNT LEADER ISR
  [ "$(partition_lines "$1" | grep -cx "$3 $4")" = "$2" ]
}

# ---- the steps

create_topic() { # NAME PARTITIONS FACTOR ISR
  topics --create --topic "$1" --partitions "$2" --replication-factor "$3" | grep 'Created topic' && within 30 in_sync "$1" "$2" "$4"
}
describe_topic() {
  topics --describe --topic t1 >"$work/described"
  [ "$(grep -c 'Leader: 1.*Replicas: 1.*Isr: 1' "$work/described")" = 3 ] || { cat "$work/described" && return 1; }
}
add_partitions() {
  topics --alter --topic t1 --partitions 5
  within 20 in_sync t1 5 1
}
kill_leading_coordinator() {
  "$CONTROL" leader >"$work/killed" && "$CONTROL" kill "$(cat "$work/killed")"
}
start_killed_coordinator() { "$CONTROL" start "$(cat "$work/killed")"; }
first_half() { head -n 10000 "$work/lines" | produce lines; }
second_half() { tail -n 10000 "$work/lines" | produce lines; }
read_back() { consume lines >"$work/read" && cmp "$work/lines" "$work/read"; }
read_back_partitions() {
  produce t1 <"$work/lines" && consume t1 | sort >"$work/read" && sort "$work/lines" | cmp - "$work/read"
}
consumer_group() {
  timeout 60 kcat -b "$broker1" -G group1 -X auto.offset.reset=earliest -e -q lines | sort >"$work/read"
  sort "$work/lines" | cmp - "$work/read"
}
broker_shows() { topic_configuration --describe | grep -q "$1"; }
configuration_through_zookeeper() {
  topics --alter --topic t1 --config retention.ms=1234567
  within 20 broker_shows retention.ms=1234567
}
configuration_through_broker() {
  topic_configuration --alter --add-config max.message.bytes=54321
  topics --describe --topic t1 | grep 'Configs:.*max.message.bytes=54321'
}
start_reassignment() {
  echo '{"version":1,"partitions":[{"topic":"lines","partition":0,"replicas":[2,1]}]}' >"$work/reassignment.json"
  reassign --execute
  within 40 in_sync lines 1 1,2
}
reassignment_is_complete() { reassign --verify | grep -q 'is complete'; }
verify_reassignment() { within 30 reassignment_is_complete; }
shrink_after_kill() { kill_kafka 2 && within 40 led_by r2 4 1 1; }
produce_after_kill() {
  head -n 2000 "$work/lines" | produce r2 && consume r2 | sort >"$work/read" && head -n 2000 "$work/lines" | cmp - "$work/read"
}
grow_again() {
  start_kafka 2 "$port2"
  within 90 in_sync r2 4 1,2
}
is_deleted() { ! topics --list | grep -qx r2 && ! ls -d "$work"/log[12]/r2-[0-9] >/dev/null 2>&1; }
delete_topic() {
  topics --delete --topic r2
  within 40 is_deleted
}
second_leads_alone() { brokers_are "$broker2" "2 " && metadata "$broker2" lines | grep -q 'leader 2'; }
stop_controller() { stop_kafka 1 && within 30 second_leads_alone; }
controller_moved() { shell get "$chroot/controller" | grep '"brokerid":2'; }
stop_last() { stop_kafka 2 && [ "$(shell ls "$chroot/brokers/ids" | tail -n 1)" = '[]' ]; }

end() {
  local number
  for number in 1 2; do
    [ ! -e "$work/pid$number" ] || has_ended $number || kill_kafka $number
  done
  rm -rf "$work/log1" "$work/log2"
  shell deleteall "$chroot" >/dev/null
}
trap end EXIT

step "broker starts" start_and_see 1 "$port1" "1 "
[ "$steps_failed" = 0 ] || finish
step "topic made through ZooKeeper" create_topic t1 3 1 1
step "topic described" describe_topic
step "partitions added" add_partitions
step "second topic" create_topic lines 1 1 1
step "first half written" first_half
if [ -n "${CONTROL:-}" ]; then step "leading coordinator killed" kill_leading_coordinator; fi
step "second half written" second_half
step "all read back, in order" read_back
step "five partitions written and read back" read_back_partitions
step "consumer group" consumer_group
step "configuration through ZooKeeper reaches the broker" configuration_through_zookeeper
step "configuration through the broker reaches ZooKeeper" configuration_through_broker
if [ -n "${CONTROL:-}" ]; then step "killed coordinator starts again" start_killed_coordinator; fi
step "second broker" start_and_see 2 "$port2" "1 2 "
step "topic on two brokers" create_topic r2 4 2 1,2
step "partition moved" start_reassignment
step "move is complete" verify_reassignment
step "broker killed: its session ends, leaders move" shrink_after_kill
step "written and read after the kill" produce_after_kill
step "broker back in sync" grow_again
step "topic deleted" delete_topic
step "controller stopped: the other broker takes over" stop_controller
step "the other broker is the controller" controller_moved
step "last broker stopped: no broker is registered" stop_last
finish
