"""Writes to a cluster at a steady rate while faults strike it one after the other, then reads everything back and judges it.

chaos.py --control SCRIPT [--faults leader,controller,coordinator] [--seconds 60] [--rate 5000] [--partitions 12] [--json FILE]

SCRIPT takes the commands of cluster.sh. A fault is `leader` (kill -9 of the broker that leads partition 0), `controller`, `coordinator` (the one
that leads), `broker` (the next in turn), `pause` (SIGSTOP of the leader of partition 0), or leader-WORD or controller-WORD: then
SCRIPT is called with `cut WORD BROKER` and `heal` (netns.sh has such words). After each fault comes its end (a start, SIGCONT,
heal), and then every replica has to be in sync again within --recovery seconds.

Green means: nothing acknowledged is missing or moved, nothing is there twice, each producer's records are in their order in each partition,
every record was acknowledged in the end, every fault was survived. The exit code is 0 then, 1 where something is wrong, 2 where the run itself failed.
"""

import argparse
import json
import subprocess
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from history import History, judge
from steps import fresh_name

TICK_SECONDS = 0.01
MOST_OPEN = 100_000


class Control:
    def __init__(self, script):
        self.script = script

    def __call__(self, *words, limit=180):
        ran = subprocess.run([self.script, *map(str, words)], capture_output=True, text=True, timeout=limit)
        if ran.returncode != 0:
            raise RuntimeError(f"{self.script} {' '.join(map(str, words))}: {(ran.stderr + ran.stdout).strip()[-300:]}")
        return ran.stdout.strip()

    def eventually(self, *words, seconds=60):
        """The same, tried again for a while: after a fault it takes time until somebody leads."""
        deadline = time.time() + seconds
        while True:
            try:
                return self(*words)
            except (RuntimeError, subprocess.TimeoutExpired):
                if time.time() > deadline:
                    raise
                time.sleep(0.2)


class Load(threading.Thread):
    """Idempotent producers with acks=all that share a steady rate, in a thread of their own."""

    def __init__(self, bootstrap, topic, arguments):
        super().__init__(name="load")
        self.topic = topic
        self.partitions = arguments.partitions
        self.rate = arguments.rate
        self.ending = threading.Event()
        self.history = History()
        self.acknowledged_at = [[] for _ in range(self.partitions)]
        self.held_back = 0
        self.problem = None
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "message.timeout.ms": 0,  # never gives up
            "queue.buffering.max.messages": 2 * MOST_OPEN,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
            "socket.timeout.ms": 10_000,
            "error_cb": self.on_error,
            "log_level": 0,
        }
        self.producers = [(f"producer-{number}", Producer(settings)) for number in range(arguments.producers)]

    def on_error(self, error):
        if error.fatal():
            self.problem = f"fatal: {error}"

    def told(self, producer, partition, number):
        def callback(error, message):
            if error is None:
                self.history.acknowledge(producer, partition, number, message.offset())
                self.acknowledged_at[partition].append(time.monotonic())
            else:
                self.history.fail(producer, partition, number, str(error))

        return callback

    def run(self):
        try:
            start, sent = time.monotonic(), 0
            while not self.ending.is_set():
                due = int((time.monotonic() - start) * self.rate)
                while sent < due:
                    if self.history.open() >= MOST_OPEN:
                        # What cannot be sent is left out: the rate goes on from here.
                        self.held_back += due - sent
                        sent = due
                        break
                    self.send(sent)
                    sent += 1
                for _, producer in self.producers:
                    producer.poll(0)
                time.sleep(TICK_SECONDS)
        except Exception as error:  # told at the end of the run, by the thread that judges
            self.problem = f"{type(error).__name__}: {error}"

    def send(self, index):
        name, producer = self.producers[index % len(self.producers)]
        partition = index // len(self.producers) % self.partitions
        number = self.history.send(name, partition)
        value = f"{name} {number} ".encode().ljust(100, b".")
        producer.produce(self.topic, value, key=name.encode(), partition=partition, on_delivery=self.told(name, partition, number))

    def finish(self, seconds):
        self.ending.set()
        self.join()
        deadline = time.time() + seconds
        for _, producer in self.producers:
            producer.flush(max(0.1, deadline - time.time()))

    def longest_gap(self, start, end):
        """The longest time in which one partition acknowledged nothing, and which partition it was."""
        gaps = []
        for partition, times in enumerate(self.acknowledged_at):
            inside = [start] + [moment for moment in list(times) if start <= moment <= end] + [end]
            gaps.append((max(later - earlier for earlier, later in zip(inside, inside[1:])), partition))
        return max(gaps)


