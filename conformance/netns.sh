#!/usr/bin/env bash
# A cluster whose brokers and coordinators live in network namespaces of their own on one bridge, under load while the network is cut; then everything
# is read back and judged as in chaos.sh. Needs root, iproute2 and nftables.
#
#   netns.sh [--kafka] [--short] [OPTIONS...]   everything: namespaces, cluster, load, every cut, the verdict (OPTIONS as for chaos.py)
#   netns.sh up | down                          only make or remove the namespaces
#   netns.sh cut WORD BROKER                    cut the network; heal: mend all cuts
#   netns.sh start|stop|kill|status|…           the commands of cluster.sh, inside the namespaces
#
# WORD is    from-brokers       BROKER and the other brokers do not hear each other; coordinators and clients hear it
#            from-coordinators  BROKER and the coordinators do not hear each other; brokers and clients hear it
#            unheard            the other brokers do not hear BROKER, but it hears them
#            deaf               BROKER does not hear the other brokers, but they hear it
#            vanished           nobody hears BROKER, and it hears nobody: no goodbye, no reset
# With leader- or controller- before it, it is a fault of chaos.py: the leader of partition 0, or the controller, is cut.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
bridge=sillon0
network=10.77.0
export BROKERS=${BROKERS:-3} MEMBERS=${MEMBERS:-3}
export CLUSTER_HOST=$network.1% ENSEMBLE_HOST=$network.2% CLUSTER_PREFIX='ip netns exec sillon-b%' ENSEMBLE_PREFIX='ip netns exec sillon-c%'
export CLUSTER_DIRECTORY=${CLUSTER_DIRECTORY:-${TMPDIR:-/tmp}/sillon-netns} CLUSTER_PORT=${CLUSTER_PORT:-9091} ENSEMBLE_PORT=${ENSEMBLE_PORT:-2180}
export INSIDE=${INSIDE:-$here/cluster.sh}
table=sillon_cut

broker_addresses() { for number in $(seq "$BROKERS"); do echo "$network.1$number"; done; }
coordinator_addresses() { for number in $(seq "$MEMBERS"); do echo "$network.2$number"; done; }
namespaces() {
  for number in $(seq "$BROKERS"); do echo "sillon-b$number $network.1$number"; done
  for number in $(seq "$MEMBERS"); do echo "sillon-c$number $network.2$number"; done
}
namespace_of() { namespaces | sed -n "s/ ${1//./\\.}\$//p"; }

up() {
  local name address
  down
  ip link add "$bridge" type bridge && ip addr add "$network.1/24" dev "$bridge" && ip link set "$bridge" up || return 1
  while read -r name address; do
    ip netns add "$name" && ip link add "v$name" type veth peer name eth0 netns "$name" && ip link set "v$name" master "$bridge" up &&
      ip -n "$name" addr add "$address/24" dev eth0 && ip -n "$name" link set eth0 up && ip -n "$name" link set lo up || return 1
  done < <(namespaces)
}

down() {
  local name
  while read -r name _; do
    ip link del "v$name" 2>/dev/null
    ip netns del "$name" 2>/dev/null
  done < <(namespaces)
  ip link del "$bridge" 2>/dev/null
  return 0
}

# drop ADDRESS CHAIN RULE...: adds a rule that drops packets, in the namespace of that address. Packets are dropped where they arrive, so that
# who sends them is told nothing.
drop() {
  local address=$1 chain=$2
  shift 2
  ip netns exec "$(namespace_of "$address")" nft -f - <<RULES
add table ip $table
add chain ip $table $chain { type filter hook $chain priority 0; policy accept; }
add rule ip $table $chain $* drop
RULES
}

# unheard FROM TO...: none of TO hears FROM any more.
unheard() {
  local from=$1 to
  shift
  for to in "$@"; do drop "$to" input ip saddr "$from" || return; done
}

cut_network() {
  local word=$1 victim=$network.1$2 other others coordinators
  [[ $2 =~ ^[1-9]$ ]] && [ "$2" -le "$BROKERS" ] || { echo "there is no broker $2" >&2; return 2; }
  mapfile -t others < <(broker_addresses | grep -vxF "$victim")
  mapfile -t coordinators < <(coordinator_addresses)
  case $word in
    from-brokers)
      unheard "$victim" "${others[@]}" && for other in "${others[@]}"; do unheard "$other" "$victim" || return; done
      ;;
    from-coordinators)
      unheard "$victim" "${coordinators[@]}" && for other in "${coordinators[@]}"; do unheard "$other" "$victim" || return; done
      ;;
    unheard) unheard "$victim" "${others[@]}" ;;
    deaf) for other in "${others[@]}"; do unheard "$other" "$victim" || return; done ;;
    vanished) drop "$victim" input iifname eth0 && drop "$victim" output oifname eth0 ;;
    *) echo "no cut is named $word" >&2 && return 2 ;;
  esac
}

heal() {
  local name
  while read -r name _; do
    ip netns exec "$name" nft delete table ip "$table" 2>/dev/null
  done < <(namespaces)
  return 0
}

# A cut that does not cut would pass every test: from-brokers on broker 1 has to be seen, and its end as well.
check_cuts() {
  local first=sillon-b1
  # Nobody listens there: a refusal is a sign of life, silence is none.
  hears() { ip netns exec "$first" timeout 1 bash -c "exec 3<>/dev/tcp/$1/9" 2>/dev/null; [ $? != 124 ]; }
  hears "$network.12" || { echo "broker 1's namespace does not reach broker 2's" >&2; return 1; }
  cut_network from-brokers 1 && ! hears "$network.12" && hears "$network.21" || { echo "the cut does not cut, or cuts too much" >&2; return 1; }
  heal && hears "$network.12" || { echo "the cut is not mended" >&2; return 1; }
}

everything() {
  local options=() faults=() word kind=leader
  for word in from-brokers from-coordinators unheard deaf vanished; do faults+=("leader-$word"); done
  for word in from-brokers from-coordinators vanished; do faults+=("controller-$word"); done
  for argument in "$@"; do
    case $argument in
      --kafka) export INSIDE=$here/peers/kafka-cluster.sh ;;
      --short) faults=("leader-from-brokers" "leader-vanished") ;;
      *) options+=("$argument") ;;
    esac
  done
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  need ip "install the package iproute2"
  need nft "install the package nftables"
  python_environment
  # So that who is cut off falls out of the replicas in sync before the cut ends.
  export CLUSTER_SETTINGS=${CLUSTER_SETTINGS:-replica.lag.time.max.ms=5000}
  CLUSTER_DIRECTORY=$(mktemp -d "${TMPDIR:-/tmp}/sillon-netns.XXXXXX")
  end() {
    local code=$?
    heal
    if [ "$code" = 0 ]; then "$INSIDE" remove; else "$INSIDE" stop; echo "kept: $CLUSTER_DIRECTORY"; fi
    down
  }
  trap end EXIT
  trap 'exit 130' INT TERM
  up && check_cuts || exit 2
  "$INSIDE" start || exit 2
  "$python" "$here/clients/python/chaos.py" --control "$here/netns.sh" --faults "$(IFS=,; echo "${faults[*]}")" --seconds 0 --down 15 "${options[@]}"
}

case ${1:-} in
  --help | -h | help) sed -n '2,18s/^# \{0,1\}//p' "$0" ;;
  up) up && check_cuts ;;
  down) heal; down ;;
  cut) [ $# = 3 ] || exit 2; cut_network "$2" "$3" ;;
  heal) heal ;;
  '' | -*) everything "$@" ;;
  *) exec "$INSIDE" "$@" ;;
esac
