"""kafka-python against a broker: topics, produce, fetch by offset and by timestamp, groups, admin.

kafka_python.py HOST:PORT   prints `ok` or `FAIL` for each step, then `N passed, N failed`; exit code 1 where a step failed.
"""

import logging
import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec
from kafka.structs import OffsetAndMetadata

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

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters is told by the steps

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]  # one partition each
PLAIN_PARTITION = len(CODECS)  # written without idempotence, acks=1
PARTITIONS = PLAIN_PARTITION + 1

bootstrap = bootstrap_from_arguments()
topic = fresh_name("kafka-python")
short_lived_topic = fresh_name("kafka-python-short-lived")
group = fresh_name("kafka-python-group")
start_ms = first_timestamp()
records = {partition: make_records(f"kafka-python {partition}", start_ms) for partition in range(PARTITIONS)}
admin = None


def connect_admin():
    global admin
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)


def create_topic():
    admin.create_topics(
        {topic: {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": {"retention.ms": "86400000"}}}
    )
    eventually(lambda: partition_count(topic), PARTITIONS)


def partition_count(name):
    return len(admin.describe_topics([name])[0]["partitions"])


def topic_names():
    return {entry if isinstance(entry, str) else entry["name"] for entry in admin.list_topics()}


def create_topic_again():
    expect_error(
        lambda: admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}), "TopicAlreadyExistsError"
    )


