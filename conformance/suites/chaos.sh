#!/usr/bin/env bash
# Leaders, the controller and a coordinator killed with kill -9 under load: see clients/python/chaos.py. SHORT=1 strikes each once.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need_cluster
python_environment
seconds=60
[ "$SHORT" = 0 ] || seconds=0
judge() { "$python" "$conformance/clients/python/history_test.py"; }
wreak() {
  # shellcheck disable=SC2086 # The options are several words on purpose.
  "$python" "$conformance/clients/python/chaos.py" --control "$CLUSTER" --seconds "$seconds" ${CHAOS_OPTIONS:-} >"$WORK/chaos.output" 2>&1 || { grep FAIL "$WORK/chaos.output"; return 1; }
}
step "the judge finds damage made on purpose" judge
step "brokers, controller and coordinator killed: nothing lost, nothing twice, no order broken" wreak
sed -n '/^fault /,/^{/{/^{/d;s/^/     /;p}' "$WORK/chaos.output"
finish
