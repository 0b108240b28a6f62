#!/usr/bin/env bash
# Twenty rounds of kill -9 under an idempotent producer (SHORT=1: five): see clients/python/kill9.py. Starts its own SILLON_BROKER.
. "$(dirname "$(realpath "$0")")/../lib.sh"
[ -n "${SILLON_BROKER:-}" ] || skip "the broker is not ours to kill"
python_environment
rounds=20
[ "$SHORT" = 0 ] || rounds=5
port=$(free_port)
mkdir -p "$WORK/kill9"
exec timeout 900 "$python" "$conformance/clients/python/kill9.py" --port "$port" --rounds "$rounds" -- \
  sh -c 'exec "$@" >>"$0" 2>&1' "$WORK/kill9/output" \
  "$SILLON_BROKER" --override "listeners=PLAINTEXT://127.0.0.1:$port" --override "log.dirs=$WORK/kill9/log"
