#!/usr/bin/env bash
# confluent: see clients/python/confluent.py. BOOTSTRAP is the broker.
. "$(dirname "$(realpath "$0")")/../lib.sh"
python_environment
exec timeout 300 "$python" "$conformance/clients/python/confluent.py" "$BOOTSTRAP"
