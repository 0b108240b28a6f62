#!/usr/bin/env bash
# kafka.sh [SUITE...] [--short] [--json] [--pairs N]: as run.sh, with Apache Kafka 3.9 (and its ZooKeeper) taking its turn in every run.
# SUITE is some of produce, fetch, latency; all three where none is named. Kafka is warmed up with 2 GB first.
# Needs Java 17 and Maven, which fetches Kafka from Maven Central the first time. HEAP=1g is Kafka's heap.
set -euo pipefail
repository=$(dirname "$(dirname "$(realpath "$0")")")
missing=()
command -v java >/dev/null || missing+=("java (package openjdk-17-jre-headless)")
command -v mvn >/dev/null || missing+=("mvn (package maven)")
if [ ${#missing[@]} -gt 0 ]; then
  printf 'Apache Kafka cannot be started here; missing: %s\n' "${missing[@]}" >&2
  exit 1
fi

suites=()
for argument in "$@"; do
  case $argument in produce | fetch | latency) suites+=("$argument") ;; esac
done
[ ${#suites[@]} -gt 0 ] || set -- produce fetch latency "$@"

cd "$repository"
cargo build --quiet --release -p sillon-broker -p sillon-bench --bins
data=$(mktemp -d "${TMPDIR:-/tmp}/sillon-bench-kafka.XXXXXX")
peer=$repository/conformance/peers/kafka.sh
trap '"$peer" down "$data"; rm -rf "$data"' EXIT
trap 'exit 130' INT TERM
port=$((20000 + RANDOM % 9000))
pid=$("$peer" up zk39 "$data" "$port" log.segment.delete.delay.ms=0 | tail -n 1)
"${CARGO_TARGET_DIR:-$repository/target}/release/sillon-bench" --kafka "127.0.0.1:$port,$pid" "$@"
