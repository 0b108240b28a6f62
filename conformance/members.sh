# What ensemble.sh and peers/zookeeper.sh share: writing the configuration of the members, starting, stopping and killing them, and asking them
# how they are. Sourced, never run. Both scripts take the same commands, so that a suite can be given either.
#
# Who sources it sets `directory` (where the members keep their files), `base_port` and `size`, and defines
#   prepare                 makes ready what `launch` needs: builds or fetches the server
#   own_configuration       prints the lines of zoo.cfg that only this server needs
#   launch DIRECTORY        starts the member with DIRECTORY/zoo.cfg in the background, the words of `prefix` before its program

member_directory() { echo "$directory/$1"; }
client_port() { echo $((base_port + $1)); }

# The address of a member: ENSEMBLE_HOST, where % stands for its number (default 127.0.0.1).
member_host() {
  local pattern=${ENSEMBLE_HOST:-127.0.0.1}
  echo "${pattern//%/$1}"
}

# member_prefix MEMBER: sets `prefix` to the words to be put before the member's program, ENSEMBLE_PREFIX, where % stands for its number: the way
# into a network namespace, say.
member_prefix() {
  local text=${ENSEMBLE_PREFIX:-}
  read -ra prefix <<<"${text//%/$1}"
}

connect_string() {
  local list
  list=$(for member in $(seq "$size"); do echo "$(member_host "$member"):$(client_port "$member")"; done)
  paste -sd, <<<"$list"
}

# write_configuration MEMBER: zoo.cfg and myid. An ensemble of one is a standalone server, which has no server.N lines.
write_configuration() {
  local member=$1 home other
  home=$(member_directory "$member")
  mkdir -p "$home/data"
  cat >"$home/zoo.cfg" <<CONFIGURATION
tickTime=2000
initLimit=10
syncLimit=5
dataDir=$home/data
clientPort=$(client_port "$member")
clientPortAddress=$(member_host "$member")
maxClientCnxns=0
4lw.commands.whitelist=*
$(own_configuration)
CONFIGURATION
  [ "$size" -gt 1 ] || return 0
  echo "$member" >"$home/data/myid"
  for other in $(seq "$size"); do
    echo "server.$other=$(member_host "$other"):$((base_port + 100 + other)):$((base_port + 200 + other))" >>"$home/zoo.cfg"
  done
}

# The process id of a member that runs; fails where it does not.
running_pid() {
  local pid
  pid=$(cat "$(member_directory "$1")/pid" 2>/dev/null) && runs "$pid" && echo "$pid"
}

# mode MEMBER: standalone, leader, follower or read-only; `electing` where it answers but serves nobody; `down` where it does not answer.
mode() {
  local port answer
  port=$(client_port "$1")
  answer=$({ exec 3<>"/dev/tcp/$(member_host "$1")/$port" && printf srvr >&3 && timeout 2 cat <&3; } 2>/dev/null)
  case $answer in
    *Mode:*) sed -n 's/^Mode: //p' <<<"$answer" ;;
    '') echo down ;;
    *) echo electing ;;
  esac
}

# wait_until_serving MEMBER: within a minute, or it fails and shows the end of what the member printed.
wait_until_serving() {
  local deadline=$((SECONDS + ${SERVING_LIMIT:-60}))
  while [ $SECONDS -lt $deadline ]; do
    case $(mode "$1") in down | electing) ;; *) return 0 ;; esac
    running_pid "$1" >/dev/null || break
    sleep 0.1
  done
  echo "member $1 does not serve:" >&2
  tail -n 20 "$(member_directory "$1")/output" >&2
  return 1
}

start_members() {
  local member started=()
  prepare || return 1
  for member in "$@"; do
    ! running_pid "$member" >/dev/null || continue
    [ "$(mode "$member")" = down ] || { echo "something else listens on port $(client_port "$member")" >&2; return 1; }
    write_configuration "$member"
    member_prefix "$member"
    launch "$(member_directory "$member")"
    echo $! >"$(member_directory "$member")/pid"
    started+=("$member")
  done
  for member in "${started[@]}"; do
    wait_until_serving "$member" || return 1
  done
}

# end_members SIGNAL MEMBER...: sends the signal to all of them, then waits for their end.
end_members() {
  local signal=$1 member pid
  shift
  for member in "$@"; do
    ! pid=$(running_pid "$member") || kill "-$signal" "$pid"
  done
  for member in "$@"; do
    for _ in $(seq 600); do
      running_pid "$member" >/dev/null || continue 2
      sleep 0.05
    done
    echo "member $member runs on 30 s after SIG$signal" >&2
    return 1
  done
}

print_status() {
  local member pid
  for member in "$@"; do
    pid=$(running_pid "$member") || pid=-
    echo "$member $(member_host "$member"):$(client_port "$member") $(mode "$member") $pid"
  done
}

# The number of the leading member: a standalone server leads itself.
find_leader() {
  local member
  for member in $(seq "$size"); do
    case $(mode "$member") in leader | standalone) echo "$member" && return ;; esac
  done
  echo "no member leads" >&2
  return 1
}

# run_command USAGE COMMAND [MEMBER...]: what both scripts do with their arguments.
run_command() {
  local usage=$1 command=${2:-} member
  local members=("${@:3}")
  for member in "${members[@]}"; do
    [[ $member =~ ^[0-9]+$ ]] && [ "$member" -ge 1 ] && [ "$member" -le "$size" ] || { echo "members are 1 to $size, not $member" >&2; return 2; }
  done
  [ ${#members[@]} -gt 0 ] || mapfile -t members < <(seq "$size")
  case $command in
    start) start_members "${members[@]}" ;;
    stop) end_members TERM "${members[@]}" ;;
    kill) end_members KILL "${members[@]}" ;;
    status) print_status "${members[@]}" ;;
    leader) find_leader ;;
    connect) connect_string ;;
    remove) end_members KILL "${members[@]}" && rm -rf "$directory" ;;
    *) echo "$usage" >&2 && return 2 ;;
  esac
}
