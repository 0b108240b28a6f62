#!/usr/bin/env bash
# librdkafka's own tests, in full, one process each, against a broker of their own; each is judged by librdkafka's own verdict, and a skip is no pass.
# SHORT=1 runs the quick ones; ONLY_TESTS, a regular expression, those whose names match. Which are asked: clients/librdkafka/suite.expected.
. "$(dirname "$(realpath "$0")")/../lib.sh"
. "$conformance/tests.sh"
expected=$conformance/clients/librdkafka/suite.expected
librdkafka_tests
own_broker num.partitions=4 group.initial.rebalance.delay.ms=0
TEST_KAFKA_VERSION=4.1.0
librdkafka_configuration "$BOOTSTRAP"
while read -r name rest; do
  [[ -n $name && $name != \#* && $name =~ ${ONLY_TESTS:-.} ]] || continue
  if [[ " $rest" == *' # '* ]]; then
    left_out "$name" "${rest##*# }"
  elif [ "$SHORT" = 0 ] || [ "$rest" = quick ]; then
    sockem=-E
    [ "$rest" != sockem ] || sockem=
    step "$name" librdkafka_test "$name" default
  fi
done <"$expected"
finish
