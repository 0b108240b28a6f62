#!/usr/bin/env bash
# librdkafka's own tests, in full, one process each, against a broker of their own; each is judged by librdkafka's own verdict, and a skip is no pass.
# SHORT=1 runs the quick ones; ONLY_TESTS, a regular expression, those whose names match. Which are asked: clients/librdkafka/suite.expected.
. "$(dirname "$(realpath "$0")")/../lib.sh"
. "$conformance/tests.sh"
expected=$conformance/clients/librdkafka/suite.expected
librdkafka_tests

raced() { # NAME
  local _
  for _ in 1 2 3 4 5; do
    ! librdkafka_test "$1" default || return 0
  done
  return 1
}

with_tools() { # NAME
  command -v java >/dev/null && command -v mvn >/dev/null || { echo "Apache Kafka's tools are missing: install the packages openjdk-17-jre-headless and maven"; return 1; }
  KAFKA_PATH=$conformance/peers BROKERS=$BOOTSTRAP librdkafka_test "$1" default
}

run_tests() { # WORD...: those with one of these words; `plain` is that of a test without
  local name rest
  while read -r name rest; do
    [[ -n $name && $name != \#* && $name =~ ${ONLY_TESTS:-.} && " $rest" != *' # '* ]] || continue
    [[ " $* " == *" ${rest:-plain} "* ]] || continue
    sockem=-E
    case $rest in
      sockem) sockem='' && step "$name" librdkafka_test "$name" default ;;
      tools) step "$name" with_tools "$name" ;;
      race) step "$name" raced "$name" ;;
      *) step "$name" librdkafka_test "$name" default ;;
    esac
  done <"$expected"
}

TEST_KAFKA_VERSION=4.1.0
own_broker num.partitions=4 group.initial.rebalance.delay.ms=0
librdkafka_configuration "$BOOTSTRAP"
run_tests quick
if [ "$SHORT" = 0 ]; then
  run_tests plain race tools sockem
  own_broker num.partitions=4
  librdkafka_configuration "$BOOTSTRAP"
  run_tests delay
fi
while read -r name rest; do
  [[ $name == \#* || " $rest" != *' # '* ]] || left_out "$name" "${rest##*# }"
done <"$expected"
finish
