"""How long a cluster's partitions stand still when a broker dies: the longest time between two acknowledged records, partition by partition.

failover.py --cluster NAME=SCRIPT [--cluster NAME=SCRIPT] [--victim leader|controller] [--end kill|restart|vanish] [--partitions 10] [--runs 1]

SCRIPT takes the commands of conformance/cluster.sh, and its cluster runs; where there are several, they take turns. An idempotent producer with
acks=all writes to all partitions at a steady rate. After five seconds the victim (the leader of partition 0, or the controller) ends:
  kill      kill -9; it is started again after the measurement
  restart   kill -9, and it is started again at once: how long until it answers, and until it is in sync again, is printed as well
  vanish    nobody hears of it any more (SCRIPT is conformance/netns.sh)
Gaps are measured with the client's retry and reconnect times set to 20 ms: what is left is the cluster's.
"""

import argparse
import json
import pathlib
import socket
import statistics
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance/clients/python"))

from confluent_kafka import KafkaException, Producer  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

from chaos import Control, wait_in_sync  # noqa: E402
from steps import fresh_name  # noqa: E402

BEFORE_SECONDS = 5
TICK_SECONDS = 0.005


class Load(threading.Thread):
    """One producer in a thread of its own, so that no command that runs meanwhile holds it up."""

    def __init__(self, bootstrap, topic, partitions, rate):
        super().__init__(name="load")
        self.topic, self.partitions, self.rate = topic, partitions, rate
        self.ending = threading.Event()
        self.moments = [[] for _ in range(partitions)]
        self.failed = 0
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 0,
                "queue.buffering.max.messages": 1_000_000,
                "topic.metadata.refresh.interval.ms": 1000,
                "topic.metadata.refresh.fast.interval.ms": 20,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "socket.timeout.ms": 10_000,
                "log_level": 0,
            }
        )

    def told(self, partition):
        moments = self.moments[partition]

        def callback(error, _message):
            if error:
                self.failed += 1
            else:
                moments.append(time.monotonic())

        return callback

    def run(self):
        callbacks = [self.told(partition) for partition in range(self.partitions)]
        start, sent = time.monotonic(), 0
        while not self.ending.is_set():
            due = int((time.monotonic() - start) * self.rate)
            while sent < due:
                partition = sent % self.partitions
                self.producer.produce(self.topic, b"x" * 100, partition=partition, on_delivery=callbacks[partition])
                sent += 1
            self.producer.poll(TICK_SECONDS)
        self.producer.flush(60)

    def gaps(self, since, until):
        """The longest gap of each partition, in seconds. One that acknowledged nothing any more counts to the end."""
        longest = []
        for moments in self.moments:
            inside = [since] + [moment for moment in moments if since < moment < until] + [until]
            longest.append(max(later - earlier for earlier, later in zip(inside, inside[1:])))
        return longest


def spread(gaps):
    """Least, median and most, in milliseconds."""
    if not gaps:
        return None
    return {"partitions": len(gaps), "least_ms": ms(min(gaps)), "median_ms": ms(statistics.median(gaps)), "most_ms": ms(max(gaps))}


def ms(seconds):
    return round(seconds * 1000)


def leaders(bootstrap, topic):
    metadata = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(topic, timeout=20)
    return [metadata.topics[topic].partitions[index].leader for index in range(len(metadata.topics[topic].partitions))]


def first_answer(address, patience):
    """When a broker has answered a request (ApiVersions 0) after it was killed. Its port may take connections of the killed process a little longer."""
    host, port = address.rsplit(":", 1)
    request = struct.pack(">hhih", 18, 0, 1, -1)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host, int(port)), timeout=1) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                if len(connection.recv(4)) == 4:
                    return time.monotonic()
        except OSError:
            pass
        time.sleep(TICK_SECONDS)
    raise RuntimeError(f"{address} does not answer {patience} s after its broker was started again")


def delete_topic(bootstrap, topic):
    """A client that knew the controller before it moved is refused once: a new one asks anew."""
    deadline = time.time() + 60
    while True:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        try:
            return admin.delete_topics([topic], request_timeout=10)[topic].result(15)
        except (KafkaException, TimeoutError) as error:
            if time.time() > deadline:
                # The gaps are measured: they are told all the same.
                print(f"{topic} could not be deleted: {error}", file=sys.stderr)
                return None
        time.sleep(0.5)


