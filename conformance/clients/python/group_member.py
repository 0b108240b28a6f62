"""A member of a consumer group, with one of the Python clients: it commits after processing, and says so.

group_member.py confluent[:ASSIGNOR]|kafka-python|aiokafka BOOTSTRAP GROUP TOPIC

Prints `record PARTITION OFFSET NUMBER` for each record, then `commit PARTITION OFFSET` for each acknowledged commit; ends cleanly at SIGTERM.
"""

import asyncio
import signal
import sys
import threading

SESSION_TIMEOUT_MS = 6000
HEARTBEAT_INTERVAL_MS = 1000
MOST_RECORDS = 100

leaving = threading.Event()


def say(*words):
    print(*words, flush=True)


def say_assigned(partitions):
    say("assigned", ",".join(map(str, sorted(partitions))))


def confluent(assignor, bootstrap, group, topic):
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    def on_assign(consumer, partitions):
        say_assigned(one.partition for one in partitions)

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": assignor or "range",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic], on_assign=on_assign, on_revoke=lambda consumer, partitions: say("revoked"))
    while not leaving.is_set():
        positions = {}
        for message in consumer.consume(MOST_RECORDS, timeout=0.5):
            if message.error() is None:
                say("record", message.partition(), message.offset(), message.value().decode())
                positions[message.partition()] = message.offset() + 1
            else:
                say("error", message.error())
        if positions:
            wanted = [TopicPartition(topic, partition, offset) for partition, offset in positions.items()]
            try:
                for one in consumer.commit(offsets=wanted, asynchronous=False):
                    say(*(("commit", one.partition, one.offset) if one.error is None else ("error", one.error)))
            except KafkaException as error:  # somebody else has the partitions now, and begins where was committed before
                say("error", error)
    consumer.close()


def kafka_python(_, bootstrap, group, topic):
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            say("revoked")

        def on_partitions_assigned(self, assigned):
            say_assigned(one.partition for one in assigned)

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=MOST_RECORDS,
    )
    consumer.subscribe([topic], listener=Listener())
    while not leaving.is_set():
        positions = {}
        for partition, records in consumer.poll(timeout_ms=500).items():
            for record in records:
                say("record", record.partition, record.offset, record.value.decode())
            positions[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        if positions:
            try:
                consumer.commit(positions)
                for partition, position in positions.items():
                    say("commit", partition.partition, position.offset)
            except KafkaError as error:
                say("error", repr(error))
    consumer.close()


async def aiokafka(_, bootstrap, group, topic):
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            say("revoked")

        async def on_partitions_assigned(self, assigned):
            say_assigned(one.partition for one in assigned)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not leaving.is_set():
        positions = {}
        for partition, records in (await consumer.getmany(timeout_ms=500, max_records=MOST_RECORDS)).items():
            for record in records:
                say("record", record.partition, record.offset, record.value.decode())
            positions[partition] = records[-1].offset + 1
        if positions:
            try:
                await consumer.commit(positions)
                for partition, offset in positions.items():
                    say("commit", partition.partition, offset)
            except KafkaError as error:
                say("error", repr(error))
    await consumer.stop()


def main():
    if len(sys.argv) != 5:
        sys.exit(f"usage: {sys.argv[0]} CLIENT BOOTSTRAP GROUP TOPIC")
    client, _, option = sys.argv[1].partition(":")
    signal.signal(signal.SIGTERM, lambda number, frame: leaving.set())
    if client == "confluent":
        confluent(option, *sys.argv[2:])
    elif client == "kafka-python":
        kafka_python(option, *sys.argv[2:])
    elif client == "aiokafka":
        asyncio.run(aiokafka(option, *sys.argv[2:]))
    else:
        sys.exit(f"no client is named {client}")
    say("left")


if __name__ == "__main__":
    main()
