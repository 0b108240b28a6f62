#!/usr/bin/env bash
# Consumer groups: three members, each a process of one client's own, while a producer writes. One leaves, one is killed, the broker that coordinates
# the group is killed; what the members did is judged: see clients/python/groups.py. GROUP_CLIENTS names some of the clients; SHORT=1 takes one
# client for each of the three ways of balancing: eager, cooperative, and one that is not librdkafka's. The cluster is the one that CLUSTER controls.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need_cluster
python_environment
member=$conformance/clients/python/group_member.py
clients=(confluent confluent-cooperative java java-range kafka-python franz-go kafkajs aiokafka kcat)
[ "$SHORT" = 0 ] || clients=(confluent confluent-cooperative kafka-python)
[ -z "${GROUP_CLIENTS:-}" ] || IFS=, read -ra clients <<<"$GROUP_CLIENTS"

# words_of CLIENT: sets `words` to the member's program and its arguments, and `options` for groups.py.
words_of() {
  case $1 in
    confluent) words=("$python" "$member" confluent:range) ;;
    confluent-cooperative) words=("$python" "$member" confluent:cooperative-sticky) ;;
    kafka-python | aiokafka) words=("$python" "$member" "$1") ;;
    kafkajs) kafkajs_client && words=(node "$conformance/clients/kafkajs/member.js") ;;
    franz-go) franz_go_client && words=("$franz_go" member) ;;
    java) java_client && words=("${java_command[@]}" GroupMember '{bootstrap}' '{group}' '{topic}') ;;
    java-range)
      java_client
      words=("${java_command[@]}" GroupMember '{bootstrap}' '{group}' '{topic}' partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor)
      ;;
    kcat)
      need kcat "install the package kcat"
      # It commits by itself, so that it prints no lines of commits; a record that comes while it ends is committed, and not printed.
      options=(--drops-one-on-leaving)
      words=(kcat -b '{bootstrap}' -G '{group}' -q -u -E -f 'record %p %o %s\n' -X auto.offset.reset=earliest -X session.timeout.ms=6000 -X heartbeat.interval.ms=1000
        -X auto.commit.interval.ms=500 '{topic}')
      ;;
    *) echo "FAIL no client is named $1" && exit 1 ;;
  esac
}

judge() { "$python" "$conformance/clients/python/group_history_test.py"; }
step "the judge finds damage made on purpose" judge
for client in "${clients[@]}"; do
  "$CLUSTER" start >/dev/null # whatever the client before has left
  # In a shell of its own, for a client whose tools are missing is left out, and the others go on.
  (
    options=()
    words_of "$client"
    timeout 500 "$python" "$conformance/clients/python/groups.py" --control "$CLUSTER" --client "$client" --talk "$WORK/groups-$client.talk" "${options[@]}" -- "${words[@]}"
  ) >"$WORK/groups-$client.output" 2>&1
  code=$?
  grep -E '^(ok  |FAIL|     |skipped)' "$WORK/groups-$client.output"
  read -r client_passed client_failed _ < <(sums "$WORK/groups-$client.output")
  if [ "$code" != 0 ] && [ "$code" != "$SKIPPED" ] && [ "$client_failed" = 0 ]; then
    echo "FAIL $client ended with exit code $code: $(tail -n 2 "$WORK/groups-$client.output" | cut -c1-300)"
    client_failed=1
  fi
  [ "$code" != "$SKIPPED" ] || steps_skipped=$((steps_skipped + 1))
  steps_passed=$((steps_passed + client_passed)) steps_failed=$((steps_failed + client_failed))
done
finish