def produce(partition, **configuration):
    """Sends the partition's records and checks the offset that each was given."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, **configuration)
    futures = [
        producer.send(
            topic,
            record.value,
            record.key,
            headers=record.headers,
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records[partition]
    ]
    offsets = [future.get(20).offset for future in futures]
    producer.close()
    expect_equal(offsets, list(range(RECORDS_PER_PARTITION)), "offsets")


def new_consumer(**configuration):
    return KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **configuration)


def read(partition, offset, topic_name=topic, **configuration):
    """Reads the partition from an offset to the end that it has now."""
    place = TopicPartition(topic_name, partition)
    consumer = new_consumer(auto_offset_reset="none", **configuration)
    try:
        consumer.assign([place])
        consumer.seek(place, offset)
        end = consumer.end_offsets([place])[place]
        got = []
        deadline = time.time() + 20
        while consumer.position(place) < end or offset > end:
            assert time.time() < deadline, f"the end of the partition did not come; {len(got)} records so far"
            for message in consumer.poll(timeout_ms=500).get(place, []):
                expect_equal(message.offset, offset + len(got), "offset")
                got.append(Record(message.key, message.value, message.timestamp, list(message.headers)))
        return got
    finally:
        consumer.close()


def read_everything():
    for partition in range(PARTITIONS):
        expect_records(read(partition, 0), records[partition])


def read_from_the_middle():
    expect_records(read(0, 77), records[0][77:])


def read_from_the_middle_of_a_compressed_batch():
    expect_records(read(4, 123), records[4][123:])


def read_in_small_fetches():
    expect_records(read(0, 0, max_partition_fetch_bytes=1000, fetch_max_bytes=1000), records[0])


def first_and_last_offsets():
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer = new_consumer()
    expect_equal(set(consumer.beginning_offsets(places).values()), {0}, "beginning offsets")
    expect_equal(set(consumer.end_offsets(places).values()), {RECORDS_PER_PARTITION}, "end offsets")
    consumer.close()
    listed = admin.list_partition_offsets({places[0]: OffsetSpec.MAX_TIMESTAMP})[places[0]]
    expect_equal(listed.offset, RECORDS_PER_PARTITION - 1, "the offset of the largest timestamp")


def offset_for_time(partition, timestamp_ms):
    place = TopicPartition(topic, partition)
    consumer = new_consumer()
    answer = consumer.offsets_for_times({place: timestamp_ms})[place]
    consumer.close()
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


def describe_topic_configuration():
    configuration = topic_configuration()
    expect_equal(configuration["cleanup.policy"]["value"], "delete", "cleanup.policy")
    expect_equal(configuration["retention.ms"]["value"], "86400000", "retention.ms")
    expect_equal(configuration["retention.ms"]["config_source"], "DYNAMIC_TOPIC_CONFIG", "source of retention.ms")


def topic_configuration():
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    return admin.describe_configs([resource], config_filter="all")["topic"][topic]


def describe_broker_configuration():
    broker_id = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    resource = ConfigResource(ConfigResourceType.BROKER, broker_id)
    configuration = admin.describe_configs([resource], config_filter="all")["broker"][broker_id]
    for name in ("num.partitions", "log.dirs", "advertised.listeners"):
        assert name in configuration, f"{name} is missing"


def alter(operation, name, value):
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: (operation, value)})
    return admin.alter_configs([resource], incremental=True)["topic"][topic]


def alter_configuration():
    expect_equal(alter(AlterConfigOp.SET, "max.message.bytes", "2000000"), "OK")
    eventually(lambda: topic_configuration()["max.message.bytes"]["value"], "2000000")
    expect_equal(topic_configuration()["retention.ms"]["value"], "86400000", "retention.ms, which was not altered")
    expect_equal(alter(AlterConfigOp.DELETE, "max.message.bytes", None), "OK")
    eventually(lambda: topic_configuration()["max.message.bytes"]["config_source"], "DEFAULT_CONFIG")
    # Appending what a list has, and taking away what it has not, are allowed and change nothing.
    expect_equal(alter(AlterConfigOp.APPEND, "cleanup.policy", "delete"), "OK")
    expect_equal(alter(AlterConfigOp.SUBTRACT, "cleanup.policy", "compact"), "OK")
    eventually(lambda: topic_configuration()["cleanup.policy"]["value"], "delete")


def alter_configuration_with_a_bad_value():
    answer = alter(AlterConfigOp.SET, "retention.ms", "abc")
    assert answer != "OK", "a retention.ms of abc was accepted"


def describe_cluster():
    cluster = admin.describe_cluster()
    assert cluster["cluster_id"], "no cluster id"
    ids = [broker["broker_id"] for broker in cluster["brokers"]]
    assert cluster["controller_id"] in ids, f"the controller {cluster['controller_id']} is none of the brokers {ids}"


def group_offsets():
    return {place.partition: told.offset for place, told in admin.list_group_offsets({group: None})[group].items()}


def group_names():
    return {one["group_id"] for one in admin.list_groups()}


def read_in_a_group():
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest", consumer_timeout_ms=8000
    )
    count = 0
    for _ in consumer:
        count += 1
        if count == PARTITIONS * RECORDS_PER_PARTITION:
            break
    expect_equal(count, PARTITIONS * RECORDS_PER_PARTITION, "records")
    consumer.commit()
    expect_equal(consumer.committed(TopicPartition(topic, 0)), RECORDS_PER_PARTITION, "committed")
    consumer.close()
    expect_equal(group_offsets(), dict.fromkeys(range(PARTITIONS), RECORDS_PER_PARTITION), "the group's offsets")


def list_and_describe_group():
    assert group in group_names(), "it is not listed"
    description = admin.describe_groups([group])[group]
    expect_equal((description["group_state"], description["members"]), ("Empty", []), "description")


def alter_group_offsets():
    admin.alter_group_offsets(group, {TopicPartition(topic, 2): OffsetAndMetadata(17, "", -1)})
    expect_equal(group_offsets()[2], 17, "offset")


def delete_group():
    admin.delete_groups([group])
    assert group not in group_names(), "it is still listed"


def create_partitions():
    admin.create_partitions({topic: PARTITIONS + 2})
    eventually(lambda: partition_count(topic), PARTITIONS + 2)
    expect_records(read(PARTITIONS + 1, 0), [])


def create_fewer_partitions():
    expect_error(lambda: admin.create_partitions({topic: 1}), "InvalidPartitionsError")


def delete_records():
    place = TopicPartition(topic, 1)
    expect_equal(admin.delete_records({place: 60})[place]["low_watermark"], 60, "low watermark")
    consumer = new_consumer()
    expect_equal(consumer.beginning_offsets([place])[place], 60, "beginning offset")
    consumer.close()
    expect_records(read(1, 60), records[1][60:])
    expect_error(lambda: read(1, 10), "OffsetOutOfRangeError")
    expect_error(lambda: admin.delete_records({place: 100_000}), "OffsetOutOfRangeError")


def delete_topic():
    admin.create_topics({short_lived_topic: {"num_partitions": 2, "replication_factor": 1}})
    eventually(lambda: short_lived_topic in topic_names(), True)
    admin.delete_topics([short_lived_topic])
    eventually(lambda: short_lived_topic in topic_names(), False)
    expect_error(lambda: admin.delete_topics([short_lived_topic]), "UnknownTopicOrPartitionError")


print(f"kafka-python {kafka.__version__}")
steps = Steps()
steps.run("connect the admin client", connect_admin)
steps.run("create a topic", create_topic)
steps.run("creating it again is refused", create_topic_again)
for partition, codec in enumerate(CODECS):
    steps.run(
        f"produce, idempotent, {codec or 'none'}",
        lambda: produce(partition, compression_type=codec, enable_idempotence=True),
    )
steps.run(
    "produce, not idempotent, acks=1", lambda: produce(PLAIN_PARTITION, enable_idempotence=False, acks=1)
)
steps.run("read every partition from offset 0", read_everything)
steps.run("read from an offset in the middle", read_from_the_middle)
steps.run("read from the middle of a compressed batch", read_from_the_middle_of_a_compressed_batch)
steps.run("read in small fetches", read_in_small_fetches)
steps.run("first and last offsets, and that of the largest timestamp", first_and_last_offsets)
steps.run("offsets for timestamps", offsets_by_timestamp)
steps.run("read from a timestamp", read_from_a_timestamp)
steps.run("an offset out of range is an error", read_out_of_range)
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
