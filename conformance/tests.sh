# What the suites share that run a client's own tests. Sourced after lib.sh, never run.
#
# The tests that a suite must pass stand in a file beside the client, FILE.expected: a name a line. Behind a name may stand ` # ` and why the test is
# not asked: it is left out then. A word between the two is the suite's own. Lines that begin with # are comments.

# expected_names FILE: the tests that are asked.
expected_names() { grep -vE '^#|^$| # ' "$1" | cut -d' ' -f1; }

# own_broker KEY=VALUE...: sets BOOTSTRAP to a broker with this configuration, in which {port} stands for its port. It ends with the suite, or when
# another is wanted. Where run.sh was given a broker, it is that one, which has to have the configuration.
own_broker() {
  [ -z "${GIVEN_BOOTSTRAP:-}" ] || { BOOTSTRAP=$GIVEN_BOOTSTRAP && return; }
  build_broker || { echo "FAIL the broker does not build" && exit 1; }
  [ -z "${BROKER_PID:-}" ] || stop_broker "$BROKER_PID"
  local port setting options=()
  port=$(free_port)
  for setting in "$@"; do options+=(--override "${setting//\{port\}/$port}"); done
  start_broker "$WORK/own-broker-$port" "$port" "${options[@]}" || exit 1
  BOOTSTRAP=127.0.0.1:$port
  trap 'stop_broker "$BROKER_PID"' EXIT
}

# A test's result is a line `pass NAME`, `fail NAME REASON` or `skip NAME REASON`.

# judge_results FILE.expected RESULTS: what was asked and has not passed has failed, and so has what failed and is not excused. ONLY_TESTS, a regular
# expression, asks for some of the names alone.
judge_results() {
  local name rest reason
  while read -r name rest; do
    [[ -n $name && $name != \#* && $name =~ ${ONLY_TESTS:-.} ]] || continue
    if [[ " $rest" == *' # '* ]]; then
      left_out "$name" "${rest##*# }"
    elif grep -qFx "pass $name" "$2"; then
      steps_passed=$((steps_passed + 1))
      echo "ok   $name"
    else
      steps_failed=$((steps_failed + 1))
      reason=$(grep -E '^(fail|skip) ' "$2" | awk -v name="$name" '$2 == name' | head -n 1)
      echo "FAIL $name: ${reason:-was not run}" | cut -c1-300
    fi
  done <"$1"
  while read -r _ name reason; do
    ! awk -v name="$name" '$1 == name { found = 1 } END { exit !found }' "$1" || continue
    steps_failed=$((steps_failed + 1))
    echo "FAIL $name, of which $(basename "$1") does not know: $reason" | cut -c1-300
  done < <(grep '^fail ' "$2")
}

# crate_source NAME VERSION: fetches a crate's sources from crates.io, once, and sets `crate` to a copy in the cache that may be built in.
crate_source() {
  crate=$cache/$1-$2
  [ ! -d "$crate" ] || return 0
  need cargo "install Rust from https://rustup.rs"
  local source=$cache/$1-source
  rm -rf "$source"
  mkdir -p "$source/src"
  : >"$source/src/lib.rs"
  printf '[package]\nname = "source"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$1" "$2" >"$source/Cargo.toml"
  (cd "$source" && cargo vendor --quiet vendored >/dev/null 2>&1) || skip "the crate $1 could not be fetched from crates.io"
  cp -r "$source/vendored/$1" "$crate"
  chmod -R u+w "$crate"
  rm -rf "$source"
}

# librdkafka_tests: sets `tests` to a folder with librdkafka's own tests, built: LIBRDKAFKA_TESTS, or else one that is built once, from the sources that
# the crate rdkafka-sys carries (3 minutes).
librdkafka_tests() {
  local version=4.10.0
  local built=$cache/librdkafka-$version
  tests=${LIBRDKAFKA_TESTS:-$built/tests}
  [ ! -x "$tests/test-runner" ] || return 0
  need cargo "install Rust from https://rustup.rs"
  need make "install the package build-essential"
  need g++ "install the package build-essential"
  # Some tests read librdkafka's statistics, and are left out of a build that cannot.
  [ -e /usr/include/rapidjson/rapidjson.h ] || skip "RapidJSON is missing: install the package rapidjson-dev"
  crate_source rdkafka-sys "$version"
  rm -rf "$built"
  cp -r "$crate/librdkafka" "$built"
  (cd "$built" && chmod -R u+w . && find . -name configure -o -name '*.sh' | xargs chmod +x && ./configure --disable-curl --disable-sasl --disable-gssapi &&
    make libs && make -C tests build) >"$WORK/librdkafka-build" 2>&1 || { tail -n 5 "$WORK/librdkafka-build"; echo "FAIL librdkafka does not build"; exit 1; }
}

# librdkafka_configuration BOOTSTRAP: exports what librdkafka's test runner reads.
librdkafka_configuration() {
  export LD_LIBRARY_PATH=$tests/../src:$tests/../src-cpp RDKAFKA_TEST_CONF=$WORK/librdkafka-test.conf TEST_KAFKA_VERSION=${TEST_KAFKA_VERSION:-3.9.0}
  printf 'bootstrap.servers=%s\ntest.topic.prefix=rdkafkatest\n' "$1" >"$RDKAFKA_TEST_CONF"
}

# librdkafka_test NUMBER_NAME[:SUBTEST] SCENARIO: runs one of librdkafka's tests, in full or those of its sub-tests that have SUBTEST in their names, and
# judges it by librdkafka's own verdict; a skip is no pass. `sockem` is the option -E, which leaves out what needs sockets that fail on purpose, or nothing.
librdkafka_test() {
  local output=$WORK/librdkafka-${1//:/-} code
  (cd "$tests" && { [[ $1 != *:* ]] || export SUBTESTS=${1#*:}; } && TESTS=${1%%_*} TEST_SCENARIO=$2 timeout -k 5 "${LIMIT:-150}" ./test-runner -p1 ${sockem--E} -L) >"$output" 2>&1
  code=$?
  [ "$code" = 0 ] || { grep -aE 'FAIL|Test failure|ERROR' "$output" | tail -n 3; echo "exit code $code, see $output"; return 1; }
  [[ $1 != *:* ]] || grep -aq "\\[ .*${1#*:}.*: PASS" "$output" || { echo "no sub-test ran"; return 1; }
  grep -aqE "[0-9]{4}_[A-Za-z0-9_]+ *\| *PASSED" "$output" || { grep -aiE 'skip' "$output" | tail -n 2; return 1; }
}

# crate_results OUTPUT: what `cargo test --no-fail-fast` printed, as results named FILE::TEST.
crate_results() {
  awk '
    $1 == "Running" { file = $2 == "unittests" ? "unit" : $2; sub(/^tests\//, "", file); sub(/\.rs$/, "", file); next }
    /^test .* \.\.\. ok$/ { print "pass " file "::" $2 }
    /^test .* \.\.\. FAILED$/ { print "fail " file "::" $2 " see the output" }
    /^test .* \.\.\. ignored/ { print "skip " file "::" $2 " ignored" }
  ' "$1"
}
