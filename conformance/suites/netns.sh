#!/usr/bin/env bash
# The network of a cluster cut in network namespaces: see ../netns.sh. Starts a cluster of its own.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need_cluster
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
need ip "install the package iproute2"
need nft "install the package nftables"
options=()
[ "$SHORT" = 0 ] || options+=(--short)
cuts() {
  env -u CLUSTER_DIRECTORY -u CLUSTER_PORT -u ENSEMBLE_PORT -u ENSEMBLE_DIRECTORY INSIDE="$CLUSTER" "$conformance/netns.sh" "${options[@]}" >"$WORK/netns.output" 2>&1 ||
    { grep -E 'FAIL|not' "$WORK/netns.output"; return 1; }
}
step "every cut: nothing lost, nothing twice, and back in sync" cuts
sed -n '/^fault /,/^{/{/^{/d;s/^/     /;p}' "$WORK/netns.output"
finish
