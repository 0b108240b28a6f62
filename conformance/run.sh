#!/usr/bin/env bash
# Real clients against the broker and the coordinator.
#
#   conformance/run.sh [--short] [--only SUITE[,SUITE...]] [--members N] [--connect HOST:PORT[,HOST:PORT...] | --zookeeper] [HOST:PORT]
#
# For the broker's suites: without HOST:PORT it builds the release broker, starts it on a free port with its data in a temporary directory,
# and at the end stops it and looks at the log files that it leaves. With HOST:PORT it tests the broker that listens there, whichever it is.
# The suites that are a client's own tests start brokers of their own, each with the configuration that it wants; HOST:PORT is one that has it.
# For the coordinator's suites: it builds the release coordinator and starts an ensemble of three in the same way.
# For the suites of a cluster: it starts three brokers and three coordinators in the same way; kafka-dump stops them.
#   --short       less text for kcat and fewer rounds of kill -9, for CI
#   --only        some of: kcat confluent kafka-python aiokafka kafkajs java franz-go dump-log kill9
#                 librdkafka kafka-python-tests franz-go-tests rust-rdkafka rskafka
#                 zk-facts zk-cli kazoo zk-java kafka-on-coordinator
#                 groups kafka-tools kafka-topics-zookeeper librdkafka-cluster chaos netns kafka-dump
#   --members N   an ensemble of N, or one standalone server where N is 1
#   --connect     the servers that listen there instead of an ensemble of ours, whichever they are; steps that stop one are left out
#   --zookeeper   a real ZooKeeper 3.8.4 instead of an ensemble of ours
#   --cluster     the suites of a cluster, and no others
#   --kafka       three real Apache Kafka 3.9 brokers on ZooKeeper instead of a cluster of ours
# Where --only is missing, --connect and --zookeeper run the coordinator's suites, --cluster and --kafka those of a cluster, HOST:PORT the broker's.
#
# A client whose tools this machine lacks is skipped, with a line that says what to install. The clients themselves are fetched
# (PyPI, npm, Maven Central, the Go proxy) the first time, into SILLON_CONFORMANCE_CACHE (default ~/.cache/sillon-conformance).
# SILLON_BROKER and SILLON_COORDINATOR name programs to use instead of building them; KEEP=1 keeps the working directory.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"

BROKER_SUITES=(kcat confluent kafka-python aiokafka kafkajs java franz-go dump-log kill9)
CLIENT_SUITES=(librdkafka kafka-python-tests franz-go-tests rust-rdkafka rskafka)
COORDINATOR_SUITES=(zk-facts zk-cli kazoo zk-java kafka-on-coordinator)
CLUSTER_SUITES=(groups kafka-tools kafka-topics-zookeeper librdkafka-cluster chaos netns kafka-dump)
suites=()
export SHORT=${SHORT:-0}
given_bootstrap='' given_connect='' real_zookeeper=0 members=3 cluster_only=0 real_kafka=0
unset CONTROL CLUSTER # only what was started here is stopped here

usage() {
  sed -n '2,27s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --short) SHORT=1 ;;
    --zookeeper) real_zookeeper=1 ;;
    --cluster) cluster_only=1 ;;
    --kafka) cluster_only=1 real_kafka=1 ;;
    --only | --members | --connect)
      [ $# -ge 2 ] || usage
      case $1 in
        --only) IFS=, read -ra suites <<<"$2" ;;
        --members) members=$2 ;;
        --connect) given_connect=$2 ;;
      esac
      shift
      ;;
    -*) usage ;;
    *:*) given_bootstrap=$1 ;;
    *) usage ;;
  esac
  shift
