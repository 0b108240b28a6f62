#!/usr/bin/env bash
# Apache Kafka 4.1's own command line tools against the cluster that CLUSTER controls: topics, consumer groups, configuration, leader election,
# reassignment, log directories, deletion of records, with three replicas. One broker is killed and started again meanwhile.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need_cluster
need java "install the package openjdk-17-jre-headless"
need mvn "install the package maven"
jars=$("$conformance/peers/kafka.sh" jars 41) || skip "Kafka 4.1's jars could not be fetched from Maven Central"
bootstrap=$("$CLUSTER" bootstrap)
work=$WORK/kafka-tools
mkdir -p "$work"
topic=tools-$(date +%s%N | tail -c 10)
group=$topic-group

# ---- the tools

# tool CLASS ARGUMENTS...: what it prints goes to standard output and to $work/output, so that a check can look at it twice.
tool() {
  timeout -k 5 90 java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "-DLOGF=$work/log" \
    "-Dlog4j2.configurationFile=file:$conformance/peers/log4j2.properties" -cp "$jars/*" "$@" --bootstrap-server "$bootstrap" 2>&1 | tee "$work/output"
  return "${PIPESTATUS[0]}"
}
topics() { tool org.apache.kafka.tools.TopicCommand "$@"; }
configs() { tool kafka.admin.ConfigCommand "$@"; }
elect() { tool org.apache.kafka.tools.LeaderElectionCommand "$@"; }
reassign() { tool org.apache.kafka.tools.reassign.ReassignPartitionsCommand "$@"; }
log_directories() { tool org.apache.kafka.tools.LogDirsCommand --describe "$@"; }
offsets() { tool org.apache.kafka.tools.GetOffsetShell "$@"; }
groups() { tool org.apache.kafka.tools.consumer.group.ConsumerGroupCommand "$@"; }
delete_records() { tool org.apache.kafka.tools.DeleteRecordsCommand "$@"; }

# told PATTERN...: each stands in what the last tool printed.
told() {
  local pattern
  for pattern in "$@"; do
    grep -qE -- "$pattern" "$work/output" || { echo "no /$pattern/ in: $(head -c 300 "$work/output")"; return 1; }
  done
}
refused() { ! "$@" >/dev/null || { echo "succeeded: $*"; return 1; }; }

# rows TOPIC PATTERN: how many partitions the description has that look like this.
rows() {
  topics --describe --topic "$1" >/dev/null
  grep -cE "^	Topic: $1	Partition: [0-9]+	$2" "$work/output"
}
rows_are() { [ "$(rows "$1" "$2")" = "$3" ]; }

# ---- the steps