def run_once(name, control, arguments):
    bootstrap = control("bootstrap")
    topic = fresh_name("failover")
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, arguments.partitions, 3, config={"min.insync.replicas": "2"})], operation_timeout=60, request_timeout=90)[topic].result(90)
    if wait_in_sync(bootstrap, topic, arguments.partitions, 120) is None:
        raise RuntimeError(f"{name}: the topic is not in sync after 120 s")
    led = leaders(bootstrap, topic)
    victim = led[0] if arguments.victim == "leader" else int(control("controller"))
    load = Load(bootstrap, topic, arguments.partitions, arguments.rate or max(500, 5 * arguments.partitions))
    load.start()
    result = {"cluster": name, "victim": arguments.victim, "broker": victim, "end": arguments.end, "partitions": arguments.partitions}
    try:
        time.sleep(BEFORE_SECONDS)
        struck = time.monotonic()
        if arguments.end == "vanish":
            control("cut", "vanished", victim)
        else:
            control("kill", victim)
        if arguments.end == "restart":
            # The control script ends only when every broker sees every other: it is not waited for.
            starting = threading.Thread(target=control, args=("start", victim), name="start")
            starting.start()
            result["answers_after_ms"] = ms(first_answer(bootstrap.split(",")[victim - 1], arguments.after) - struck)
            starting.join()
            recovered = wait_in_sync(bootstrap, topic, arguments.partitions, arguments.after)
            result["in_sync_after_ms"] = None if recovered is None else ms(time.monotonic() - struck)
        time.sleep(max(0, struck + arguments.after - time.monotonic()))
        until = time.monotonic()
    finally:
        load.ending.set()
        load.join()
        if arguments.end == "vanish":
            control("heal")
        elif arguments.end == "kill":
            control.eventually("start", victim)
    gaps = load.gaps(struck - 1, until)
    result["led_by_victim"] = spread([gap for gap, leader in zip(gaps, led) if leader == victim])
    result["others"] = spread([gap for gap, leader in zip(gaps, led) if leader != victim])
    result["failed"] = load.failed
    if arguments.each:
        result["gap_ms"] = [ms(gap) for gap in gaps]
    if wait_in_sync(bootstrap, topic, arguments.partitions, 120) is None:
        raise RuntimeError(f"{name}: not in sync again 120 s after the end of the measurement")
    delete_topic(bootstrap, topic)
    return result


def told(result):
    def cell(value):
        return f"{value['least_ms']:>7} {value['median_ms']:>7} {value['most_ms']:>7}" if value else f"{'-':>7} {'-':>7} {'-':>7}"

    more = ""
    if "answers_after_ms" in result:
        more = f"   answers after {result['answers_after_ms']} ms, in sync after {result['in_sync_after_ms']} ms"
    return f"{result['cluster']:10} {result['end']:8} {result['victim']:11} {result['partitions']:>10}   {cell(result['led_by_victim'])}   {cell(result['others'])}{more}"


HEAD = (
    f"{'':42}   {'gap of partitions led by it, ms':23}   {'gap of the others, ms':23}\n"
    f"{'cluster':10} {'end':8} {'victim':11} {'partitions':>10}   {'least':>7} {'median':>7} {'most':>7}   {'least':>7} {'median':>7} {'most':>7}"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cluster", action="append", required=True, metavar="NAME=SCRIPT")
    parser.add_argument("--victim", choices=["leader", "controller"], default="leader")
    parser.add_argument("--end", choices=["kill", "restart", "vanish"], default="kill")
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rate", type=int, default=0, help="records per second [default: 5 for each partition, 500 at least]")
    parser.add_argument("--after", type=float, default=30, help="seconds of load after the end of the victim")
    parser.add_argument("--each", action="store_true", help="names the gap of every partition in the JSON")
    parser.add_argument("--json", help="a file that a line of JSON is appended to for each run")
    parser.add_argument("--bound", type=float, help="NAME's gaps of the first cluster must not exceed so many milliseconds: else the exit code is 2")
    arguments = parser.parse_args()
    clusters = [entry.partition("=")[::2] for entry in arguments.cluster]
    print(HEAD, flush=True)
    kept = True
    for run in range(arguments.runs):
        for name, script in clusters if run % 2 == 0 else clusters[::-1]:
            result = run_once(name, Control(script), arguments)
            print(told(result), flush=True)
            if arguments.json:
                with open(arguments.json, "a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")
            worst = max(part["most_ms"] for part in (result["led_by_victim"], result["others"]) if part)
            if arguments.bound and name == clusters[0][0]:
                kept &= worst <= arguments.bound
    sys.exit(0 if kept else 2)


if __name__ == "__main__":
    main()