class Fault:
    """One fault with its end."""

    def __init__(self, kind, control, topic, turn):
        self.kind, self.control, self.topic, self.turn = kind, control, topic, turn
        self.victim = None
        self.word = ""

    def choose(self):
        """Finds out who leads now: that may take a while, and is no part of the fault."""
        role, _, self.word = self.kind.partition("-")
        if role == "coordinator":
            self.victim = self.control.eventually("lead-coordinator")
        elif role == "controller":
            self.victim = self.control.eventually("controller")
        elif role == "broker":
            self.victim = self.turn % len(self.control("bootstrap").split(",")) + 1
        else:
            self.victim = self.control.eventually("leader", self.topic, 0)

    def strike(self):
        if self.kind == "coordinator":
            self.control("kill-coordinator", self.victim)
        elif self.kind == "pause":
            self.control("pause", self.victim)
        elif self.word:
            self.control("cut", self.word, self.victim)
        else:
            self.control("kill", self.victim)

    def end(self):
        if self.kind == "coordinator":
            self.control("start-coordinator", self.victim)
        elif self.kind in ("controller", "broker", "leader"):
            self.control("start", self.victim)
        elif self.kind == "pause":
            self.control("resume", self.victim)
        else:
            self.control("heal")


def in_sync(bootstrap, topic):
    """How many partitions have a leader and every replica in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 5000, "log_level": 0})
    partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
    return sum(one.leader >= 0 and sorted(one.isrs) == sorted(one.replicas) for one in partitions)


def wait_in_sync(bootstrap, topic, count, seconds):
    """Seconds until all is in sync, None where it never is. It has to be seen thrice: one broker may tell old news."""
    start = time.monotonic()
    since, seen = None, 0
    while True:
        now = time.monotonic() - start
        try:
            seen = seen + 1 if in_sync(bootstrap, topic) == count else 0
        except KafkaException:
            seen = 0
        if seen == 1:
            since = now
        if seen == 3:
            return since
        if time.monotonic() - start > seconds:
            return None
        time.sleep(0.25)


def create_topic(bootstrap, topic, arguments):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"min.insync.replicas": str(arguments.min_isr)}
    created = admin.create_topics([NewTopic(topic, arguments.partitions, arguments.replicas, config=config)])
    created[topic].result(30)
    if wait_in_sync(bootstrap, topic, arguments.partitions, 60) is None:
        raise RuntimeError(f"topic {topic} is not in sync 60 s after its creation")


def read_everything(bootstrap, topic, count):
    """All records by partition: lists of (offset, producer, number)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",  # demanded by the client; assign() never joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
    log = {partition: [] for partition in range(count)}
    at_end = set()
    deadline = time.time() + 300
    while len(at_end) < count:
        if time.time() > deadline:
            raise RuntimeError(f"the ends of partitions {sorted(set(range(count)) - at_end)} did not come within 300 s")
        for message in consumer.consume(10_000, timeout=1):
            if message.error() is None:
                producer, number = message.value().split(b" ", 2)[:2]
                log[message.partition()].append((message.offset(), producer.decode(), int(number)))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
            elif not message.error().retriable():
                raise KafkaException(message.error())
    consumer.close()
    return log


