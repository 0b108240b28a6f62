#!/usr/bin/env bash
# Those of franz-go's own tests that need a broker, one process each: clients/franz-go-tests/suite.expected names them.
. "$(dirname "$(realpath "$0")")/../lib.sh"
. "$conformance/tests.sh"
need go "install Go 1.26 from https://go.dev/dl"
expected=$conformance/clients/franz-go-tests/suite.expected version=v1.22.3
sources=$cache/franz-go-$version work=$WORK/franz-go-tests
mkdir -p "$work"
if [ ! -d "$sources" ]; then
  mkdir -p "$work/fetch"
  printf 'module fetch\ngo 1.26\n' >"$work/fetch/go.mod"
  folder=$(cd "$work/fetch" && go mod download -json "github.com/twmb/franz-go@$version" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
  [ -d "$folder" ] || skip "franz-go's sources could not be fetched from the Go proxy"
  mkdir -p "$cache" && cp -r "$folder" "$sources" && chmod -R u+w "$sources"
fi
(cd "$sources" && go test -c -o "$work/kgo.test" ./pkg/kgo) || { echo "FAIL franz-go's tests do not build"; exit 1; }
own_broker num.partitions=4 group.initial.rebalance.delay.ms=0
export KGO_SEEDS=$BOOTSTRAP KGO_TEST_RF=1 KGO_TEST_RECORDS=${KGO_TEST_RECORDS:-2000} KGO_LOG_LEVEL=none
for name in $(expected_names "$expected"); do
  [[ $name =~ ${ONLY_TESTS:-.} ]] || continue
  (cd "$sources/pkg/kgo" && timeout -k 5 150 "$work/kgo.test" -test.v -test.timeout 150s -test.run "^$name\$") >"$work/$name" 2>&1
  code=$?
  if [ "$code" = 0 ] && grep -q "^--- PASS: $name " "$work/$name"; then
    echo "pass $name"
  elif [ "$code" = 0 ] && grep -q "^--- SKIP: $name " "$work/$name"; then
    echo "skip $name $(grep -hE '_test.go:[0-9]+:' "$work/$name" | head -n 1)"
  else
    echo "fail $name $(grep -hE '_test.go:[0-9]+:|^panic:' "$work/$name" | head -n 1)"
  fi
done >"$work/results"
judge_results "$expected" "$work/results"
finish
