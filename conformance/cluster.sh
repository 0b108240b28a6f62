#!/usr/bin/env bash
# A cluster of brokers and coordinators on this machine.
#
#   cluster.sh start [N...]          start everything with the data it has, and wait until every broker sees all; or only brokers N
#   cluster.sh stop [N...]           ask everything to end: brokers first, the controller last of them, then coordinators; or only brokers N
#   cluster.sh kill N...             kill -9 brokers;  pause N... and resume N... stop and continue them
#   cluster.sh status                a line for each broker and coordinator
#   cluster.sh leader TOPIC P        the broker that leads a partition
#   cluster.sh controller            the broker that is the controller
#   cluster.sh bootstrap|connect     where the brokers and the coordinators listen
#   cluster.sh pid N...|pids         process ids
#   cluster.sh directories           the brokers' log directories
#   cluster.sh start-coordinator|stop-coordinator|kill-coordinator N...   and lead-coordinator: the number of the one that leads
#   cluster.sh remove                kill everything and remove its data
#
# BROKERS=3 and MEMBERS=3 are how many, numbered from 1. CLUSTER_DIRECTORY (default data/cluster) is where everything is kept: broker N in
# brokers/N (server.properties, log, output, pid), coordinator N in coordinators/N. Broker N listens on CLUSTER_PORT+N (default 9091), in
# rack rN; coordinator N on ENSEMBLE_PORT+N (default 2180). CLUSTER_SETTINGS are more lines for server.properties. SILLON_BROKER,
# SILLON_COORDINATOR and SILLON name programs to use instead of building them.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
directory=${CLUSTER_DIRECTORY:-$repository/data/cluster}
. "$here/brokers.sh"

prepare() {
  build_broker && build_coordinator && build_sillon
}

own_settings() { :; }

launch_broker() {
  setsid "${prefix[@]}" "$SILLON_BROKER" --config "$1" >>"$2" 2>&1 </dev/null &
}

ensemble() { "$here/ensemble.sh" "$@"; }

run_command "$(sed -n '2,22s/^# \{0,1\}//p' "$0")" "$@"