def wreak(arguments, control, bootstrap, topic, load):
    """Strikes with one fault after the other until the time is over, and gives a row for each."""
    rows = []
    begin = time.monotonic()
    faults = arguments.faults.split(",")
    while time.monotonic() - begin < arguments.seconds or len(rows) < len(faults):
        time.sleep(arguments.calm)
        fault = Fault(faults[len(rows) % len(faults)], control, topic, len(rows))
        fault.choose()
        struck = time.monotonic()
        fault.strike()
        time.sleep(arguments.down)
        fault.end()
        ended = time.monotonic()
        recovered = wait_in_sync(bootstrap, topic, arguments.partitions, arguments.recovery)
        gap, partition = load.longest_gap(struck, time.monotonic())
        rows.append(
            {
                "fault": fault.kind,
                "victim": str(fault.victim),
                "at_seconds": round(struck - begin, 1),
                "lasted_seconds": round(ended - struck, 1),
                "longest_gap_seconds": round(gap, 2),
                "gap_in_partition": partition,
                "in_sync_after_seconds": None if recovered is None else round(recovered, 1),
            }
        )
        print(row_text(rows[-1]), flush=True)
        if load.problem or recovered is None:
            break
    return rows


HEAD = f"{'fault':28} {'victim':>6} {'at s':>7} {'lasted s':>9} {'longest gap s':>14} {'in sync after s':>16}"


def row_text(row):
    recovered = "never" if row["in_sync_after_seconds"] is None else row["in_sync_after_seconds"]
    return (
        f"{row['fault']:28} {row['victim']:>6} {row['at_seconds']:>7} {row['lasted_seconds']:>9} "
        f"{row['longest_gap_seconds']:>14} {recovered:>16}"
    )


def run(arguments):
    control = Control(arguments.control)
    bootstrap = control("bootstrap")
    topic = fresh_name("chaos")
    create_topic(bootstrap, topic, arguments)
    load = Load(bootstrap, topic, arguments)
    load.start()
    print(HEAD, flush=True)
    try:
        rows = wreak(arguments, control, bootstrap, topic, load)
    finally:
        load.finish(120)
    log = read_everything(bootstrap, topic, arguments.partitions)
    history = load.history
    verdict = judge(history, log)
    wrong = list(verdict.examples)
    if load.problem:
        wrong.append(f"producer: {load.problem}")
    if history.failed:
        wrong.append(f"{len(history.failed)} records were given up, the first: {next(iter(history.failed.items()))}")
    wrong += [f"{row['fault']} of {row['victim']}: not in sync again" for row in rows if row["in_sync_after_seconds"] is None]
    summary = {
        "topic": topic,
        "green": not wrong and verdict.is_green(),
        "sent": sum(history.sent.values()),
        "acknowledged": len(history.acknowledged),
        "read": sum(map(len, log.values())),
        "left_out_while_nothing_could_be_sent": load.held_back,
        "wrong": verdict.counts,
        "examples": wrong,
        "faults": rows,
    }
    for text in wrong:
        print(f"FAIL {text}")
    print(json.dumps(summary), flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(summary, file, indent=1)
    print(f"{'ok  ' if summary['green'] else 'FAIL'} {summary['acknowledged']} acknowledged, {summary['read']} read, {len(rows)} faults")
    return 0 if summary["green"] else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--control", required=True, help="cluster.sh, or a script that takes its commands")
    parser.add_argument("--faults", default="leader,controller,coordinator")
    parser.add_argument("--seconds", type=float, default=60, help="strike until so much time has passed, and each fault once at least")
    parser.add_argument("--rate", type=int, default=5000, help="records per second")
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--min-isr", type=int, default=2)
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--down", type=float, default=5, help="seconds from a fault to its end")
    parser.add_argument("--calm", type=float, default=3, help="seconds before each fault")
    parser.add_argument("--recovery", type=float, default=90, help="seconds within which all is in sync after a fault")
    parser.add_argument("--json", help="a file for the summary")
    arguments = parser.parse_args()
    known = ("leader", "controller", "coordinator", "broker", "pause")
    for fault in arguments.faults.split(","):
        if fault not in known and not fault.startswith(("leader-", "controller-")):
            parser.error(f"no fault is named {fault}; there are {', '.join(known)}, leader-WORD, controller-WORD")
    try:
        code = run(arguments)
    except (RuntimeError, KafkaException, subprocess.TimeoutExpired) as error:
        print(f"FAIL the run itself: {error}", file=sys.stderr, flush=True)
        code = 2
    sys.exit(code)


if __name__ == "__main__":
    main()
