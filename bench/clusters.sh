# Clusters to be measured: what failover.sh and cluster.sh share. Sourced, never run.

bench=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
. "$bench/../conformance/lib.sh"
data=$(mktemp -d "${TMPDIR:-/tmp}/sillon-bench-cluster.XXXXXX")
started=()

# A script that controls one cluster: the control script with the environment that the cluster was started in.
# cluster_script NAME CONTROL SETTINGS...: writes it and prints its path.
cluster_script() {
  local name=$1 control=$2 port script=$data/$1.sh
  port=$(free_cluster_port)
  shift 2
  {
    echo '#!/usr/bin/env bash'
    printf 'export CLUSTER_DIRECTORY=%q CLUSTER_PORT=%q ENSEMBLE_PORT=%q\n' "$data/$name" "$port" "$((port + 1000))"
    [ $# = 0 ] || printf 'export %q\n' "$@"
    printf 'exec %q "$@"\n' "$control"
  } >"$script"
  chmod +x "$script"
  echo "$script"
}

# start_cluster NAME CONTROL SETTINGS...: starts it and adds it to `started`.
start_cluster() {
  local script
  script=$(cluster_script "$@")
  "$script" start >&2 || return 1
  started+=("$1=$script")
}

end_clusters() {
  local one
  for one in "${started[@]}"; do "${one#*=}" remove; done
  rm -rf "$data"
}
trap end_clusters EXIT
trap 'exit 130' INT TERM
