"""Kills the broker with SIGKILL again and again under an idempotent producer with acks=all, and looks for lost and doubled records.

kill9.py --port PORT [--rounds 20] [--seed N] -- BROKER COMMAND ...

The command runs a broker in the foreground that listens on 127.0.0.1:PORT and always finds the same data. One producer (librdkafka
through confluent-kafka) lives through all rounds; another one lives for one round, with a producer id of its own. In each round the
broker is started, killed at a random moment while records are on their way, and started again in the next. At the end everything is
read: every acknowledged record is there, at the offset it was given, nothing is there twice, and the order is kept.
"""

import argparse
import collections
import random
import socket
import subprocess
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from steps import Steps, expect_equal, fresh_name

PARTITIONS = 3
MOST_IN_FLIGHT = 2000
START_LIMIT_SECONDS = 60


class Broker:
    def __init__(self, command, port):
        self.command = command
        self.port = port
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)
        deadline = time.time() + START_LIMIT_SECONDS
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"the broker ended at its start with exit code {self.process.returncode}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.time() > deadline:
                    raise RuntimeError(f"the broker did not listen within {START_LIMIT_SECONDS} s") from None
                time.sleep(0.02)

    def kill(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the broker ended by itself with exit code {self.process.returncode}")
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


class Writer:
    """An idempotent producer that numbers its records and remembers which were acknowledged, and at which offset."""

    def __init__(self, name, bootstrap, topic, randomness):
        self.name = name
        self.topic = topic
        self.randomness = randomness
        self.sent = 0
        self.acknowledged = {}  # (partition, offset) by number
        self.errors = []
        self.fatal = None
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 100,
                "message.timeout.ms": 0,  # never gives up
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 10,
                "error_cb": self.on_error,
                "log_level": 0,
            }
        )

    def on_error(self, error):
        if error.fatal():
            self.fatal = error

    def in_flight(self):
        return self.sent - len(self.acknowledged) - len(self.errors)

    def delivered(self, number):
        def callback(error, message):
            if error is not None:
                self.errors.append((number, str(error)))
            else:
                self.acknowledged[number] = (message.partition(), message.offset())

        return callback

    def send(self):
        """Sends the next record, unless many are on their way already."""
        if self.in_flight() >= MOST_IN_FLIGHT:
            self.producer.poll(0.005)
            return
        number = self.sent
        padding = b"x" * self.randomness.randrange(1000)
        value = b"%s %d %s" % (self.name.encode(), number, padding)
        self.producer.produce(self.topic, value, partition=number % PARTITIONS, on_delivery=self.delivered(number))
        self.sent += 1
        self.producer.poll(0)

    def finish(self):
        left = self.producer.flush(120)
        assert left == 0, f"{self.name}: {left} records were not acknowledged within 120 s of the last start"
        assert self.fatal is None, f"{self.name}: {self.fatal}"
        assert not self.errors, f"{self.name}: {len(self.errors)} records failed, the first: {self.errors[0]}"


def create_topic(bootstrap, topic):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # What is acknowledged has been synced: a kill would lose nothing that is in the page cache, but the sync has to be right, too.
    created = admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"flush.messages": "1"})])
    created[topic].result(30)


def read_everything(bootstrap, topic):
    """All records of all partitions: lists of (offset, value)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",  # demanded by the client; assign() never joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    records = {partition: [] for partition in range(PARTITIONS)}
    at_end = set()
    deadline = time.time() + 120
    while len(at_end) < PARTITIONS:
        assert time.time() < deadline, "the ends of the partitions did not come within 120 s"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            records[message.partition()].append((message.offset(), message.value()))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            at_end.add(message.partition())
        else:
            raise KafkaException(message.error())
    consumer.close()
    return records


def run_rounds(arguments, broker, bootstrap, topic, randomness, writers):
    broker.start()
    create_topic(bootstrap, topic)
    lasting = Writer("lasting", bootstrap, topic, randomness)
    writers.append(lasting)
    killed_in_flight = 0
    for round_number in range(arguments.rounds):
        if round_number > 0:
            broker.start()
        brief = Writer(f"round-{round_number}", bootstrap, topic, randomness)
        writers.append(brief)
        acknowledged_before = len(lasting.acknowledged)
        last_start = time.time()
        # The moment is counted from the first acknowledgement, so that every kill meets records on their way.
        moment = None
        while moment is None or time.time() < moment:
            lasting.send()
            brief.send()
            if moment is None and len(lasting.acknowledged) > acknowledged_before:
                moment = time.time() + randomness.uniform(0.0, arguments.longest)
            assert time.time() < last_start + 120, f"round {round_number}: nothing was acknowledged within 120 s"
        in_flight = lasting.in_flight() + brief.in_flight()
        killed_in_flight += in_flight > 0
        broker.kill()
        print(f"     round {round_number}: {len(lasting.acknowledged)} acknowledged, {in_flight} in flight at the kill", flush=True)
    broker.start()
    for writer in writers:
        writer.finish()
    assert killed_in_flight > 0, "no kill met a record on its way"


def check(bootstrap, topic, writers):
    records = read_everything(bootstrap, topic)
    places = collections.defaultdict(list)
    for partition, read in records.items():
        expect_equal([offset for offset, _ in read], list(range(len(read))), f"offsets of partition {partition}")
        last = {}
        for offset, value in read:
            name, number = value.split(b" ", 2)[:2]
            key = (name.decode(), int(number))
            places[key].append((partition, offset))
            if key[1] <= last.get(name, -1):
                raise AssertionError(f"partition {partition}, offset {offset}: {key} comes after number {last[name]}")
            last[name] = key[1]
    sent = 0
    for writer in writers:
        for number, place in writer.acknowledged.items():
            found = places.get((writer.name, number), [])
            assert found, f"{writer.name} {number} was acknowledged at {place} and is missing"
            assert found == [place], f"{writer.name} {number} was acknowledged at {place} and is at {found}"
        sent += writer.sent
    expect_equal(len(places), sent, "records")
    print(f"     {sent} records of {len(writers)} producers, each once, in order", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--longest", type=float, default=1.0, help="the longest time from the first acknowledgement to the kill, s")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    randomness = random.Random(arguments.seed)
    bootstrap = f"127.0.0.1:{arguments.port}"
    topic = fresh_name("kill9")
    broker = Broker(arguments.command, arguments.port)
    writers = []
    steps = Steps()
    try:
        steps.run(
            f"{arguments.rounds} rounds of kill -9, and then everything is acknowledged",
            lambda: run_rounds(arguments, broker, bootstrap, topic, randomness, writers),
        )
        if steps.failed == 0:
            steps.run("nothing acknowledged is missing, nothing is twice", lambda: check(bootstrap, topic, writers))
            steps.run("the broker stops on SIGTERM", lambda: expect_equal(broker.stop() in (0, 143), True, "a clean end"))
    finally:
        if broker.process and broker.process.poll() is None:
            broker.process.kill()
    sys.stdout.flush()
    steps.finish()


main()
