"""aiokafka against a broker: topics, produce, fetch by offset and by timestamp, groups, admin.

aio_kafka.py HOST:PORT   prints `ok` or `FAIL` for each step, then `N passed, N failed`; exit code 1 where a step failed.
aiokafka has no IncrementalAlterConfigs, so that the older AlterConfigs is what it tests.
"""

import asyncio
import logging
import time

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

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

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what matters is told by the steps

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]  # one partition each
PLAIN_PARTITION = len(CODECS)  # written without idempotence, acks=1
PARTITIONS = PLAIN_PARTITION + 1
TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION = 36, 3

bootstrap = bootstrap_from_arguments()
topic = fresh_name("aiokafka")
short_lived_topic = fresh_name("aiokafka-short-lived")
group = fresh_name("aiokafka-group")
start_ms = first_timestamp()
records = {partition: make_records(f"aiokafka {partition}", start_ms) for partition in range(PARTITIONS)}


def with_admin(call):
    """Runs one coroutine with an admin client of its own, and gives its result."""

    async def run():
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await call(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def with_consumer(call, **configuration):
    """Runs one coroutine with a consumer of its own, without a group, and gives its result."""

    async def run():
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **configuration)
        await consumer.start()
        try:
            return await call(consumer)
        finally:
            await consumer.stop()

    return asyncio.run(run())


def create(name, partitions, **configuration):
    answer = with_admin(lambda admin: admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configuration)]))
    return answer.topic_errors[0][1]


def delete(name):
    answer = with_admin(lambda admin: admin.delete_topics([name]))
    return answer.topic_error_codes[0][1]


def topic_names():
    return with_admin(lambda admin: admin.list_topics())


def partition_count():
    return len(with_admin(lambda admin: admin.describe_topics([topic]))[0]["partitions"])


def create_topic():
    expect_equal(create(topic, PARTITIONS, **{"retention.ms": "86400000"}), 0, "error code")
    eventually(partition_count, PARTITIONS)


def create_topic_again():
    expect_equal(create(topic, 1), TOPIC_ALREADY_EXISTS, "error code")


def produce(partition, **configuration):
    """Sends the partition's records and checks the offset that each was given."""

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, **configuration)
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=record.headers,
                )
                for record in records[partition]
            ]
            return [(await future).offset for future in futures]
        finally:
            await producer.stop()

    expect_equal(asyncio.run(run()), list(range(RECORDS_PER_PARTITION)), "offsets")


def read(partition, offset, **configuration):
    """Reads the partition from an offset to the end that it has now."""
    place = TopicPartition(topic, partition)

    async def run(consumer):
        consumer.assign([place])
        consumer.seek(place, offset)
        end = (await consumer.end_offsets([place]))[place]
        got = []
        deadline = time.time() + 20
        while await consumer.position(place) < end or offset > end:
            assert time.time() < deadline, f"the end of the partition did not come; {len(got)} records so far"
            for message in (await consumer.getmany(place, timeout_ms=500)).get(place, []):
                expect_equal(message.offset, offset + len(got), "offset")
                got.append(Record(message.key, message.value, message.timestamp, list(message.headers)))
        return got

    return with_consumer(run, auto_offset_reset="none", **configuration)


def read_everything():
    for partition in range(PARTITIONS):
        expect_records(read(partition, 0), records[partition])


def read_from_the_middle():
    expect_records(read(0, 77), records[0][77:])


def read_from_the_middle_of_a_compressed_batch():
    expect_records(read(4, 123), records[4][123:])


def read_in_small_fetches():
    expect_records(read(0, 0, max_partition_fetch_bytes=1000, fetch_max_bytes=1000), records[0])


def beginning_offset(partition):
    place = TopicPartition(topic, partition)
    return with_consumer(lambda consumer: consumer.beginning_offsets([place]))[place]


def first_and_last_offsets():
    place = TopicPartition(topic, 0)
    expect_equal(beginning_offset(0), 0, "beginning offset")
    end = with_consumer(lambda consumer: consumer.end_offsets([place]))[place]
    expect_equal(end, RECORDS_PER_PARTITION, "end offset")


def offset_for_time(partition, timestamp_ms):
    place = TopicPartition(topic, partition)
    answer = with_consumer(lambda consumer: consumer.offsets_for_times({place: timestamp_ms}))[place]
    return answer and (answer.offset, answer.timestamp)


def offsets_by_timestamp():
    at_50 = start_ms + 50 * MILLISECONDS_BETWEEN_RECORDS
    for partition in range(PARTITIONS):
        expect_equal(offset_for_time(partition, start_ms - 1), (0, start_ms), "before the first record")
        expect_equal(offset_for_time(partition, at_50), (50, at_50), "at record 50")
        at_51 = at_50 + MILLISECONDS_BETWEEN_RECORDS
        expect_equal(offset_for_time(partition, at_50 + 1), (51, at_51), "just after record 50")
        after_all = start_ms + RECORDS_PER_PARTITION * MILLISECONDS_BETWEEN_RECORDS
        expect_equal(offset_for_time(partition, after_all), None, "after the last record")


def read_from_a_timestamp():
    offset, _ = offset_for_time(2, start_ms + 120 * MILLISECONDS_BETWEEN_RECORDS - 3)
    expect_records(read(2, offset), records[2][120:])


def read_out_of_range():
    expect_error(lambda: read(0, 100_000), "OffsetOutOfRangeError")


def configuration_of(resource_type, name):
    resource = ConfigResource(resource_type, name)
    [answer] = with_admin(lambda admin: admin.describe_configs([resource]))
    error_code, error_message, _, _, entries = answer.resources[0]
    assert error_code == 0, f"error {error_code}: {error_message}"
    return {entry[0]: entry[1] for entry in entries}


