#!/usr/bin/env bash
# Writes some segments with three replicas, stops the cluster that CLUSTER controls, and runs dump-log over every log directory:
# Apache Kafka's DumpLogSegments finds nothing wrong with any file of any replica, and the replicas of a partition hold the same bytes. The cluster is
# left stopped.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need_cluster
need java "install the package openjdk-17-jre-headless"
need mvn "install the package maven"

build_sillon || skip "the sillon program does not build"
jars=$("$conformance/peers/kafka.sh" jars 41) || skip "Kafka 4.1's jars could not be fetched from Maven Central"

write() {
  local bootstrap topic=dump-$(date +%s%N | tail -c 10)
  bootstrap=$("$CLUSTER" bootstrap)
  "$SILLON" --bootstrap-server "$bootstrap" topics create "$topic" --partitions 3 --replication-factor 3 --config segment.bytes=1048576 &&
    timeout 90 java -Xmx256m -XX:TieredStopAtLevel=1 "-DLOGF=$WORK/kafka-dump.log" "-Dlog4j2.configurationFile=file:$conformance/peers/log4j2.properties" -cp "$jars/*" \
      org.apache.kafka.tools.ProducerPerformance --topic "$topic" --num-records 20000 --record-size 500 --throughput -1 \
      --producer-props "bootstrap.servers=$bootstrap" acks=all >"$WORK/kafka-dump.output" 2>&1 && grep -q '^20000 records sent, .* ms 99.9th' "$WORK/kafka-dump.output"
}
stop() { "$CLUSTER" stop; }
one_broker() { LOG_DIRECTORY=$1 "$conformance/suites/dump-log.sh" >"$WORK/kafka-dump.output" || { grep FAIL "$WORK/kafka-dump.output"; return 1; }; }

# A clean stop lets the followers catch up with nothing: what each of them has is a beginning of what the longest has.
replicas_agree() {
  local folder copies copy other
  mapfile -t copies < <("$CLUSTER" directories)
  for folder in $(for copy in "${copies[@]}"; do (cd "$copy" && ls -d -- *-[0-9]* 2>/dev/null); done | grep -v -- '-delete$' | sort -u); do
    for copy in "${copies[@]}"; do
      for other in "${copies[@]}"; do
        [ "$copy" \< "$other" ] && [ -d "$copy/$folder" ] && [ -d "$other/$folder" ] || continue
        same_beginning "$copy/$folder" "$other/$folder" || { echo "$copy/$folder and $other/$folder differ"; return 1; }
      done
    done
  done
}
# Segments may be rolled at different places, so the bytes of all segments together are compared, where both begin at the same offset.
same_beginning() {
  local first one_size other_size size
  first=$(basename "$(find "$1" -name '*.log' | sort | head -n 1)")
  [ "$first" = "$(basename "$(find "$2" -name '*.log' | sort | head -n 1)")" ] || return 0
  one_size=$(cat "$1"/*.log | wc -c)
  other_size=$(cat "$2"/*.log | wc -c)
  size=$((one_size < other_size ? one_size : other_size))
  cmp -s -n "$size" <(cat "$1"/*.log) <(cat "$2"/*.log)
}

step "records written to three replicas" write
step "the cluster stops" stop
number=0
for log in $("$CLUSTER" directories); do
  number=$((number + 1))
  step "broker $number: every segment and index" one_broker "$log"
done
step "replicas hold the same bytes" replicas_agree
finish