done
if [ ${#suites[@]} = 0 ]; then
  if [ -n "$given_connect" ] || [ "$real_zookeeper" = 1 ]; then
    suites=("${COORDINATOR_SUITES[@]}")
  elif [ "$cluster_only" = 1 ]; then
    suites=("${CLUSTER_SUITES[@]}")
  elif [ -n "$given_bootstrap" ]; then
    suites=("${BROKER_SUITES[@]}")
  else
    suites=("${BROKER_SUITES[@]}" "${CLIENT_SUITES[@]}" "${COORDINATOR_SUITES[@]}" "${CLUSTER_SUITES[@]}")
  fi
fi
for suite in "${suites[@]}"; do
  [ -x "$here/suites/$suite.sh" ] || { echo "no suite is named $suite; there are: ${BROKER_SUITES[*]} ${CLIENT_SUITES[*]} ${COORDINATOR_SUITES[*]} ${CLUSTER_SUITES[*]}" >&2; exit 2; }
done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/sillon-conformance.XXXXXX")
export WORK
broker_pid=

end() {
  [ -z "$broker_pid" ] || kill -9 "$broker_pid" 2>/dev/null
  [ -z "${CONTROL:-}" ] || "$CONTROL" kill
  [ -z "${CLUSTER:-}" ] || end_cluster
  if [ "${KEEP:-0}" = 1 ] || [ "${failed:-1}" != 0 ]; then echo "kept: $WORK"; else rm -rf "$WORK"; fi
}
trap end EXIT
trap 'exit 130' INT TERM

# is_one_of NAME NAMES...
is_one_of() {
  local name=$1
  shift
  [[ " $* " == *" $name "* ]]
}

start_what_the_broker_suites_need() {
  if [ -n "$given_bootstrap" ]; then
    export BOOTSTRAP=$given_bootstrap
    return
  fi
  build_broker || { echo "the broker does not build" >&2; exit 1; }
  [ "$*" != kill9 ] || return 0 # it starts its own, again and again
  export LOG_DIRECTORY=$WORK/broker/log
  local port
  port=$(free_port)
  export BOOTSTRAP=127.0.0.1:$port
  # Small segments, so that clients and tools meet many of them.
  start_broker "$WORK/broker" "$port" --override log.segment.bytes=16777216 || exit 1
  broker_pid=$BROKER_PID
}

# Sets CONNECT, and CONTROL where the members are ours to stop.
start_what_the_coordinator_suites_need() {
  if [ -n "$given_connect" ]; then
    export CONNECT=$given_connect
    return
  fi
  export CONTROL=$here/ensemble.sh ENSEMBLE_SIZE=$members ENSEMBLE_DIRECTORY=$WORK/ensemble ENSEMBLE_PORT
  ENSEMBLE_PORT=$(free_ports)
  if [ "$real_zookeeper" = 1 ]; then
    CONTROL=$here/peers/zookeeper.sh
  else
    build_coordinator || { echo "the coordinator does not build" >&2; exit 1; }
  fi
  "$CONTROL" start || exit 1
  CONNECT=$("$CONTROL" connect)
  export CONNECT
}

# Sets CLUSTER, for all suites of a cluster; those that want another configuration start one of their own with it.
start_what_the_cluster_suites_need() {
  export CLUSTER=$here/cluster.sh CLUSTER_DIRECTORY=$WORK/cluster CLUSTER_PORT ENSEMBLE_PORT
  CLUSTER_PORT=$(free_cluster_port)
  ENSEMBLE_PORT=$((CLUSTER_PORT + 1000))
  if [ "$real_kafka" = 1 ]; then
    CLUSTER=$here/peers/kafka-cluster.sh
    # It cannot start again before the session of its killed process has ended.
    export KAFKA_SESSION_TIMEOUT_MS=6000 HEAP=${HEAP:-256m} CHAOS_OPTIONS='--down 10'
  fi
  # Small segments, so that DumpLogSegments meets many of them.
  export CLUSTER_SETTINGS=log.segment.bytes=4194304
  "$CLUSTER" start || exit 1
}

# A suite that ended half-way may have left brokers killed, or stopped by SIGSTOP.
end_cluster() {
  if [ "${failed:-1}" = 0 ]; then "$CLUSTER" remove; else "$CLUSTER" stop; fi
}

# check_coordinators SUITE: every member serves, whatever the suite has done.
check_coordinators() {
  [ -n "${CONTROL:-}" ] || return 0
  if "$CONTROL" status | grep -E ' (down|electing) '; then
    echo "FAIL not all members serve after $1; their output: $WORK/ensemble"
    return 1
  fi
}

needed_by_broker=() needed_by_coordinator=()
for suite in "${suites[@]}"; do
  if is_one_of "$suite" "${CLUSTER_SUITES[@]}" "${CLIENT_SUITES[@]}"; then
    continue # a cluster starts when the first suite comes that needs it, and a client's own tests start a broker of their own
  elif is_one_of "$suite" "${COORDINATOR_SUITES[@]}"; then
    needed_by_coordinator+=("$suite")
  else
    needed_by_broker+=("$suite")
  fi
done
export GIVEN_BOOTSTRAP=$given_bootstrap
[ ${#needed_by_broker[@]} = 0 ] || start_what_the_broker_suites_need "${needed_by_broker[@]}"
[ ${#needed_by_coordinator[@]} = 0 ] || start_what_the_coordinator_suites_need

# The suites run one after the other; dump-log wants the broker stopped, and kill9 starts its own.
passed=0 failed=0 skipped=0
for suite in "${suites[@]}"; do
  if [ "$suite" = dump-log ] && [ -n "$broker_pid" ]; then
    stop_broker "$broker_pid" || failed=$((failed + 1))
    broker_pid=
  fi
  # The ensemble and the cluster take their ports and folders from the same variables: the one ends before the other starts.
  if is_one_of "$suite" "${CLUSTER_SUITES[@]}" && [ -z "${CLUSTER:-}" ]; then
    if [ -n "${CONTROL:-}" ]; then
      "$CONTROL" stop || failed=$((failed + 1))
      unset CONTROL
    fi
    start_what_the_cluster_suites_need
  fi
  echo "== $suite"
  "$here/suites/$suite.sh" 2>&1 | tee "$WORK/$suite.out"
  code=${PIPESTATUS[0]}
  read -r suite_passed suite_failed suite_skipped < <(sums "$WORK/$suite.out")
  if [ "$code" = "$SKIPPED" ]; then
    suite_skipped=1
  elif [ "$code" != 0 ] && [ "$suite_failed" = 0 ]; then
    echo "FAIL $suite ended with exit code $code"
    suite_failed=1
  fi
  if [ "$code" = 0 ] && [ "$suite_passed" = 0 ]; then
    echo "FAIL $suite checked nothing"
    suite_failed=1
  fi
  echo "$suite: $suite_passed passed, $suite_failed failed, $suite_skipped skipped"
  passed=$((passed + suite_passed)) failed=$((failed + suite_failed)) skipped=$((skipped + suite_skipped))
  if [ -n "$broker_pid" ] && ! kill -0 "$broker_pid" 2>/dev/null; then
    echo "FAIL the broker died during $suite; its log: $WORK/broker/output"
    failed=$((failed + 1)) broker_pid=
    break
  fi
  if is_one_of "$suite" "${COORDINATOR_SUITES[@]}" && ! check_coordinators "$suite"; then
    failed=$((failed + 1))
    break
  fi
done
if [ -n "$broker_pid" ]; then
  stop_broker "$broker_pid" || failed=$((failed + 1))
  broker_pid=
fi
if [ -n "${CONTROL:-}" ]; then "$CONTROL" stop || failed=$((failed + 1)); fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
