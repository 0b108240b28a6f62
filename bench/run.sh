#!/usr/bin/env bash
# run.sh [SUITE...] [--short] [--json] [--pairs N]: the broker against floors measured on this machine, each ratio with its bound.
# Needs Rust and nothing else. `run.sh --help` tells all options. Exit code 2 where a bound is missed.
set -euo pipefail
repository=$(dirname "$(dirname "$(realpath "$0")")")
cd "$repository"
cargo build --quiet --release -p sillon-broker -p sillon-bench --bins
exec "${CARGO_TARGET_DIR:-$repository/target}/release/sillon-bench" "$@"
