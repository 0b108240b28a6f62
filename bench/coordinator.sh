#!/usr/bin/env bash
# coordinator.sh [SUITE...] [--short] [--json] [--pairs N]: the coordinator and a real ZooKeeper 3.8.4, taking turns under the same load.
# SUITE is some of throughput, failover, memory, slope. Where Java 17 or Maven is missing, or with COMPARE=0, the coordinator is measured alone;
# with COMPARE=only ZooKeeper is. HEAP=3g is the heap of each ZooKeeper. `--help` tells all options. Exit code 2 where a bound is missed.
set -euo pipefail
repository=$(dirname "$(dirname "$(realpath "$0")")")
cd "$repository"
peer=$repository/conformance/peers/zookeeper.sh
options=(--coordinator "$repository/conformance/ensemble.sh")
if [ "${COMPARE:-1}" = 0 ]; then
  :
elif ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
  echo "no ZooKeeper to compare with: Java (package openjdk-17-jre-headless) or Maven (package maven) is missing" >&2
else
  "$repository/conformance/peers/kafka.sh" jars 39 >/dev/null
  options+=(--zookeeper "$peer")
fi
export HEAP=${HEAP:-3g}
programs=${CARGO_TARGET_DIR:-$repository/target}/release
if [ "${COMPARE:-1}" = only ]; then
  options+=(--without-coordinator)
else
  cargo build --quiet --release -p sillon-coordinator --bin sillon-coordinator
  export SILLON_COORDINATOR=${SILLON_COORDINATOR:-$programs/sillon-coordinator}
fi
cargo build --quiet --release -p sillon-bench --bin sillon-coordinator-bench
exec "$programs/sillon-coordinator-bench" "${options[@]}" "$@"
