"""A consumer group of three members, each a process of a client's own, in a cluster of three brokers, while a producer writes: one member leaves
cleanly, one is killed, and then the broker that coordinates the group is killed. What the members print is judged in the end.

groups.py --control SCRIPT --client NAME [--rate 200] [--partitions 6] -- PROGRAM ARGUMENTS...

SCRIPT takes the commands of cluster.sh. The member's program is called with BOOTSTRAP GROUP TOPIC after its arguments (or in place of the words
{bootstrap}, {group} and {topic} among them), prints what group_history.Line says, and leaves the group and ends at SIGTERM.

Prints `ok` or `FAIL` for each step, then `N passed, N failed`; exit code 1 where a step failed.
"""

import argparse
import faulthandler
import logging
import signal
import subprocess
import sys
import threading
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.metadata import CoordinatorType

from chaos import Control, wait_in_sync
from group_history import GroupHistory, Line, judge_group
from steps import Steps, fresh_name

MEMBERS = 3
OBSERVE_SECONDS = 0.2
SESSION_SECONDS = 6
# A rebalance waits for members that poll; a member that was killed is missed after its session.
REBALANCE_SECONDS = 40


class Writer(threading.Thread):
    """An idempotent producer with acks=all that numbers its records, at a steady rate."""

    def __init__(self, bootstrap, topic, rate, history):
        super().__init__(name="writer", daemon=True)
        self.topic, self.rate, self.history = topic, rate, history
        self.ending = threading.Event()
        self.problem = None
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 20, "message.timeout.ms": 0, "log_level": 0}
        )

    def told(self, number):
        def callback(error, message):
            if error is None:
                self.history.acknowledged[number] = (message.partition(), message.offset())
            else:
                self.history.failed[number] = str(error)

        return callback

    def run(self):
        try:
            start = time.monotonic()
            while not self.ending.is_set():
                while self.history.sent < (time.monotonic() - start) * self.rate:
                    number = self.history.sent
                    self.history.sent += 1
                    self.producer.produce(self.topic, str(number).encode(), str(number).encode(), on_delivery=self.told(number))
                self.producer.poll(0.02)
            left = self.producer.flush(90)
            if left:
                self.problem = f"{left} records were not delivered within 90 s"
        except Exception as error:  # told by the step that waits for the end
            self.problem = f"{type(error).__name__}: {error}"


class Member:
    def __init__(self, name, words, history, clock):
        self.name, self.history, self.clock = name, history, clock
        self.talk = []
        self.kinds = []
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, name=name, daemon=True)
        self.reader.start()

    def read(self):
        for text in self.process.stdout:
            line = Line(text)
            self.history.tell(self.name, line, self.clock())
            if line.kind in ("record", "commit"):
                continue
            self.talk.append(f"{self.clock():.1f} {text.strip()}")
            self.kinds.append(line.kind)

    def count(self):
        return self.history.count_processed(self.name)

    def wait_for_end(self, seconds):
        code = self.process.wait(seconds)
        self.reader.join(10)
        return code


class Asker:
    """Asks who is in a group and what it has committed: with kafka-python, for the admin client of librdkafka 2.16 remembers coordinators that are gone,
    and crashes. A client that has failed is put away, and with it what it knows of coordinators."""

    def __init__(self, bootstrap, group, topic):
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.admin = None

    def ask(self, question):
        try:
            if self.admin is None:
                self.admin = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","), request_timeout_ms=5000, bootstrap_timeout_ms=5000)
            return question(self.admin)
        except KafkaError:
            self.close()
            raise

    def close(self):
        admin, self.admin = self.admin, None
        if admin is not None:
            admin.close()

    def describe(self):
        """The group's state, how many members it has, and who coordinates it; None where nobody can tell now."""
        try:
            told = self.ask(lambda admin: admin.describe_groups([self.group]))[self.group]
            return (told["group_state"].upper(), len(told["members"]), self.ask(self.coordinator))
        except KafkaError as error:
            return ("unknown", repr(error)[:80], None)

    def coordinator(self, admin):
        return admin._manager.cluster.get_coordinator(self.group, CoordinatorType.GROUP)

    def committed(self):
        """The committed offsets by partition, None where nobody can tell now."""
        try:
            told = self.ask(lambda admin: admin.list_group_offsets({self.group: None}))[self.group]
        except KafkaError:
            return None
        return {place.partition: one.offset for place, one in told.items() if place.topic == self.topic}


