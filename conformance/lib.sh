# What run.sh and the suites share. Sourced, never run.

conformance=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
repository=$(dirname "$conformance")
cache=${SILLON_CONFORMANCE_CACHE:-$HOME/.cache/sillon-conformance}

# The exit code of a suite that cannot run on this machine.
SKIPPED=77

# skip TEXT: leaves the suite, saying what it needs.
skip() {
  echo "skipped: $*"
  exit "$SKIPPED"
}

# need PROGRAM HINT: skips the suite where a program is missing.
need() {
  command -v "$1" >/dev/null || skip "$1 is missing: $2"
}

# runs PID: the process has not ended. One that has, and that its parent has not yet asked after, still takes signals.
runs() {
  kill -0 "$1" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

# step NAME COMMAND...: runs one check and prints `ok` or `FAIL`. What the command prints is shown where it fails.
steps_passed=0 steps_failed=0
step() {
  local name=$1 start=$SECONDS output
  shift
  if output=$("$@" 2>&1); then
    steps_passed=$((steps_passed + 1))
    echo "ok   $name ($((SECONDS - start)) s)"
  else
    steps_failed=$((steps_failed + 1))
    echo "FAIL $name: $(tail -n 5 <<<"$output" | cut -c1-300)"
  fi
}

# left_out NAME REASON: a check that is not asked here.
steps_skipped=0
left_out() {
  steps_skipped=$((steps_skipped + 1))
  echo "left out $1: $2"
}

# Prints the sums of the steps, and ends the suite.
finish() {
  local skipped=
  [ "$steps_skipped" = 0 ] || skipped=", $steps_skipped skipped"
  echo "$steps_passed passed, $steps_failed failed$skipped"
  [ "$steps_failed" = 0 ]
  exit
}

# sums FILE: the last `N passed, N failed[, N skipped]` of a suite's output, as three numbers.
sums() {
  local line
  line=$(grep -Eo '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?' "$1" | tail -n 1)
  tr -dc '0-9 \n' <<<"${line:-0 0} 0" | tr -s ' ' | cut -d' ' -f1-3
}

free_port() {
  local port
  while true; do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

# A number P such that all ports that an ensemble takes are free: P+N for clients of member N, P+100+N and P+200+N between members.
free_ports() {
  local port offset member
  while true; do
    port=$((20000 + RANDOM % 9000))
    for offset in 0 100 200; do
      for member in 1 2 3 4 5; do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$((port + offset + member))") 2>/dev/null || continue 3
      done
    done
    echo "$port" && return
  done
}

# Builds the release broker and sets SILLON_BROKER to its path; a SILLON_BROKER that is set already is taken as it is.
build_broker() {
  [ -z "${SILLON_BROKER:-}" ] || return 0
  command -v cargo >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs" >&2; return 1; }
  (cd "$repository" && cargo build --quiet --release -p sillon-broker --bin sillon-broker) || return 1
  export SILLON_BROKER=${CARGO_TARGET_DIR:-$repository/target}/release/sillon-broker
}

# Builds the release coordinator and sets SILLON_COORDINATOR to its path; one that is set already is taken as it is.
build_coordinator() {
  [ -z "${SILLON_COORDINATOR:-}" ] || return 0
  command -v cargo >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs" >&2; return 1; }
  (cd "$repository" && cargo build --quiet --release -p sillon-coordinator --bin sillon-coordinator) || return 1
  export SILLON_COORDINATOR=${CARGO_TARGET_DIR:-$repository/target}/release/sillon-coordinator
}

# Builds the command line tool and sets SILLON to its path; one that is set already is taken as it is.
build_sillon() {
  [ -z "${SILLON:-}" ] || return 0
  command -v cargo >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs" >&2; return 1; }
  (cd "$repository" && cargo build --quiet --release -p sillon-client --bin sillon) || return 1
  export SILLON=${CARGO_TARGET_DIR:-$repository/target}/release/sillon
}

# start_broker DIRECTORY PORT OPTIONS...: starts the broker with its data in DIRECTORY/log and sets BROKER_PID.
start_broker() {
  local directory=$1 port=$2
  shift 2
  mkdir -p "$directory"
  "$SILLON_BROKER" --override "listeners=PLAINTEXT://127.0.0.1:$port" --override "log.dirs=$directory/log" "$@" \
    >>"$directory/output" 2>&1 </dev/null &
  BROKER_PID=$!
  for _ in $(seq 100); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return 0; fi
    kill -0 "$BROKER_PID" 2>/dev/null || break
    sleep 0.1
  done
  echo "FAIL the broker did not start:" >&2
  tail -n 20 "$directory/output" >&2
  return 1
}

# stop_broker PID: a controlled shutdown, which has to end within 30 s with exit code 0.
stop_broker() {
  local code
  kill -TERM "$1"
  for _ in $(seq 300); do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  if kill -0 "$1" 2>/dev/null; then
    echo "FAIL the broker runs on 30 s after SIGTERM"
    kill -9 "$1"
    return 1
  fi
  wait "$1"
  code=$?
  [ "$code" = 0 ] || { echo "FAIL the broker ended with exit code $code after SIGTERM"; return 1; }
}

# A number P such that all ports that a cluster takes are free: P+1 to P+5 for the brokers, and those of an ensemble at P+1000.
free_cluster_port() {
  local port offset number
  while true; do
    port=$((20000 + RANDOM % 8000))
    for offset in 0 1000 1100 1200; do
      for number in 1 2 3 4 5; do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$((port + offset + number))") 2>/dev/null || continue 3
      done
    done
    echo "$port" && return
  done
}

# need_cluster: skips a suite that was started without a cluster. CLUSTER is a script that takes the commands of cluster.sh.
need_cluster() {
  [ -n "${CLUSTER:-}" ] || skip "there is no cluster that may be stopped here: see cluster.sh, or run.sh --cluster"
}

# within SECONDS COMMAND...: repeats the command until it succeeds.
within() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $deadline ] || { echo "not within the time: $*"; return 1; }
    sleep 0.3
  done
}

