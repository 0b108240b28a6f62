#!/usr/bin/env bash
# aiokafka: see clients/python/aio_kafka.py. BOOTSTRAP is the broker.
. "$(dirname "$(realpath "$0")")/../lib.sh"
python_environment
exec timeout 300 "$python" "$conformance/clients/python/aio_kafka.py" "$BOOTSTRAP"