def topic_configuration():
    return configuration_of(ConfigResourceType.TOPIC, topic)


def describe_topic_configuration():
    configuration = topic_configuration()
    expect_equal(configuration["cleanup.policy"], "delete", "cleanup.policy")
    expect_equal(configuration["retention.ms"], "86400000", "retention.ms")


def describe_broker_configuration():
    broker_id = with_admin(lambda admin: admin.describe_cluster())["brokers"][0]["node_id"]
    configuration = configuration_of(ConfigResourceType.BROKER, str(broker_id))
    for name in ("num.partitions", "log.dirs", "advertised.listeners"):
        assert name in configuration, f"{name} is missing"


def alter_configuration():
    def alter(configuration):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=configuration)
        [answer] = with_admin(lambda admin: admin.alter_configs([resource]))
        expect_equal(answer.resources[0][0], 0, "error code")

    # The whole of the topic's own configuration is replaced by what is sent.
    alter({"max.message.bytes": "2000000"})
    eventually(lambda: topic_configuration()["max.message.bytes"], "2000000")
    eventually(lambda: topic_configuration()["retention.ms"] == "86400000", False)
    alter({"retention.ms": "86400000"})
    eventually(lambda: topic_configuration()["retention.ms"], "86400000")
    eventually(lambda: topic_configuration()["max.message.bytes"] == "2000000", False)


def describe_cluster():
    cluster = with_admin(lambda admin: admin.describe_cluster())
    assert cluster["cluster_id"], "no cluster id"
    ids = [broker["node_id"] for broker in cluster["brokers"]]
    assert cluster["controller_id"] in ids, f"the controller {cluster['controller_id']} is none of the brokers {ids}"


def read_in_a_group():
    async def call(consumer):
        consumer.subscribe([topic])
        count, deadline = 0, time.time() + 30
        while count < PARTITIONS * RECORDS_PER_PARTITION and time.time() < deadline:
            count += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
        expect_equal(count, PARTITIONS * RECORDS_PER_PARTITION, "records")
        await consumer.commit()
        expect_equal(await consumer.committed(TopicPartition(topic, 0)), RECORDS_PER_PARTITION, "committed")

    with_consumer(call, group_id=group, auto_offset_reset="earliest")
    told = with_admin(lambda admin: admin.list_consumer_group_offsets(group))
    offsets = {place.partition: one.offset for place, one in told.items()}
    expect_equal(offsets, dict.fromkeys(range(PARTITIONS), RECORDS_PER_PARTITION), "the group's offsets")


def list_and_describe_group():
    listed = with_admin(lambda admin: admin.list_consumer_groups())
    assert group in {one[0] for one in listed}, "it is not listed"
    [answer] = with_admin(lambda admin: admin.describe_consumer_groups([group]))
    expect_equal(answer.groups[0][:3], (0, group, "Empty"), "description")


def create_partitions():
    with_admin(lambda admin: admin.create_partitions({topic: NewPartitions(PARTITIONS + 2)}))
    eventually(partition_count, PARTITIONS + 2)
    expect_records(read(PARTITIONS + 1, 0), [])


def create_fewer_partitions():
    expect_error(
        lambda: with_admin(lambda admin: admin.create_partitions({topic: NewPartitions(1)})), "InvalidPartitionsError"
    )


def delete_records():
    place = TopicPartition(topic, 1)
    low_watermarks = with_admin(lambda admin: admin.delete_records({place: RecordsToDelete(60)}))
    expect_equal(low_watermarks[place], 60, "low watermark")
    expect_equal(beginning_offset(1), 60, "beginning offset")
    expect_records(read(1, 60), records[1][60:])
    expect_error(lambda: read(1, 10), "OffsetOutOfRangeError")


def delete_topic():
    expect_equal(create(short_lived_topic, 2), 0, "error code")
    eventually(lambda: short_lived_topic in topic_names(), True)
    expect_equal(delete(short_lived_topic), 0, "error code")
    eventually(lambda: short_lived_topic in topic_names(), False)
    expect_equal(delete(short_lived_topic), UNKNOWN_TOPIC_OR_PARTITION, "error code")


print(f"aiokafka {aiokafka.__version__}")
steps = Steps()
steps.run("create a topic", create_topic)
steps.run("creating it again is refused", create_topic_again)
for partition, codec in enumerate(CODECS):
    steps.run(
        f"produce, idempotent, {codec or 'none'}",
        lambda: produce(partition, compression_type=codec, enable_idempotence=True),
    )
steps.run("produce, not idempotent, acks=1", lambda: produce(PLAIN_PARTITION, acks=1))
steps.run("read every partition from offset 0", read_everything)
steps.run("read from an offset in the middle", read_from_the_middle)
steps.run("read from the middle of a compressed batch", read_from_the_middle_of_a_compressed_batch)
steps.run("read in small fetches", read_in_small_fetches)
steps.run("first and last offsets", first_and_last_offsets)
steps.run("offsets for timestamps", offsets_by_timestamp)
steps.run("read from a timestamp", read_from_a_timestamp)
steps.run("an offset out of range is an error", read_out_of_range)
steps.run("describe the topic's configuration", describe_topic_configuration)
steps.run("describe the broker's configuration", describe_broker_configuration)
steps.run("alter the configuration", alter_configuration)
steps.run("describe the cluster", describe_cluster)
steps.run("read in a group, and commit", read_in_a_group)
steps.run("list and describe the group", list_and_describe_group)
steps.run("create partitions", create_partitions)
steps.run("fewer partitions are refused", create_fewer_partitions)
steps.run("delete records", delete_records)
steps.run("delete a topic", delete_topic)
steps.finish()