class Run:
    def __init__(self, arguments):
        self.arguments = arguments
        self.control = Control(arguments.control)
        self.bootstrap = self.control("bootstrap")
        self.topic = fresh_name(f"groups-{arguments.client.replace(':', '-')}")
        self.group = f"{self.topic}-group"
        self.history = GroupHistory()
        self.asker = Asker(self.bootstrap, self.group, self.topic)
        self.members = []
        self.begin = time.monotonic()
        self.observing = threading.Event()
        self.observer = threading.Thread(target=self.observe, name="observer", daemon=True)
        self.writer = Writer(self.bootstrap, self.topic, arguments.rate, self.history)

    def clock(self):
        return time.monotonic() - self.begin

    # ---- what is known of the group

    def wait_for(self, state, members, seconds=REBALANCE_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            told = self.asker.describe()
            if told[:2] == (state, members):
                return told
            assert time.monotonic() < deadline, f"wanted the group {state} with {members} members within {seconds} s, it is {told}"
            time.sleep(0.3)

    def look(self, asker):
        """Takes down what is committed now; None where nobody can tell."""
        asked = self.clock()
        offsets = asker.committed()
        if offsets is not None:
            self.history.observe(asked, self.clock(), offsets)
        return offsets

    def observe(self):
        asker = Asker(self.bootstrap, self.group, self.topic)
        while not self.observing.is_set():
            self.look(asker)
            time.sleep(OBSERVE_SECONDS)

    # ---- members

    def add_member(self):
        values = {"bootstrap": self.bootstrap, "group": self.group, "topic": self.topic}
        words = self.arguments.program
        if any(f"{{{name}}}" in word for name in values for word in words):
            for name, value in values.items():
                words = [word.replace(f"{{{name}}}", value) for word in words]
        else:
            words = [*words, *values.values()]
        self.members.append(Member(f"member-{len(self.members) + 1}", words, self.history, self.clock))
        return self.members[-1]

    def end(self, member):
        member.process.send_signal(signal.SIGTERM)
        if self.arguments.drops_one_on_leaving:
            self.history.droppers.add(member.name)

    def alive(self):
        return [member for member in self.members if member.process.poll() is None]

    def expect_progress(self, members, seconds=REBALANCE_SECONDS):
        """Each of these processes more records."""
        before = {member.name: member.count() for member in members}
        deadline = time.monotonic() + seconds
        while True:
            waiting = [member for member in members if member.count() == before[member.name]]
            if not waiting:
                return
            ended = [member for member in waiting if member.process.poll() is not None]
            assert not ended, f"{ended[0].name} ended with code {ended[0].process.returncode}: {ended[0].talk[-3:]}"
            assert time.monotonic() < deadline, f"{', '.join(one.name for one in waiting)} processed nothing within {seconds} s: {waiting[0].talk[-3:]}"
            time.sleep(0.2)

    def expect_stable(self):
        self.wait_for("STABLE", MEMBERS)
        assert len(self.alive()) == MEMBERS, f"{len(self.alive())} members run"
        self.expect_progress(self.alive())

    # ---- the steps

    def all_join(self):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(self.topic, self.arguments.partitions, 3)])[self.topic].result(30)
        assert wait_in_sync(self.bootstrap, self.topic, self.arguments.partitions, 60) is not None, "the topic is not in sync"
        self.writer.start()
        self.observer.start()
        for _ in range(MEMBERS):
            self.add_member()
        self.expect_stable()

    def one_leaves(self):
        leaver = self.alive()[0]
        self.end(leaver)
        code = leaver.wait_for_end(30)
        assert code == 0, f"{leaver.name} ended with code {code}: {leaver.talk[-3:]}"
        # Well before its session ends it is gone: it has said so.
        self.wait_for("STABLE", MEMBERS - 1)
        self.expect_progress(self.alive())
        self.add_member()
        self.expect_stable()

    def one_is_killed(self):
        victim = self.alive()[1]
        victim.process.kill()
        victim.wait_for_end(10)
        self.wait_for("STABLE", MEMBERS - 1, SESSION_SECONDS + REBALANCE_SECONDS)
        self.expect_progress(self.alive())
        self.add_member()
        self.expect_stable()

    def coordinator_is_killed(self):
        told = self.wait_for("STABLE", MEMBERS)
        before, victim = self.alive(), told[2]
        self.control("kill", victim)
        try:
            # The others may find the new coordinator late: a session is missed, and they join again.
            told = self.wait_for("STABLE", MEMBERS, 2 * REBALANCE_SECONDS)
            assert told[2] != victim, f"broker {victim} was killed and coordinates the group"
            self.expect_progress(before, 2 * REBALANCE_SECONDS)
        finally:
            self.control.eventually("start", victim)
        assert wait_in_sync(self.bootstrap, self.topic, self.arguments.partitions, 90) is not None, "not in sync after the broker is back"
        self.wait_for("STABLE", MEMBERS, 2 * REBALANCE_SECONDS)
        self.expect_progress(before, 2 * REBALANCE_SECONDS)

    def everything_is_processed(self):
        self.writer.ending.set()
        self.writer.join(120)
        assert self.writer.problem is None, self.writer.problem
        deadline = time.monotonic() + 60
        while (committed := self.look(self.asker)) != self.history.ends():
            assert time.monotonic() < deadline, f"the log ends at {self.history.ends()}, committed is {committed}"
            time.sleep(0.3)

    def all_leave(self):
        leavers = self.alive()
        for member in leavers:
            self.end(member)
        codes = {member.name: member.wait_for_end(30) for member in leavers}
        assert not any(codes.values()), f"exit codes: {codes}"
        self.wait_for("EMPTY", 0)

    def judged(self):
        self.observing.set()
        self.observer.join(30)
        self.look(self.asker)
        verdict = judge_group(self.history)
        assert verdict.is_green(), "; ".join(verdict.examples)

    def finish(self):
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
        history = self.history
        print(
            f"     {len(history.acknowledged)} records acknowledged, {history.count_processed()} processed by {len(self.members)} members, "
            f"{len(history.commits)} commits, {len(history.observations)} looks at what is committed",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--control", required=True, help="cluster.sh, or a script that takes its commands")
    parser.add_argument("--client", required=True, help="what to call the member's program")
    parser.add_argument("--rate", type=int, default=200, help="records per second")
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--talk", help="a file for what the members said beside records and commits")
    parser.add_argument("--drops-one-on-leaving", action="store_true", help="a member that leaves may commit one record more than it processed")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    faulthandler.enable()  # a client that crashes takes this process with it: what it did then is told
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters is told by the steps
    run, steps, name = Run(arguments), Steps(), arguments.client
    steps.run(f"{name}: three members join", run.all_join)
    steps.run(f"{name}: one leaves cleanly, another comes", run.one_leaves)
    steps.run(f"{name}: one is killed, another comes", run.one_is_killed)
    steps.run(f"{name}: the group's coordinator is killed", run.coordinator_is_killed)
    steps.run(f"{name}: everything is processed and committed", run.everything_is_processed)
    steps.run(f"{name}: all leave, the group is empty", run.all_leave)
    steps.run(f"{name}: nothing missing, no committed offset went back", run.judged)
    run.finish()
    if arguments.talk:
        with open(arguments.talk, "w", encoding="utf-8") as file:
            for member in run.members:
                file.writelines(f"{member.name} {text}\n" for text in member.talk)
    steps.finish()


if __name__ == "__main__":
    main()
