#!/usr/bin/env bash
# Apache Kafka's Java client: see clients/java. BOOTSTRAP is the broker; KAFKA_CLIENTS_VERSION another version of kafka-clients.
. "$(dirname "$(realpath "$0")")/../lib.sh"
java_client
exec timeout 300 "${java_command[@]}" JavaClient "$BOOTSTRAP"
