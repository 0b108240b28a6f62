#!/usr/bin/env bash
# How long partitions stand still when a broker dies: the longest gap between two acknowledged records, with the default configuration.
#
#   failover.sh [--kafka] [--short] [--vanish] [OPTIONS...]
#
# Runs kill -9 of the leader and of the controller, with 10 and with 1,000 partitions, and kill -9 with a start at once.
#   --kafka    an Apache Kafka 3.9 cluster takes turns with ours (needs Java and Maven; HEAP=1g is the heap of each broker)
#   --short    10 partitions only
#   --vanish   the machine of the leader vanishes instead (network namespaces: needs root, iproute2, nftables); ours only
# OPTIONS are those of failover.py: --runs N --json FILE --bound MS --each …  With --victim, --end or --partitions only that one is run.
set -uo pipefail
. "$(dirname "$(realpath "$0")")/clusters.sh"
kafka=0 short=0 vanish=0 single=0 options=()
for argument in "$@"; do
  case $argument in
    --kafka) kafka=1 ;;
    --short) short=1 ;;
    --vanish) vanish=1 ;;
    --help | -h) sed -n '2,10s/^# \{0,1\}//p' "$0" && exit ;;
    --victim* | --end* | --partitions*) single=1 options+=("$argument") ;;
    *) options+=("$argument") ;;
  esac
done
python_environment
# Built once: a control script that looks whether everything is built takes a second of each measured start.
build_broker && build_coordinator && build_sillon || exit 1

if [ "$vanish" = 1 ]; then
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  "$conformance/netns.sh" up || exit 1
  started=("sillon=$data/netns.sh")
  printf '#!/usr/bin/env bash\nexport CLUSTER_DIRECTORY=%q\nexec %q "$@"\n' "$data/netns" "$conformance/netns.sh" >"$data/netns.sh"
  chmod +x "$data/netns.sh"
  trap 'end_clusters; "$conformance/netns.sh" down' EXIT
  "$data/netns.sh" start >&2 || exit 1
  single=1 options+=(--end vanish)
else
  [ "${ONLY_KAFKA:-0}" = 1 ] || start_cluster sillon "$conformance/cluster.sh" || exit 1
  [ "$kafka" = 0 ] || start_cluster Kafka "$conformance/peers/kafka-cluster.sh" || exit 1
fi
clusters=()
for one in "${started[@]}"; do clusters+=(--cluster "$one"); done

code=0
measure() { "$python" "$bench/failover.py" "${clusters[@]}" "$@" "${options[@]}" || code=$?; }
if [ "$single" = 1 ]; then
  measure
else
  for partitions in 10 1000; do
    [ "$partitions" = 10 ] || [ "$short" = 0 ] || continue
    for victim in leader controller; do measure --victim "$victim" --partitions "$partitions"; done
    # A killed Kafka that is started again at once ends by itself, because the session of its killed process still holds its number.
    [ "$kafka" = 1 ] || measure --end restart --partitions "$partitions"
  done
fi
exit "$code"
