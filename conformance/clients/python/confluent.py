"""confluent-kafka (librdkafka) against a broker: topics, produce, fetch by offset and by timestamp, groups, admin.

confluent.py HOST:PORT   prints `ok` or `FAIL` for each step, then `N passed, N failed`; exit code 1 where a step failed.
"""

import time

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from steps import (
    MILLISECONDS_BETWEEN_RECORDS,
    RECORDS_PER_PARTITION,
    Record,
    Steps,
    bootstrap_from_arguments,
    eventually,
    expect_equal,
    expect_error,
    expect_records,
    first_timestamp,
    fresh_name,
    make_records,
)

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]  # one partition each
PLAIN_PARTITION = len(CODECS)  # written without idempotence, acks=1
PARTITIONS = PLAIN_PARTITION + 1

bootstrap = bootstrap_from_arguments()
topic = fresh_name("confluent")
short_lived_topic = fresh_name("confluent-short-lived")
group = fresh_name("confluent-group")
start_ms = first_timestamp()
records = {partition: make_records(f"confluent {partition}", start_ms) for partition in range(PARTITIONS)}
admin = AdminClient({"bootstrap.servers": bootstrap})


def wait_for(futures):
    return {key: future.result(15) for key, future in futures.items()}


def produce(partition, **configuration):
    """Sends the partition's records and checks the offset that each was given."""
    offsets = []

    def delivered(error, message):
        offsets.append(error or message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **configuration})
    for record in records[partition]:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=partition,
            timestamp=record.timestamp_ms,
            headers=record.headers,
            on_delivery=delivered,
        )
    expect_equal(producer.flush(20), 0, "records not delivered")
    expect_equal(offsets, list(range(RECORDS_PER_PARTITION)), "offsets")


