#!/usr/bin/env bash
# Real clients against the broker.
#
#   conformance/run.sh [--short] [--only SUITE[,SUITE...]] [HOST:PORT]
#
# Without HOST:PORT it builds the release broker, starts it on a free port with its data in a temporary directory, and at the end
# stops it and looks at the log files that it leaves. With HOST:PORT it tests the broker that listens there, whichever it is.
#   --short   less text for kcat and fewer rounds of kill -9, for CI
#   --only    some of: kcat confluent kafka-python aiokafka kafkajs java franz-go dump-log kill9
#
# A client whose tools this machine lacks is skipped, with a line that says what to install. The clients themselves are fetched
# (PyPI, npm, Maven Central, the Go proxy) the first time, into SILLON_CONFORMANCE_CACHE (default ~/.cache/sillon-conformance).
# SILLON_BROKER names a broker program to use instead of building one; KEEP=1 keeps the working directory.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"

ALL_SUITES=(kcat confluent kafka-python aiokafka kafkajs java franz-go dump-log kill9)
suites=("${ALL_SUITES[@]}")
export SHORT=${SHORT:-0}
given_bootstrap=

usage() {
  sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --short) SHORT=1 ;;
    --only)
      [ $# -ge 2 ] || usage
      IFS=, read -ra suites <<<"$2"
      shift
      ;;
    -*) usage ;;
    *:*) given_bootstrap=$1 ;;
    *) usage ;;
  esac
  shift
done
for suite in "${suites[@]}"; do
  [ -x "$here/suites/$suite.sh" ] || { echo "no suite is named $suite; there are: ${ALL_SUITES[*]}" >&2; exit 2; }
done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/sillon-conformance.XXXXXX")
export WORK
broker_pid=

end() {
  [ -z "$broker_pid" ] || kill -9 "$broker_pid" 2>/dev/null
  if [ "${KEEP:-0}" = 1 ] || [ "${failed:-1}" != 0 ]; then echo "kept: $WORK"; else rm -rf "$WORK"; fi
}
trap end EXIT
trap 'exit 130' INT TERM

if [ -n "$given_bootstrap" ]; then
  export BOOTSTRAP=$given_bootstrap
elif [ "${suites[*]}" = kill9 ]; then
  build_broker || { echo "the broker does not build" >&2; exit 1; } # it starts its own, again and again
else
  build_broker || { echo "the broker does not build" >&2; exit 1; }
  export LOG_DIRECTORY=$WORK/broker/log
  port=$(free_port)
  export BOOTSTRAP=127.0.0.1:$port
  # Small segments, so that clients and tools meet many of them.
  start_broker "$WORK/broker" "$port" --override log.segment.bytes=16777216 || exit 1
  broker_pid=$BROKER_PID
fi

# The suites run one after the other; dump-log wants the broker stopped, and kill9 starts its own.
passed=0 failed=0 skipped=0
for suite in "${suites[@]}"; do
  if [ "$suite" = dump-log ] && [ -n "$broker_pid" ]; then
    stop_broker "$broker_pid" || failed=$((failed + 1))
    broker_pid=
  fi
  echo "== $suite"
  "$here/suites/$suite.sh" 2>&1 | tee "$WORK/$suite.out"
  code=${PIPESTATUS[0]}
  read -r suite_passed suite_failed < <(sums "$WORK/$suite.out")
  suite_skipped=0
  if [ "$code" = "$SKIPPED" ]; then
    suite_skipped=1
  elif [ "$code" != 0 ] && [ "$suite_failed" = 0 ]; then
    echo "FAIL $suite ended with exit code $code"
    suite_failed=1
  fi
  if [ "$code" = 0 ] && [ "$suite_passed" = 0 ]; then
    echo "FAIL $suite checked nothing"
    suite_failed=1
  fi
  echo "$suite: $suite_passed passed, $suite_failed failed, $suite_skipped skipped"
  passed=$((passed + suite_passed)) failed=$((failed + suite_failed)) skipped=$((skipped + suite_skipped))
  if [ -n "$broker_pid" ] && ! kill -0 "$broker_pid" 2>/dev/null; then
    echo "FAIL the broker died during $suite; its log: $WORK/broker/output"
    failed=$((failed + 1)) broker_pid=
    break
  fi
done
if [ -n "$broker_pid" ]; then
  stop_broker "$broker_pid" || failed=$((failed + 1))
  broker_pid=
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
