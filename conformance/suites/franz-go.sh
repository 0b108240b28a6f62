#!/usr/bin/env bash
# franz-go: see clients/franz-go. BOOTSTRAP is the broker.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need go "install Go 1.26 from https://go.dev/dl"
mkdir -p "$cache"
(cd "$conformance/clients/franz-go" && go build -o "$cache/franz-go" .) || { echo "FAIL the franz-go client does not build"; exit 1; }
exec timeout 300 "$cache/franz-go" "$BOOTSTRAP"