def read(partition, offset, topic_name=topic, **configuration):
    """Reads the partition from an offset to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",  # demanded by the client; assign() never joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            **configuration,
        }
    )
    consumer.assign([TopicPartition(topic_name, partition, offset)])
    got, offsets = [], []
    deadline = time.time() + 20
    while True:
        assert time.time() < deadline, f"the end of the partition did not come; {len(got)} records so far"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            if message.error().code() == KafkaError._PARTITION_EOF:
                break
            raise KafkaException(message.error())
        got.append(Record(message.key(), message.value(), message.timestamp()[1], message.headers() or []))
        offsets.append(message.offset())
    consumer.close()
    if offsets:
        expect_equal(offsets, list(range(offsets[0], offsets[0] + len(offsets))), "offsets")
    return got


def offset_for_time(partition, timestamp_ms):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-joined"})
    [answer] = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], timeout=10)
    consumer.close()
    assert answer.error is None, answer.error
    return answer.offset


def listed_offset(partition, specification):
    key = TopicPartition(topic, partition)
    return wait_for(admin.list_offsets({key: specification}))[key].offset


def topic_names():
    return set(admin.list_topics(timeout=10).topics)


def partition_count():
    return len(admin.list_topics(timeout=10).topics[topic].partitions)


def topic_configuration():
    [configuration] = wait_for(admin.describe_configs([ConfigResource("topic", topic)])).values()
    return configuration


def alter_topic_configuration(name, value, operation):
    entry = ConfigEntry(name, value, incremental_operation=operation)
    wait_for(admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])]))


def create_topic():
    wait_for(admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "86400000"})]))
    eventually(lambda: topic in topic_names() and partition_count(), PARTITIONS)


def create_topic_again():
    expect_error(lambda: wait_for(admin.create_topics([NewTopic(topic, 1, 1)])), "TOPIC_ALREADY_EXISTS")


def create_topic_with_bad_name():
    expect_error(lambda: wait_for(admin.create_topics([NewTopic("not/a/name", 1, 1)])), "TOPIC_EXCEPTION", "INVALID_TOPIC")


def read_everything():
    for partition in range(PARTITIONS):
        expect_records(read(partition, 0), records[partition])


def read_from_the_middle():
    expect_records(read(0, 77), records[0][77:])


def read_from_the_middle_of_a_compressed_batch():
    expect_records(read(4, 123), records[4][123:])


def read_in_small_fetches():
    got = read(0, 0, **{"fetch.message.max.bytes": 1000, "max.partition.fetch.bytes": 1000})
    expect_records(got, records[0])


def first_and_last_offsets():
    expect_equal(listed_offset(0, OffsetSpec.earliest()), 0, "earliest")
    expect_equal(listed_offset(0, OffsetSpec.latest()), RECORDS_PER_PARTITION, "latest")


def offsets_by_timestamp():
    for partition in range(PARTITIONS):
        expect_equal(offset_for_time(partition, start_ms - 1), 0, "before the first record")
        expect_equal(offset_for_time(partition, start_ms + 50 * MILLISECONDS_BETWEEN_RECORDS), 50, "at record 50")
        expect_equal(offset_for_time(partition, start_ms + 50 * MILLISECONDS_BETWEEN_RECORDS + 1), 51, "just after record 50")
        after_all = start_ms + RECORDS_PER_PARTITION * MILLISECONDS_BETWEEN_RECORDS
        expect_equal(offset_for_time(partition, after_all), -1, "after the last record")  # -1 is the end of the partition


def read_from_a_timestamp():
    offset = offset_for_time(2, start_ms + 120 * MILLISECONDS_BETWEEN_RECORDS - 3)
    expect_records(read(2, offset), records[2][120:])


def read_out_of_range():
    expect_error(lambda: read(0, 100_000), "OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET")


def large_record():
    value = bytes(range(256)) * 3600  # 921,600 bytes, under the default limit of 1 MiB
    name = fresh_name("confluent-large")
    wait_for(admin.create_topics([NewTopic(name, 1, 1)]))
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(name, value, partition=0, timestamp=start_ms)
    expect_equal(producer.flush(20), 0, "records not delivered")
    expect_records(read(0, 0, topic_name=name), [Record(None, value, start_ms, [])])


def describe_topic_configuration():
    configuration = topic_configuration()
    expect_equal(configuration["cleanup.policy"].value, "delete", "cleanup.policy")
    expect_equal(configuration["retention.ms"].value, "86400000", "retention.ms")
    expect_equal(configuration["retention.ms"].is_default, False, "retention.ms is_default")


def describe_broker_configuration():
    broker_id = next(iter(admin.list_topics(timeout=10).brokers))
    [configuration] = wait_for(admin.describe_configs([ConfigResource("broker", str(broker_id))])).values()
    for name in ("num.partitions", "log.dirs", "advertised.listeners"):
        assert name in configuration, f"{name} is missing"


def alter_configuration():
    alter_topic_configuration("max.message.bytes", "2000000", AlterConfigOpType.SET)
    eventually(lambda: topic_configuration()["max.message.bytes"].value, "2000000")
    expect_equal(topic_configuration()["retention.ms"].value, "86400000", "retention.ms, which was not altered")
    alter_topic_configuration("max.message.bytes", None, AlterConfigOpType.DELETE)
    eventually(lambda: topic_configuration()["max.message.bytes"].is_default, True)


def alter_configuration_with_a_bad_value():
    expect_error(
        lambda: alter_topic_configuration("retention.ms", "abc", AlterConfigOpType.SET), "INVALID_CONFIG", "INVALID_REQUEST"
    )


def describe_cluster():
    cluster = admin.describe_cluster().result(10)
    assert cluster.cluster_id, "no cluster id"
    assert cluster.controller is not None, "no controller"
    assert len(cluster.nodes) >= 1, "no nodes"


def group_offsets():
    [told] = wait_for(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])).values()
    return {one.partition: one.offset for one in told.topic_partitions}


def read_in_a_group():
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    count, deadline = 0, time.time() + 30
    while count < PARTITIONS * RECORDS_PER_PARTITION and time.time() < deadline:
        for message in consumer.consume(100, timeout=1):
            assert message.error() is None, message.error()
            count += 1
    expect_equal(count, PARTITIONS * RECORDS_PER_PARTITION, "records")
    committed = consumer.commit(asynchronous=False)
    expect_equal({one.partition: one.offset for one in committed}, dict.fromkeys(range(PARTITIONS), RECORDS_PER_PARTITION), "committed")
    consumer.close()
    expect_equal(group_offsets(), dict.fromkeys(range(PARTITIONS), RECORDS_PER_PARTITION), "the group's offsets")


def list_and_describe_group():
    listed = {one.group_id: one.state for one in admin.list_consumer_groups().result(10).valid}
    expect_equal(listed[group], ConsumerGroupState.EMPTY, "state")
    description = wait_for(admin.describe_consumer_groups([group]))[group]
    expect_equal((description.state, len(description.members)), (ConsumerGroupState.EMPTY, 0), "description")


def alter_group_offsets():
    wait_for(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 2, 17)])]))
    expect_equal(group_offsets()[2], 17, "offset")


def delete_group():
    wait_for(admin.delete_consumer_groups([group]))
    assert group not in {one.group_id for one in admin.list_consumer_groups().result(10).valid}, "it is still listed"
    expect_error(lambda: wait_for(admin.delete_consumer_groups([group])), "GROUP_ID_NOT_FOUND")


def create_partitions():
    wait_for(admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)]))
    eventually(partition_count, PARTITIONS + 2)
    expect_records(read(PARTITIONS + 1, 0), [])


def create_fewer_partitions():
    expect_error(lambda: wait_for(admin.create_partitions([NewPartitions(topic, 1)])), "INVALID_PARTITIONS")


def delete_records():
    key = TopicPartition(topic, 1, 60)
    [deleted] = wait_for(admin.delete_records([key])).values()
    expect_equal(deleted.low_watermark, 60, "low watermark")
    expect_equal(listed_offset(1, OffsetSpec.earliest()), 60, "earliest")
    expect_records(read(1, OFFSET_BEGINNING), records[1][60:])
    expect_error(lambda: read(1, 10), "OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET")


def delete_topic():
    wait_for(admin.create_topics([NewTopic(short_lived_topic, 2, 1)]))
    eventually(lambda: short_lived_topic in topic_names(), True)
    wait_for(admin.delete_topics([short_lived_topic]))
    eventually(lambda: short_lived_topic in topic_names(), False)
    expect_error(lambda: wait_for(admin.delete_topics([short_lived_topic])), "UNKNOWN_TOPIC_OR_PART")


print(f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}")
steps = Steps()
steps.run("create a topic", create_topic)
steps.run("creating it again is refused", create_topic_again)
steps.run("a bad topic name is refused", create_topic_with_bad_name)
for partition, codec in enumerate(CODECS):
    settings = {"compression.type": codec, "enable.idempotence": True}
    steps.run(f"produce, idempotent, {codec}", lambda: produce(partition, **settings))
steps.run("produce, not idempotent, acks=1", lambda: produce(PLAIN_PARTITION, **{"acks": 1}))
steps.run("read every partition from offset 0", read_everything)
steps.run("read from an offset in the middle", read_from_the_middle)
steps.run("read from the middle of a compressed batch", read_from_the_middle_of_a_compressed_batch)
steps.run("read in small fetches", read_in_small_fetches)
steps.run("earliest and latest offsets", first_and_last_offsets)
steps.run("offsets for timestamps", offsets_by_timestamp)
steps.run("read from a timestamp", read_from_a_timestamp)
steps.run("an offset out of range is an error", read_out_of_range)
steps.run("a record of 900 kB", large_record)
steps.run("describe the topic's configuration", describe_topic_configuration)
steps.run("describe the broker's configuration", describe_broker_configuration)
steps.run("alter the configuration incrementally", alter_configuration)
steps.run("a bad configuration value is refused", alter_configuration_with_a_bad_value)
steps.run("describe the cluster", describe_cluster)
steps.run("read in a group, and commit", read_in_a_group)
steps.run("list and describe the group", list_and_describe_group)
steps.run("alter the group's offsets", alter_group_offsets)
steps.run("delete the group", delete_group)
steps.run("create partitions", create_partitions)
steps.run("fewer partitions are refused", create_fewer_partitions)
steps.run("delete records", delete_records)
steps.run("delete a topic", delete_topic)
steps.finish()
