# What cluster.sh and peers/kafka-cluster.sh share: brokers on top of an ensemble of coordinators, started, stopped, killed and asked how they
# are. Sourced, never run. Both scripts take the same commands, so that a suite, chaos or a bench can be given either.
#
# Who sources it sets `directory` (where everything is kept) and defines
#   prepare                      makes ready what `launch_broker` needs: builds or fetches the server
#   own_settings NUMBER          prints the lines of the broker's configuration that only this server needs
#   launch_broker FILE OUTPUT    starts the broker in the background, the words of `prefix` before its program
#   ensemble COMMAND...          the script that runs the coordinators
#
# Read from the environment:
#   BROKERS=3 MEMBERS=3     how many brokers and coordinators, numbered from 1
#   CLUSTER_PORT=9091       broker N listens on CLUSTER_PORT+N
#   ENSEMBLE_PORT=2180      coordinator N serves on ENSEMBLE_PORT+N
#   CLUSTER_SETTINGS        more lines of the brokers' configuration, KEY=VALUE, separated by newlines
#   CLUSTER_HOST            the address of broker N, where % stands for N (default 127.0.0.1)
#   CLUSTER_PREFIX          words before the broker's program, where % stands for N
#   CLUSTER_LIMIT=60        how long a start or a stop may take, in seconds
brokers=${BROKERS:-3}
members=${MEMBERS:-3}
broker_base_port=${CLUSTER_PORT:-9091}
limit=${CLUSTER_LIMIT:-60}
export ENSEMBLE_SIZE=$members ENSEMBLE_DIRECTORY=$directory/coordinators ENSEMBLE_PORT=${ENSEMBLE_PORT:-2180}

broker_directory() { echo "$directory/brokers/$1"; }
broker_port() { echo $((broker_base_port + $1)); }
broker_host() {
  local pattern=${CLUSTER_HOST:-127.0.0.1}
  echo "${pattern//%/$1}"
}
broker_address() { echo "$(broker_host "$1"):$(broker_port "$1")"; }

bootstrap() {
  local number
  for number in $(seq "$brokers"); do broker_address "$number"; done | paste -sd,
}

# The process id of a broker that runs; fails where it does not.
broker_pid() {
  local pid
  pid=$(cat "$(broker_directory "$1")/pid" 2>/dev/null) && runs "$pid" && echo "$pid"
}

# tool COMMAND...: our own command line tool, which asks whichever broker answers first.
tool() { "$SILLON" --bootstrap-server "$(bootstrap)" --timeout "${TOOL_TIMEOUT:-5}" "$@"; }

write_broker_configuration() {
  home=$(broker_directory "$number")
  mkdir -p "$home"
  cat >"$home/server.properties" <<PROPERTIES
broker.id=$number
broker.rack=r$number
listeners=PLAINTEXT://$(broker_address "$number")
zookeeper.connect=$(ensemble connect)
log.dirs=$home/log
default.replication.factor=$((brokers < 3 ? brokers : 3))
min.insync.replicas=$((brokers < 3 ? 1 : 2))
offsets.topic.replication.factor=$((brokers < 3 ? brokers : 3))
$(own_settings "$number")
${CLUSTER_SETTINGS:-}
PROPERTIES
}

start_brokers() {
  local number
  for number in "$@"; do
    ! broker_pid "$number" >/dev/null || continue
    if (exec 3<>"/dev/tcp/$(broker_host "$number")/$(broker_port "$number")") 2>/dev/null; then
      echo "something else listens on $(broker_address "$number")" >&2
      return 1
    fi
    write_broker_configuration "$number"
    local text=${CLUSTER_PREFIX:-} home
    home=$(broker_directory "$number")
    read -ra prefix <<<"${text//%/$number}"
    launch_broker "$home/server.properties" "$home/output"
    echo $! >"$home/pid"
  done
}

# sees NUMBER COUNT: broker NUMBER answers and knows of so many brokers.
sees() {
  local count
  count=$("$SILLON" --bootstrap-server "$(broker_address "$1")" --timeout 1 cluster describe 2>/dev/null | grep -c '	Broker: ')
  [ "$count" -ge "$2" ]
}

# wait_for_brokers COUNT NUMBER...: each of them sees so many brokers, or it fails and shows the end of what the broker printed.
wait_for_brokers() {
  local count=$1 number deadline=$((SECONDS + limit))
  shift
  for number in "$@"; do
    until sees "$number" "$count"; do
      if ! broker_pid "$number" >/dev/null || [ $SECONDS -ge $deadline ]; then
        echo "broker $number does not see $count brokers; the end of $(broker_directory "$number")/output:" >&2
        tail -n 20 "$(broker_directory "$number")/output" >&2
        return 1
      fi
      sleep 0.1
    done
  done
}

count_running() {
  local number count=0
  for number in $(seq "$brokers"); do
    ! broker_pid "$number" >/dev/null || count=$((count + 1))
  done
  echo "$count"
}

tell_addresses() {
  echo "bootstrap $(bootstrap)"
  echo "connect   $(ensemble connect)"
}

start_all() {
  prepare || return 1
  mapfile -t numbers < <(seq "$brokers")
  [ "$(count_running)" -lt "$brokers" ] || echo "the cluster is up already"
  mkdir -p "$directory"
  ensemble start || return 1
  start_brokers "${numbers[@]}" && wait_for_brokers "$brokers" "${numbers[@]}" || return 1
  tell_addresses
}

