#!/usr/bin/env bash
# kafka-python: see clients/python/kafka_python.py. BOOTSTRAP is the broker.
. "$(dirname "$(realpath "$0")")/../lib.sh"
python_environment
exec timeout 300 "$python" "$conformance/clients/python/kafka_python.py" "$BOOTSTRAP"