# python_environment [NAME REQUIREMENTS]: makes a Python environment with the clients (all but kazoo where nothing is named), once, and sets
# `python`.
python_environment() {
  local environment=$cache/${1:-python} wanted=${2:-$conformance/clients/python/requirements.txt}
  need python3 "install the package python3"
  python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 has no venv: install the package python3-venv"
  if ! cmp -s "$wanted" "$environment/requirements.txt"; then
    rm -rf "$environment"
    mkdir -p "$cache"
    python3 -m venv "$environment" && "$environment/bin/pip" -q install -r "$wanted" || skip "the Python clients could not be installed from PyPI"
    cp "$wanted" "$environment/requirements.txt"
  fi
  python=$environment/bin/python
}

# java_client: builds the programs with Apache Kafka's Java client and sets `java_command` to the words that run one; KAFKA_CLIENTS_VERSION names
# another version of kafka-clients.
java_client() {
  need java "install the package openjdk-17-jdk-headless"
  need javac "install the package openjdk-17-jdk-headless"
  need mvn "install the package maven"
  local client=$conformance/clients/java version=${KAFKA_CLIENTS_VERSION:-4.1.2}
  local build=$cache/java-$version
  if [ ! -e "$build/built" ] || [ -n "$(find "$client/src" "$client/pom.xml" -newer "$build/built")" ]; then
    mkdir -p "$build"
    mvn -q -B -f "$client/pom.xml" -Dkafka.version="$version" -Dbuild.dir="$build" \
      compile dependency:build-classpath -Dmdep.outputFile="$build/classpath" || { echo "FAIL the Java client does not build"; exit 1; }
    touch "$build/built"
  fi
  java_command=(java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$build/classes:$(cat "$build/classpath")")
}

# franz_go_client: builds the program with franz-go and sets `franz_go` to it.
franz_go_client() {
  need go "install Go 1.26 from https://go.dev/dl"
  mkdir -p "$cache"
  franz_go=$cache/franz-go
  (cd "$conformance/clients/franz-go" && go build -o "$franz_go" .) || { echo "FAIL the franz-go client does not build"; exit 1; }
}

# kafkajs_client: installs kafkajs, once, and exports NODE_PATH to it.
kafkajs_client() {
  need node "install the package nodejs"
  need npm "install the package npm"
  local client=$conformance/clients/kafkajs modules=$cache/kafkajs
  if ! cmp -s "$client/package.json" "$modules/package.json"; then
    rm -rf "$modules" && mkdir -p "$modules/install" && cp "$client/package.json" "$modules/install/"
    (cd "$modules/install" && npm install --silent --no-audit --no-fund --no-package-lock) || skip "kafkajs could not be installed from npm"
    mv "$modules/install/node_modules" "$modules/" && cp "$client/package.json" "$modules/"
  fi
  export NODE_PATH=$modules/node_modules
}
