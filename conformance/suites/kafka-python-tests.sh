#!/usr/bin/env bash
# kafka-python's own integration tests: see clients/kafka-python-tests/suite.py; which are asked: suite.expected beside it. The broker has number 0, for one
# test assigns a replica to it, allows sessions of one second, and says what it advertises. KAFKA_VERSION (4.3.0) is the version that kafka-python takes
# the broker for, by what it offers; a real one wants its own.
. "$(dirname "$(realpath "$0")")/../lib.sh"
. "$conformance/tests.sh"
client=$conformance/clients/kafka-python-tests version=3.0.12
python_environment kafka-python-tests "$client/requirements.txt"
sources=$cache/kafka_python-$version
if [ ! -d "$sources" ]; then
  (cd "$cache" && "$python" -m pip -q download --no-deps --no-binary :all: "kafka-python==$version" -d "$WORK" && tar xf "$WORK/kafka_python-$version.tar.gz") || skip "kafka-python's sources could not be fetched from PyPI"
fi
own_broker broker.id=0 'advertised.listeners=PLAINTEXT://127.0.0.1:{port}' num.partitions=4 group.initial.rebalance.delay.ms=0 group.min.session.timeout.ms=1000
KAFKA_ROOT=$WORK PYTHONDONTWRITEBYTECODE=1 timeout 900 "$python" "$client/suite.py" "$sources" "$BOOTSTRAP" ${ONLY_TESTS:+-k "$ONLY_TESTS"} >"$WORK/kafka-python-tests.results" 2>"$WORK/kafka-python-tests.errors"
judge_results "$client/suite.expected" "$WORK/kafka-python-tests.results"
finish
