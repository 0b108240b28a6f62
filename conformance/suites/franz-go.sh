#!/usr/bin/env bash
# franz-go: see clients/franz-go. BOOTSTRAP is the broker.
. "$(dirname "$(realpath "$0")")/../lib.sh"
franz_go_client
exec timeout 300 "$franz_go" "$BOOTSTRAP"