all_versions() {
  tool org.apache.kafka.tools.BrokerApiVersionsCommand >/dev/null
  [ "$(grep -cE '^127\.0\.0\.1:[0-9]+ \(id: [0-9]+ rack: r[0-9]+ isFenced: false\) -> \(' "$work/output")" = 3 ] || { head -c 300 "$work/output"; return 1; }
}
create() {
  topics --create --topic "$topic" --partitions 6 --replication-factor 3 --config min.insync.replicas=2 && told "^Created topic $topic\."
  refused topics --create --topic "$topic" && told 'already exists'
  topics --create --topic "$topic" --if-not-exists
  refused topics --create --topic "$topic-x" --partitions 1 --replication-factor 9 && told '[Rr]eplication factor'
}
describe() {
  within 30 rows_are "$topic" 'Leader: [1-3]	Replicas: [1-3],[1-3],[1-3]	Isr: [1-3],[1-3],[1-3]	' 6 &&
    told "^Topic: $topic	TopicId: [A-Za-z0-9_-]{22}	PartitionCount: 6	ReplicationFactor: 3	Configs: .*min.insync.replicas=2"
}
leaders_are_spread() {
  local number
  for number in 1 2 3; do rows_are "$topic" "Leader: $number	" 2 || return; done
}
filters() {
  topics --describe --under-replicated-partitions --topic "$topic" && ! grep -q Topic "$work/output" &&
    topics --describe --unavailable-partitions --topic "$topic" && ! grep -q Topic "$work/output" &&
    topics --describe --under-min-isr-partitions --topic "$topic" && ! grep -q Topic "$work/output"
}
lists() { topics --list && told "^$topic\$"; }
add_partitions() {
  topics --alter --topic "$topic" --partitions 7 && within 30 rows_are "$topic" 'Leader: [1-3]	Replicas: [1-3],[1-3],[1-3]	' 7
  refused topics --alter --topic "$topic" --partitions 2
}
assign_by_hand() {
  topics --create --topic "$topic-two" --replica-assignment 1:2,2:1 --config retention.ms=3600000 && within 30 rows_are "$topic-two" 'Leader: 1	Replicas: 1,2	Isr: 1,2	' 1 &&
    within 30 rows_are "$topic-two" 'Leader: 2	Replicas: 2,1	Isr: (1,2|2,1)	' 1
}
produce() {
  timeout 90 java -Xmx256m -XX:TieredStopAtLevel=1 "-DLOGF=$work/log" "-Dlog4j2.configurationFile=file:$conformance/peers/log4j2.properties" -cp "$jars/*" \
    org.apache.kafka.tools.ProducerPerformance --topic "$topic" --num-records 7000 --record-size 200 --throughput -1 \
    --producer-props "bootstrap.servers=$bootstrap" acks=all batch.size=4096 partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner >"$work/output" 2>&1
  told '^7000 records sent, .* ms 99.9th'
}
sum_of_offsets() { awk -F: -v topic="$topic" '$1 == topic { sum += $3 } END { print sum + 0 }' "$work/output"; }
ends() { offsets --topic "$topic" --time latest && [ "$(sum_of_offsets)" = 7000 ] && offsets --topic "$topic" --time earliest && [ "$(sum_of_offsets)" = 0 ]; }
consume() {
  tool org.apache.kafka.tools.consumer.ConsoleConsumer --topic "$topic" --partition 0 --offset earliest --max-messages 100 --timeout-ms 20000 >/dev/null
  told 'Processed a total of 100 messages'
}
# sums_of_group: of the last description, how many partitions of the topic, and the sums of their committed offsets and lags.
sums_of_group() { awk -v topic="$topic" '$2 == topic { rows += 1; offsets += $4; lag += $6 } END { print rows + 0, offsets + 0, lag + 0 }' "$work/output"; }
group_stands_at() { # ROWS OFFSETS LAG
  groups --describe --group "$group" >/dev/null
  [ "$(sums_of_group)" = "$*" ] || { echo "partitions, offsets, lag: $(sums_of_group), not $*"; head -c 300 "$work/output"; return 1; }
}
group_consumes() {
  tool org.apache.kafka.tools.consumer.ConsoleConsumer --topic "$topic" --group "$group" --from-beginning --max-messages 7000 --timeout-ms 30000 >/dev/null
  told 'Processed a total of 7000 messages' && group_stands_at 7 7000 0
}
groups_listed() {
  groups --list && told "^$group\$" && groups --list --state && told "^$group +.*Empty" && groups --list --state stable && ! grep -q "^$group " "$work/output" &&
    tool org.apache.kafka.tools.GroupsCommand --list && told "^$group +Classic +consumer" || return
  groups --describe --group "no-such-$group"
  told 'does not exist|not found'
}
state_is() { groups --describe --state --group "$group-a" >/dev/null && told "^$group-a +$1"; }
group_with_a_member() {
  local consumer code=0
  java -Xmx256m -XX:TieredStopAtLevel=1 "-DLOGF=$work/log" "-Dlog4j2.configurationFile=file:$conformance/peers/log4j2.properties" -cp "$jars/*" \
    org.apache.kafka.tools.consumer.ConsoleConsumer --topic "$topic" --group "$group-a" --bootstrap-server "$bootstrap" >"$work/consumer" 2>&1 &
  consumer=$!
  seen_with_its_member || code=1
  kill -TERM "$consumer"
  wait "$consumer"
  [ "$code" = 0 ] && within 15 state_is '.*Empty +0' && groups --delete --group "$group-a" && told 'was successful'
}
seen_with_its_member() {
  within 30 state_is '[0-9.:]+ +\([1-3]\) .*Stable +1' && groups --describe --members --verbose --group "$group-a" && told "^$group-a +console-consumer-.* 7 .*$topic" || return
  groups --describe --group "$group-a" && told "^$group-a +$topic +.*console-consumer-" || return
  groups --delete --group "$group-a"
  told GroupNotEmptyException || return
  groups --reset-offsets --to-earliest --group "$group-a" --topic "$topic" --execute
  told 'inactive'
}
reset() { groups --reset-offsets --group "$group" "$@" >/dev/null; }
offsets_reset() {
  reset --topic "$topic" --to-earliest --dry-run && group_stands_at 7 7000 0 && reset --topic "$topic" --to-earliest --execute && group_stands_at 7 0 7000 &&
    reset --topic "$topic:0,1" --to-offset 10 --execute && group_stands_at 7 20 6980 && reset --topic "$topic:1" --shift-by 5 --execute && group_stands_at 7 25 6975 &&
    reset --topic "$topic" --by-duration PT0S --execute && group_stands_at 7 7000 0 && reset --all-topics --to-current --execute && group_stands_at 7 7000 0
}
has_no_offset_of() { groups --describe --group "$group" >/dev/null && awk -v topic="$topic" -v partition="$1" '$2 == topic && $3 == partition && $4 != "-" { found = 1 } END { exit found }' "$work/output"; }
offsets_deleted() { groups --delete-offsets --group "$group" --topic "$topic:0" && told "^$topic +0 +Successful" && has_no_offset_of 0 && ! has_no_offset_of 1; }
group_deleted() {
  groups --delete --group "$group" && told "Deletion of requested consumer groups \\('$group'\\) was successful" && groups --list && ! grep -qx "$group" "$work/output" || return
  groups --delete --group "$group"
  told GroupIdNotFoundException
}
measured_in_a_group() {
  tool org.apache.kafka.tools.ConsumerPerformance --topic "$topic" --messages 7000 --timeout 20000 --hide-header --group "$group-p" >/dev/null &&
    awk -F', ' 'END { exit !($5 >= 7000) }' "$work/output" && groups --delete --group "$group-p"
}
verified_in_a_group() {
  tool org.apache.kafka.tools.VerifiableConsumer --topic "$topic" --group-id "$group-v" --group-protocol CLASSIC --max-messages 7000 >/dev/null &&
    told '"name":"partitions_assigned"' '"name":"offsets_committed".*"success":true' '"name":"shutdown_complete"' || return
  [ "$(grep -o '"name":"records_consumed","count":[0-9]*' "$work/output" | awk -F: '{ sum += $3 } END { print sum + 0 }')" = 7000 ] && groups --delete --group "$group-v"
}
directories() {
  log_directories --topic-list "$topic" && told 'Received log directory information from brokers 1,2,3' "\"partition\":\"$topic-0\",\"size\":[1-9][0-9]*,\"offsetLag\":0" &&
    [ "$(grep -oE "\"partition\":\"$topic-0\"" "$work/output" | wc -l)" = 3 ]
}
delete_some_records() {
  offsets --topic-partitions "$topic:0" --time latest || return
  local end
  end=$(awk -F: -v topic="$topic" '$1 == topic { print $3 }' "$work/output")
  echo "{\"partitions\":[{\"topic\":\"$topic\",\"partition\":0,\"offset\":$((end / 2))}],\"version\":1}" >"$work/delete.json"
  delete_records --offset-json-file "$work/delete.json" && told "partition: $topic-0	low_watermark: $((end / 2))" || return
  offsets --topic-partitions "$topic:0" --time earliest && told "^$topic:0:$((end / 2))\$" || return
  sed "s/\"offset\":[0-9]*/\"offset\":$((end * 9))/" "$work/delete.json" >"$work/beyond.json"
  delete_records --offset-json-file "$work/beyond.json"
  told OffsetOutOfRange
}
shows_configuration() { configs --entity-type topics --entity-name "$topic" --describe >/dev/null && told "$1"; }
hides_configuration() { configs --entity-type topics --entity-name "$topic" --describe >/dev/null && ! told "$1"; }
configuration_of_a_topic() {
  configs --entity-type topics --entity-name "$topic" --alter --add-config max.message.bytes=2000000,retention.ms=7200000 && told "Completed updating config for topic $topic" &&
    within 20 shows_configuration 'max.message.bytes=2000000 .*DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000' &&
    configs --entity-type topics --entity-name "$topic" --alter --delete-config max.message.bytes && within 20 hides_configuration max.message.bytes= &&
    refused configs --entity-type topics --entity-name "$topic" --alter --add-config retention.ms=abc &&
    refused configs --entity-type topics --entity-name "$topic" --alter --add-config no.such.key=1
}
shows_default() { configs --entity-type brokers --entity-default --describe >/dev/null && told "$1"; }
hides_default() { configs --entity-type brokers --entity-default --describe >/dev/null && ! told "$1"; }
configuration_of_brokers() {
  local number
  for number in 1 2 3; do
    configs --entity-type brokers --entity-name "$number" --describe --all >/dev/null && told "broker.rack=r$number" || return
  done
  configs --entity-type brokers --entity-default --alter --add-config log.retention.ms=604800001 && within 20 shows_default log.retention.ms=604800001 &&
    configs --entity-type brokers --entity-default --alter --delete-config log.retention.ms && within 20 hides_default log.retention.ms=
}
broker_2_is_killed() { "$CLUSTER" kill 2 && within 60 rows_are "$topic" 'Leader: [13]	' 7; }
under_replicated() {
  topics --describe --under-replicated-partitions --topic "$topic" >/dev/null
  [ "$(grep -c 'Partition: ' "$work/output")" = 7 ]
}
starts() { "$CLUSTER" start 2; }
broker_2_is_back() { within 60 starts && within 90 rows_are "$topic" 'Leader: [1-3]	Replicas: [1-3],[1-3],[1-3]	Isr: [1-3],[1-3],[1-3]	' 7; }
preferred_election() {
  elect --election-type preferred --all-topic-partitions >/dev/null && within 30 rows_are "$topic" 'Leader: ([1-3])	Replicas: \1,' 7 &&
    elect --election-type preferred --topic "$topic" --partition 0 && told "Valid replica already elected for partitions $topic-0" &&
    refused elect --election-type preferred --topic "no-such-$topic" --partition 0
}
execute() { # FILE REPLICAS...: of both partitions of the second topic
  cat >"$work/$1" <<JSON
{"version":1,"partitions":[{"topic":"$topic-two","partition":0,"replicas":[$2]},{"topic":"$topic-two","partition":1,"replicas":[$3]}]}
JSON
  reassign --reassignment-json-file "$work/$1" --execute
}
is_complete() {
  reassign --reassignment-json-file "$work/$1" --verify >/dev/null
  told "Reassignment of partition $topic-two-0 is completed" "Reassignment of partition $topic-two-1 is completed"
}
reassignment() {
  execute move.json 3,1 3,2 && told "Successfully started partition reassignments for $topic-two-0,$topic-two-1" && within 60 is_complete move.json &&
    within 30 rows_are "$topic-two" 'Leader: [1-3]	Replicas: 3,[12]	' 2 && reassign --list && told 'No partition reassignments found' &&
    execute more.json 1,2,3 2,3,1 && within 60 is_complete more.json && within 30 rows_are "$topic-two" 'Leader: [1-3]	Replicas: [1-3],[1-3],[1-3]	Isr: [1-3],[1-3],[1-3]	' 2 &&
    refused execute wrong.json 99 99
}
is_gone() { topics --list >/dev/null && ! grep -qE "^$topic" "$work/output"; }
delete() {
  topics --delete --topic "$topic" && topics --delete --topic "$topic-two" && within 30 is_gone && refused topics --delete --topic "$topic" && told 'does not exist'
}

step "every broker tells its versions" all_versions
step "topic with three replicas" create
step "topic described" describe
step "leaders are spread" leaders_are_spread
step "nothing is under-replicated" filters
step "topics listed" lists
step "partition added" add_partitions
step "replicas assigned by hand" assign_by_hand
step "records written, acks=all" produce
step "ends of the logs" ends
step "records read" consume
step "records read in a group" group_consumes
step "groups listed" groups_listed
step "group with a member" group_with_a_member
step "offsets of a group reset" offsets_reset
step "offsets of a group deleted" offsets_deleted
step "group deleted" group_deleted
step "consumers measured in a group" measured_in_a_group
step "consumer verified in a group" verified_in_a_group
step "log directories of three brokers" directories
step "records deleted" delete_some_records
step "configuration of a topic" configuration_of_a_topic
step "configuration of brokers" configuration_of_brokers
step "broker 2 killed: the others lead" broker_2_is_killed
step "its replicas are told" under_replicated
step "broker 2 back in sync" broker_2_is_back
step "preferred leaders elected" preferred_election
step "partitions moved, replicas added" reassignment
step "topics deleted" delete
finish
