#!/usr/bin/env bash
# A cluster under load while its brokers, its controller and its coordinators are killed with kill -9 one after the other and started again; then
# everything is read back and judged: nothing acknowledged is lost, nothing is there twice, no order is broken.
#
#   chaos.sh [--full] [--kafka] [OPTIONS...]
#
#   --full    ten minutes instead of one
#   --kafka   a real Apache Kafka 3.9 (HEAP=256m will do) instead of a cluster of ours
# OPTIONS are those of clients/python/chaos.py: --faults leader,controller,coordinator,broker,pause --seconds N --rate N --partitions N --json FILE …
# CLUSTER names a script with the commands of cluster.sh whose cluster runs already; else one is started in a temporary directory.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
seconds=60 script=$here/cluster.sh options=()
for argument in "$@"; do
  case $argument in
    --full) seconds=600 ;;
    # It cannot start again before the session of its killed process has ended.
    --kafka) script=$here/peers/kafka-cluster.sh options+=(--down $((${KAFKA_SESSION_TIMEOUT_MS:-18000} / 1000 + 4))) ;;
    --help | -h) sed -n '2,11s/^# \{0,1\}//p' "$0" && exit ;;
    *) options+=("$argument") ;;
  esac
done
python_environment
python3 "$here/clients/python/history_test.py" 2>/dev/null || { echo "FAIL the judge misses damage that was made on purpose: run clients/python/history_test.py" >&2; exit 2; }

if [ -z "${CLUSTER:-}" ]; then
  export CLUSTER=$script CLUSTER_DIRECTORY CLUSTER_PORT ENSEMBLE_PORT
  CLUSTER_DIRECTORY=$(mktemp -d "${TMPDIR:-/tmp}/sillon-chaos.XXXXXX")
  CLUSTER_PORT=$(free_cluster_port)
  ENSEMBLE_PORT=$((CLUSTER_PORT + 1000))
  end() {
    local code=$?
    if [ "$code" = 0 ] && [ "${KEEP:-0}" = 0 ]; then "$CLUSTER" remove; else "$CLUSTER" stop; echo "kept: $CLUSTER_DIRECTORY"; fi
  }
  trap end EXIT
  trap 'exit 130' INT TERM
  "$CLUSTER" start || exit 2
fi
"$python" "$here/clients/python/chaos.py" --control "$CLUSTER" --seconds "$seconds" "${options[@]}"
