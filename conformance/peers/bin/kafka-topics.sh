#!/usr/bin/env bash
# Apache Kafka 3.9's tool for topics, where tests of clients look for it: KAFKA_PATH is the folder above. That of 4.1 refuses small segments.
exec "$(dirname "$(realpath "$0")")/../kafka.sh" tool 39 org.apache.kafka.tools.TopicCommand "$@"
