#!/usr/bin/env bash
# rust-rdkafka's own tests: which are asked: clients/rust-rdkafka/suite.expected. They want broker 0 at localhost:9092, so that broker and
# tests run in a network namespace of their own. They write time stamps of 1970, which no retention may remove.
. "$(dirname "$(realpath "$0")")/../lib.sh"
. "$conformance/tests.sh"
[ "$(id -u)" = 0 ] || skip "only root may make a network namespace"
need unshare "install the package util-linux"
need ip "install the package iproute2"
build_broker || { echo "FAIL the broker does not build"; exit 1; }
crate_source rdkafka 0.39.0
# The versions that it was published with need an older Rust.
rm -f "$crate/Cargo.lock"
grep -q '^\[workspace\]' "$crate/Cargo.toml" || echo '[workspace]' >>"$crate/Cargo.toml"
target=$cache/target-of-clients
(cd "$crate" && CARGO_TARGET_DIR=$target cargo test --quiet --no-run --tests) >"$WORK/rust-rdkafka-build" 2>&1 || { tail -n 5 "$WORK/rust-rdkafka-build"; echo "FAIL rust-rdkafka's tests do not build"; exit 1; }

in_namespace() {
  ip link set lo up
  start_broker "$WORK/rust-rdkafka" 9092 --override broker.id=0 --override num.partitions=3 --override log.retention.ms=-1 --override group.initial.rebalance.delay.ms=0 || return
  (cd "$crate" && KAFKA_HOST=localhost:9092 KAFKA_VERSION=4.1.0 CARGO_TARGET_DIR=$target timeout 900 cargo test --offline --tests --no-fail-fast) >"$WORK/rust-rdkafka-output" 2>&1
  stop_broker "$BROKER_PID"
}
export -f in_namespace start_broker stop_broker
export crate target
unshare --net bash -c in_namespace || { echo "FAIL the broker in its network namespace"; exit 1; }
crate_results "$WORK/rust-rdkafka-output" >"$WORK/rust-rdkafka-results"
judge_results "$conformance/clients/rust-rdkafka/suite.expected" "$WORK/rust-rdkafka-results"
finish
