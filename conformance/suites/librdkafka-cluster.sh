#!/usr/bin/env bash
# Those of librdkafka's own tests that need three brokers: fetching from the nearest replica, topics deleted and made again under a producer, topics
# made late. The first two of these are checked without consumer groups, too. Starts a cluster of its own with the script that CLUSTER names, because
# topics must not be made automatically and the replica to fetch from is chosen by rack. See librdkafka_tests in ../tests.sh.
. "$(dirname "$(realpath "$0")")/../lib.sh"
. "$conformance/tests.sh"
need_cluster
librdkafka_tests
python_environment
export CLUSTER_DIRECTORY=$WORK/librdkafka-cluster CLUSTER_PORT ENSEMBLE_PORT
export CLUSTER_SETTINGS='auto.create.topics.enable=false
num.partitions=4
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector'
CLUSTER_PORT=$(free_cluster_port)
ENSEMBLE_PORT=$((CLUSTER_PORT + 1000))
trap '"$CLUSTER" remove' EXIT
"$CLUSTER" start >/dev/null || { echo "FAIL the cluster does not start"; exit 1; }
librdkafka_configuration "$("$CLUSTER" bootstrap)"
step 0101_fetch_from_follower librdkafka_test 0101_fetch_from_follower default
step 0107_topic_recreate librdkafka_test 0107_topic_recreate noautocreate
step 0111_delay_create_topics librdkafka_test 0111_delay_create_topics noautocreate
checked() { "$python" "$conformance/clients/python/cluster_checks.py" "$("$CLUSTER" bootstrap)" "$1"; }
step "fetched from the nearest replica" checked nearest
step "a topic made again under a producer" checked again
finish
