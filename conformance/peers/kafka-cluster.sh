#!/usr/bin/env bash
# A cluster of real Apache Kafka 3.9.1 brokers on real ZooKeeper 3.8.4, to compare with. Takes the commands of ../cluster.sh.
#
#   kafka-cluster.sh start|stop|kill|status|leader|controller|… see ../cluster.sh
#
# CLUSTER_DIRECTORY (default /tmp/sillon-kafka-cluster), CLUSTER_PORT (default 19091) and ENSEMBLE_PORT (default 22180) are as there.
# HEAP (default 1g) is the heap of each broker, ENSEMBLE_HEAP (default 256m) that of each ZooKeeper. COORDINATOR=own takes our own
# coordinators in place of ZooKeeper. KAFKA_SESSION_TIMEOUT_MS (default 18000) is the brokers' session timeout: Kafka cannot start again before the
# session of its killed process has ended. Needs Java 17 and Maven.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/../lib.sh"
directory=${CLUSTER_DIRECTORY:-${TMPDIR:-/tmp}/sillon-kafka-cluster}
export CLUSTER_PORT=${CLUSTER_PORT:-19091} ENSEMBLE_PORT=${ENSEMBLE_PORT:-22180}
. "$here/../brokers.sh"

prepare() {
  build_sillon || return
  jars=$("$here/kafka.sh" jars 39)
}

own_settings() {
  cat <<PROPERTIES
zookeeper.session.timeout.ms=${KAFKA_SESSION_TIMEOUT_MS:-18000}
transaction.state.log.replication.factor=$((brokers < 3 ? brokers : 3))
transaction.state.log.min.isr=$((brokers < 3 ? 1 : 2))
group.initial.rebalance.delay.ms=0
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
PROPERTIES
}

launch_broker() {
  setsid "${prefix[@]}" java "-Xms${HEAP:-1g}" "-Xmx${HEAP:-1g}" -XX:+UseG1GC "-DLOGF=${2%output}server.log" \
    "-Dlog4j.configuration=file:$here/log4j.properties" -cp "$jars/*" kafka.Kafka "$1" >>"$2" 2>&1 </dev/null &
}

ensemble() {
  if [ "${COORDINATOR:-zookeeper}" = own ]; then
    "$here/../ensemble.sh" "$@"
  else
    HEAP=${ENSEMBLE_HEAP:-256m} "$here/zookeeper.sh" "$@"
  fi
}

run_command "$(sed -n '2,9s/^# \{0,1\}//p' "$0")" "$@"