# start_some NUMBER...: returns when each of them answers; what it knows of the others is not asked.
start_some() {
  prepare && start_brokers "$@" && wait_for_brokers 1 "$@"
}

# end_brokers SIGNAL NUMBER...: sends the signal to all of them, then waits for their end.
end_brokers() {
  local signal=$1 number pid
  shift
  for number in "$@"; do
    ! pid=$(broker_pid "$number") || kill "-$signal" "$pid"
  done
  for number in "$@"; do
    for _ in $(seq $((limit * 20))); do
      broker_pid "$number" >/dev/null || continue 2
      sleep 0.05
    done
    echo "broker $number runs on $limit s after SIG$signal" >&2
    return 1
  done
}

# The brokers one after the other, the controller last, so that somebody is there to move leaders to; then the coordinators.
stop_all() {
  local number last code=0 order=()
  [ "$(count_running)" -gt 0 ] || [ -d "$directory" ] || { echo "there is no cluster in $directory"; return 0; }
  build_sillon || return 1
  last=$(controller 2>/dev/null)
  for number in $(seq "$brokers"); do [ "$number" = "$last" ] || order+=("$number"); done
  for number in "${order[@]}" $last; do end_brokers TERM "$number" || code=1; done
  ensemble stop || code=1
  return "$code"
}

print_status() {
  local number pid role current
  current=$(controller 2>/dev/null)
  for number in $(seq "$brokers"); do
    role=down
    if pid=$(broker_pid "$number"); then role=$(sees "$number" 1 && echo serves || echo starting); else pid=-; fi
    [ "$number" != "$current" ] || role+=,controller
    echo "broker $number $(broker_address "$number") $role $pid"
  done
  ensemble status | sed 's/^/coordinator /'
}

# leader TOPIC PARTITION: the broker that leads it.
leader() {
  local found
  found=$(tool topics describe "$1" | sed -nE "s/^	Topic: [^	]+	Partition: $2	Leader: ([^	]+)	.*/\1/p") || return 1
  [[ $found =~ ^[0-9]+$ ]] || { echo "no broker leads $1-$2" >&2; return 1; }
  echo "$found"
}

controller() {
  local found
  found=$(tool cluster describe | sed -nE 's/^ClusterId: .*	Controller: ([^	]+)	.*/\1/p') || return 1
  [[ $found =~ ^[0-9]+$ ]] || { echo "no broker is the controller" >&2; return 1; }
  echo "$found"
}

# check_numbers MOST NUMBER...
check_numbers() {
  local most=$1 number
  shift
  for number in "$@"; do
    [[ $number =~ ^[0-9]+$ ]] && [ "$number" -ge 1 ] && [ "$number" -le "$most" ] || { echo "numbers are 1 to $most, not $number" >&2; return 2; }
  done
}

# run_command USAGE COMMAND ARGUMENTS...: what both scripts do with their arguments.
run_command() {
  local usage=$1 command=${2:-} arguments=("${@:3}")
  case $command in
    start | stop | kill | pause | resume | pid) check_numbers "$brokers" "${arguments[@]}" || return ;;
    *-coordinator) check_numbers "$members" "${arguments[@]}" || return ;;
  esac
  case $command in
    leader | controller | status) build_sillon || return ;;
    kill | pause | resume | pid) [ ${#arguments[@]} -gt 0 ] || { echo "$command which broker?" >&2; return 2; } ;;
    start-coordinator | stop-coordinator | kill-coordinator) [ ${#arguments[@]} -gt 0 ] || { echo "$command which?" >&2; return 2; } ;;
  esac
  case $command in
    start) if [ ${#arguments[@]} = 0 ]; then start_all; else start_some "${arguments[@]}"; fi ;;
    stop) if [ ${#arguments[@]} = 0 ]; then stop_all; else end_brokers TERM "${arguments[@]}"; fi ;;
    kill) end_brokers KILL "${arguments[@]}" ;;
    pause) for number in "${arguments[@]}"; do kill -STOP "$(broker_pid "$number")" || return; done ;;
    resume) for number in "${arguments[@]}"; do kill -CONT "$(broker_pid "$number")" || return; done ;;
    pid) for number in "${arguments[@]}"; do broker_pid "$number" || return; done ;;
    pids) for number in $(seq "$brokers"); do broker_pid "$number"; done | paste -sd, ;;
    start-coordinator) ensemble start "${arguments[@]}" ;;
    stop-coordinator) ensemble stop "${arguments[@]}" ;;
    kill-coordinator) ensemble kill "${arguments[@]}" ;;
    lead-coordinator) ensemble leader ;;
    status) print_status ;;
    leader) [ ${#arguments[@]} = 2 ] || { echo "leader TOPIC PARTITION" >&2; return 2; }; leader "${arguments[@]}" ;;
    controller) controller ;;
    bootstrap) bootstrap ;;
    connect) ensemble connect ;;
    directories) for number in $(seq "$brokers"); do echo "$(broker_directory "$number")/log"; done ;;
    remove)
      mapfile -t numbers < <(seq "$brokers")
      end_brokers KILL "${numbers[@]}"
      ensemble kill
      rm -rf "$directory"
      ;;
    *) echo "$usage" >&2 && return 2 ;;
  esac
}
