#!/usr/bin/env bash
# rskafka's own tests: which are asked: clients/rskafka/suite.expected, of which 59 reach the broker. The broker makes no topics by itself.
. "$(dirname "$(realpath "$0")")/../lib.sh"
. "$conformance/tests.sh"
crate_source rskafka 0.6.0
# The versions that it was published with need an older Rust.
rm -f "$crate/Cargo.lock" "$crate/rust-toolchain.toml"
grep -q '^\[workspace\]' "$crate/Cargo.toml" || echo '[workspace]' >>"$crate/Cargo.toml"
target=$cache/target-of-clients
build() { (cd "$crate" && CARGO_TARGET_DIR=$target cargo test --quiet --no-run --tests --features full); }
build >"$WORK/rskafka-build" 2>&1 || { tail -n 5 "$WORK/rskafka-build"; echo "FAIL rskafka's tests do not build"; exit 1; }
own_broker auto.create.topics.enable=false num.partitions=4 group.initial.rebalance.delay.ms=0
(cd "$crate" && TEST_INTEGRATION=1 TEST_BROKER_IMPL=kafka KAFKA_CONNECT=$BOOTSTRAP CARGO_TARGET_DIR=$target timeout 600 cargo test --tests --features full --no-fail-fast) >"$WORK/rskafka-output" 2>&1
crate_results "$WORK/rskafka-output" >"$WORK/rskafka-results"
judge_results "$conformance/clients/rskafka/suite.expected" "$WORK/rskafka-results"
finish
