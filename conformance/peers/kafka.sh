#!/usr/bin/env bash
# A real Apache Kafka from Maven Central, to compare with.
#
#   kafka.sh up zk39|kraft41 DIR [PORT=9092] [KEY=VALUE...]   start one broker with its data in DIR; prints its pid
#   kafka.sh down DIR                                         stop what DIR started
#   kafka.sh tool 28|39|41 CLASS ARGUMENTS...                 run one of Kafka's tools, e.g. tool 39 kafka.tools.DumpLogSegments --files F
#   kafka.sh jars 28|39|41                                    fetch the jars and print the folder that they are in
#
# zk39 is Kafka 3.9.1 on its own ZooKeeper 3.8.4 (which takes PORT+100); kraft41 is Kafka 4.1.2 (whose controller takes PORT+100).
# 28 is Kafka 2.8.2, the last whose tools talk to ZooKeeper.
# HEAP (default 1g) is the broker's heap. The jars are fetched once, into KAFKA_JARS (default ~/.cache/sillon-peers).
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cache=${KAFKA_JARS:-$HOME/.cache/sillon-peers}
heap=${HEAP:-1g}

usage() {
  sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

# The folder with the jars of one version, fetched the first time.
jars() {
  local folder=$cache/lib$1
  if [ ! -d "$folder" ]; then
    command -v mvn >/dev/null || { echo "Maven is missing: install the package maven" >&2; exit 1; }
    mkdir -p "$cache"
    rm -rf "$folder.tmp"
    mvn -q -B -f "$here/kafka$1/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder.tmp" >&2
    mv "$folder.tmp" "$folder"
  fi
  echo "$folder"
}

# java_in LOG_FILE JARS: the words of a java command that logs to a file.
java_command() {
  java=(java "-DLOGF=$1" "-Dlog4j.configuration=file:$here/log4j.properties" "-Dlog4j2.configurationFile=file:$here/log4j2.properties" -cp "$2/*")
}

# launch LOG_FILE JARS JVM_OPTIONS CLASS ARGUMENTS...: start a server in the background and note its pid in DIR/pids.
launch() {
  local log=$1 options=$3
  java_command "$log" "$2"
  shift 3
  # shellcheck disable=SC2086 # The options are several words on purpose.
  setsid "${java[0]}" $options "${java[@]:1}" "$@" >"$log.out" 2>&1 </dev/null &
  echo $! >>"$directory/pids"
}

wait_for_port() {
  for _ in $(seq 300); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "port $1 never opened; see the logs in $directory" >&2
  exit 1
}

up() {
  [ $# -ge 2 ] || usage
  local mode=$1 port=${3:-9092}
  mkdir -p "$2"
  directory=$(realpath "$2")
  local side_port=$((port + 100)) configuration=$directory/broker.properties
  local more=("${@:4}")
  : >"$directory/pids"
  cat >"$configuration" <<PROPERTIES
log.dirs=$directory/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
PROPERTIES
  case $mode in
    zk39)
      lib=$(jars 39)
      cat >"$directory/zookeeper.properties" <<PROPERTIES
dataDir=$directory/zookeeper
clientPort=$side_port
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
PROPERTIES
      launch "$directory/zookeeper.log" "$lib" -Xmx256m org.apache.zookeeper.server.quorum.QuorumPeerMain "$directory/zookeeper.properties"
      wait_for_port "$side_port"
      cat >>"$configuration" <<PROPERTIES
broker.id=1
listeners=PLAINTEXT://127.0.0.1:$port
zookeeper.connect=127.0.0.1:$side_port
PROPERTIES
      ;;
    kraft41)
      lib=$(jars 41)
      cat >>"$configuration" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$side_port
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$side_port
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
PROPERTIES
      java_command "$directory/format.log" "$lib"
      "${java[@]}" kafka.tools.StorageTool format --ignore-formatted -t c2lsbG9uLXBlZXItMDAwMQ -c "$configuration" >/dev/null
      ;;
    *) usage ;;
  esac
  [ ${#more[@]} = 0 ] || printf '%s\n' "${more[@]}" >>"$configuration"
  launch "$directory/broker.log" "$lib" "-Xms$heap -Xmx$heap -XX:+UseG1GC" kafka.Kafka "$configuration"
  wait_for_port "$port"
  tail -n 1 "$directory/pids"
}

down() {
  local pid
  [ -f "$1/pids" ] || return 0
  tac "$1/pids" | while read -r pid; do
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 100); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
  done
  rm -f "$1/pids"
}

case ${1:-} in
  up) up "${@:2}" ;;
  down) [ $# = 2 ] || usage; down "$2" ;;
  tool)
    [ $# -ge 3 ] || usage
    java_command /dev/null "$(jars "$2")"
    exec "${java[@]}" "${@:3}"
    ;;
  jars)
    [ $# = 2 ] || usage
    jars "$2"
    ;;
  *) usage ;;
esac
