"""What librdkafka's own tests of a cluster check with consumer groups, checked without them: fetching from the nearest replica, and a topic that is
deleted and made again under a producer.

cluster_checks.py BOOTSTRAP nearest|again        three brokers, N in rack rN, with the RackAwareReplicaSelector
"""

import json
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chaos import wait_in_sync
from steps import fresh_name

COUNT = 1000
SIZE = 1000


def created(bootstrap, topic, partitions):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(30)
    assert wait_in_sync(bootstrap, topic, partitions, 30) is not None, f"{topic} is not in sync"


def fetched_from_the_nearest_replica(bootstrap):
    topic = fresh_name("nearest")
    created(bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode().ljust(SIZE, b"."))
    assert producer.flush(30) == 0
    partition = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10).topics[topic].partitions[0]
    nearest = next(replica for replica in partition.replicas if replica != partition.leader)
    received = {}

    def statistics(text):
        for broker in json.loads(text)["brokers"].values():
            received[broker["nodeid"]] = broker["rxbytes"]

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "client.rack": f"r{nearest}",
            "statistics.interval.ms": 200,
            "stats_cb": statistics,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen, deadline = 0, time.time() + 30
    while seen < COUNT and time.time() < deadline:
        for message in consumer.consume(COUNT, timeout=0.2):
            assert message.error() is None, message.error()
            assert int(message.value().rstrip(b".")) == seen, f"record {seen} is not in its place"
            seen += 1
    assert seen == COUNT, f"{seen} records of {COUNT}"
    until = time.time() + 1
    while time.time() < until:
        consumer.poll(0.1)
    consumer.close()
    assert received.get(nearest, 0) > COUNT * SIZE, f"{received}: broker {nearest} is the nearest"
    assert received.get(partition.leader, 0) < COUNT * SIZE, f"{received}: broker {partition.leader} leads"


def delete(bootstrap, topic):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)


def made_again_under_a_producer(bootstrap):
    topic = fresh_name("again")
    acknowledged = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000, "topic.metadata.refresh.interval.ms": 1000}
    )

    def write(value, seconds):
        until = time.time() + seconds
        while time.time() < until:
            try:
                producer.produce(topic, value, on_delivery=lambda error, message: error or acknowledged.append(message.value()))
            except KafkaException:
                pass  # the topic is known to be gone
            producer.poll(0.02)

    for before, after in ((10, 3), (3, 6)):
        created(bootstrap, topic, before)
        write(b"before", 2)
        # What is still on its way, by the topic's name, may come to the next topic of that name.
        assert producer.flush(30) == 0, "not all records of the first topic were acknowledged"
        delete(bootstrap, topic)
        write(b"during", 3)
        created(bootstrap, topic, after)
        write(b"after", 8)
        producer.flush(60)
        assert acknowledged.count(b"before") and acknowledged.count(b"after"), f"{len(acknowledged)} acknowledged"
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-joined", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(after)])
        read, deadline = 0, time.time() + 30
        while read < acknowledged.count(b"after") and time.time() < deadline:
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                assert message.value() != b"before", "a record of the deleted topic"
                read += message.value() == b"after"
        consumer.close()
        assert read == acknowledged.count(b"after"), f"{read} read, {acknowledged.count(b'after')} acknowledged"
        delete(bootstrap, topic)
        acknowledged.clear()


CHECKS = {"nearest": fetched_from_the_nearest_replica, "again": made_again_under_a_producer}

if __name__ == "__main__":
    try:
        CHECKS[sys.argv[2]](sys.argv[1])
    except AssertionError as error:
        sys.exit(f"FAIL {error}")
