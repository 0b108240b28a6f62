#!/usr/bin/env bash
# Three brokers with acks=all and three replicas: CPU of all brokers per gigabyte, latency at 1,000 records/s, 1,000 idle partitions.
#
#   cluster.sh [SUITE...] [--kafka] [--short] [--json] [--pairs N]
#
# SUITE is some of replication, latency, idle; all three where none is named.
#   --kafka   an Apache Kafka 3.9 cluster takes its turn in every run (needs Java and Maven; HEAP=1g is the heap of each broker)
# Exit code 2 where a bound is missed. The data is kept in TMPDIR while measuring: 30 GB of room are enough.
set -uo pipefail
. "$(dirname "$(realpath "$0")")/clusters.sh"
kafka=0 options=()
for argument in "$@"; do
  case $argument in
    --kafka) kafka=1 ;;
    --help | -h) sed -n '2,8s/^# \{0,1\}//p' "$0" && exit ;;
    *) options+=("$argument") ;;
  esac
done
(cd "$repository" && cargo build --quiet --release -p sillon-bench --bin sillon-cluster-bench) || exit 1
[ "${ONLY_KAFKA:-0}" = 1 ] || start_cluster sillon "$conformance/cluster.sh" CLUSTER_SETTINGS=log.segment.delete.delay.ms=0 || exit 1
[ "$kafka" = 0 ] || start_cluster Kafka "$conformance/peers/kafka-cluster.sh" CLUSTER_SETTINGS=log.segment.delete.delay.ms=0 || exit 1
clusters=()
for one in "${started[@]}"; do clusters+=(--cluster "$one"); done
"${CARGO_TARGET_DIR:-$repository/target}/release/sillon-cluster-bench" "${clusters[@]}" "${options[@]}"
