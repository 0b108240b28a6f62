#!/usr/bin/env bash
# kazoo's own tests: see clients/kazoo/suite.py. CONNECT names the servers; CONTROL, where there is one, stops and starts them.
. "$(dirname "$(realpath "$0")")/../lib.sh"
python_environment kazoo "$conformance/clients/kazoo/requirements.txt"
export PYTHONDONTWRITEBYTECODE=1
control=()
[ -z "${CONTROL:-}" ] || control=(--control "$CONTROL")
exec timeout 900 "$python" "$conformance/clients/kazoo/suite.py" "${control[@]}" "$CONNECT"
