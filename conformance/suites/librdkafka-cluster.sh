#!/usr/bin/env bash
# Those of librdkafka's own tests that need three brokers: fetching from the nearest replica, topics deleted and made again under a producer, topics
# made late. The first two need consumer groups; what they check beside is checked without, too. Each is judged by librdkafka's own verdict; a skip is no pass. Starts a cluster of its own with the script that CLUSTER names,
# because topics must not be made automatically and the replica to fetch from is chosen by rack. LIBRDKAFKA_TESTS names a folder with a built
# librdkafka/tests; else librdkafka is built once, from the sources that the crate rdkafka-sys carries (3 minutes).
. "$(dirname "$(realpath "$0")")/../lib.sh"
need_cluster
SYS_CRATE=rdkafka-sys SYS_VERSION=4.10.0

# Sets `tests` to the folder with the built tests.
build_tests() {
  tests=${LIBRDKAFKA_TESTS:-$cache/librdkafka-$SYS_VERSION/tests}
  [ ! -x "$tests/test-runner" ] || return 0
  need cargo "install Rust from https://rustup.rs"
  need make "install the package build-essential"
  need g++ "install the package build-essential"
  # 0101 reads librdkafka's statistics, and is left out of a build that cannot.
  [ -e /usr/include/rapidjson/rapidjson.h ] || skip "RapidJSON is missing: install the package rapidjson-dev"
  local source=$cache/librdkafka-source
  rm -rf "$source" "$cache/librdkafka-$SYS_VERSION"
  mkdir -p "$source/src"
  : >"$source/src/lib.rs"
  printf '[package]\nname = "source"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$SYS_CRATE" "$SYS_VERSION" >"$source/Cargo.toml"
  (cd "$source" && cargo vendor --quiet vendored >/dev/null 2>&1) || skip "the crate $SYS_CRATE could not be fetched from crates.io"
  cp -r "$source/vendored/$SYS_CRATE/librdkafka" "$cache/librdkafka-$SYS_VERSION"
  rm -rf "$source"
  (cd "$cache/librdkafka-$SYS_VERSION" && chmod -R u+w . && find . -name configure -o -name '*.sh' | xargs chmod +x && ./configure --disable-curl --disable-sasl --disable-gssapi &&
    make libs && make -C tests build) >"$WORK/librdkafka-build" 2>&1 || { tail -n 5 "$WORK/librdkafka-build"; echo "FAIL librdkafka does not build"; exit 1; }
}

# run_test NUMBER_NAME SCENARIO
run_test() {
  local output=$WORK/librdkafka-$1 code
  (cd "$tests" && TESTS=${1%%_*} TEST_SCENARIO=$2 timeout -k 5 "${LIMIT:-150}" ./test-runner -p1 -E -L) >"$output" 2>&1
  code=$?
  [ "$code" = 0 ] || { grep -aE 'FAIL|Test failure|ERROR' "$output" | tail -n 3; echo "exit code $code, see $output"; return 1; }
  grep -aqE "[0-9]{4}_[A-Za-z0-9_]+ *\| *PASSED" "$output" || { grep -aiE 'skip' "$output" | tail -n 2; return 1; }
}

build_tests
python_environment
export CLUSTER_DIRECTORY=$WORK/librdkafka-cluster CLUSTER_PORT ENSEMBLE_PORT
export CLUSTER_SETTINGS='auto.create.topics.enable=false
num.partitions=4
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector'
CLUSTER_PORT=$(free_cluster_port)
ENSEMBLE_PORT=$((CLUSTER_PORT + 1000))
trap '"$CLUSTER" remove' EXIT
"$CLUSTER" start >/dev/null || { echo "FAIL the cluster does not start"; exit 1; }
export LD_LIBRARY_PATH=$tests/../src:$tests/../src-cpp RDKAFKA_TEST_CONF=$WORK/librdkafka-test.conf TEST_KAFKA_VERSION=${TEST_KAFKA_VERSION:-3.9.0}
printf 'bootstrap.servers=%s\ntest.topic.prefix=rdkafkatest\n' "$("$CLUSTER" bootstrap)" >"$RDKAFKA_TEST_CONF"
# 0101 and 0107 subscribe: without consumer groups they wait for ever. What they check beyond that is checked here as well.
# offers API: whether the first broker's ApiVersions names it.
offers() {
  local first host port
  first=$("$CLUSTER" bootstrap)
  first=${first%%,*} host=${first%%:*}
  port=${first#*:}
  exec 3<>"/dev/tcp/$host/${port%%,*}" || return 1
  printf '\0\0\0\012\0\022\0\0\0\0\0\001\377\377' >&3
  timeout 2 cat <&3 | od -An -v -tu1 -w1 | awk -v api="$1" 'NR > 14 && (NR - 15) % 6 == 0 { high = $1 } NR > 14 && (NR - 15) % 6 == 1 && high * 256 + $1 == api { found = 1 } END { exit !found }'
}
JOIN_GROUP=11
if offers $JOIN_GROUP; then
  step 0101_fetch_from_follower run_test 0101_fetch_from_follower default
  step 0107_topic_recreate run_test 0107_topic_recreate noautocreate
else
  echo "left out: 0101_fetch_from_follower, 0107_topic_recreate: the brokers have no consumer groups"
fi
checked() { "$python" "$conformance/clients/python/cluster_checks.py" "$("$CLUSTER" bootstrap)" "$1"; }
step "fetched from the nearest replica" checked nearest
step "a topic made again under a producer" checked again
step 0111_delay_create_topics run_test 0111_delay_create_topics noautocreate
finish
