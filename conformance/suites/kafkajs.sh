#!/usr/bin/env bash
# kafkajs: see clients/kafkajs/kafkajs.js. BOOTSTRAP is the broker.
. "$(dirname "$(realpath "$0")")/../lib.sh"
kafkajs_client
exec timeout 300 node "$conformance/clients/kafkajs/kafkajs.js" "$BOOTSTRAP"
