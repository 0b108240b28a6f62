"""Judges what producers were told against what lies in the log. Knows nothing of brokers: chaos.py fills it, history_test.py tests it.

A producer numbers its records for each partition from 0 on. A record is `acknowledged` (at an offset), `failed` (the client gave up: it may
be there or not), or still open. The log of a partition is a list of (offset, producer, number) in the order of reading.
"""

import collections

EXAMPLES = 5


class History:
    def __init__(self):
        self.sent = collections.Counter()  # by (producer, partition)
        self.acknowledged = {}  # offset by (producer, partition, number)
        self.failed = {}  # error by the same

    def send(self, producer, partition):
        """Counts one more record and gives its number."""
        number = self.sent[producer, partition]
        self.sent[producer, partition] += 1
        return number

    def acknowledge(self, producer, partition, number, offset):
        self.acknowledged[producer, partition, number] = offset

    def fail(self, producer, partition, number, error):
        self.failed[producer, partition, number] = error

    def open(self):
        return sum(self.sent.values()) - len(self.acknowledged) - len(self.failed)


class Verdict:
    """What is wrong, by kind: each a list of sentences, the first few of them in full."""

    KINDS = ("missing", "moved", "doubled", "disordered", "strange", "offsets", "unfinished")

    def __init__(self):
        self.counts = {kind: 0 for kind in self.KINDS}
        self.examples = []

    def add(self, kind, text):
        self.counts[kind] += 1
        if self.counts[kind] <= EXAMPLES:
            self.examples.append(f"{kind}: {text}")

    def is_green(self):
        return not any(self.counts.values())


def judge(history, log):
    """`log` gives for each partition its records as (offset, producer, number)."""
    verdict = Verdict()
    found = {}
    for partition, records in log.items():
        judge_partition(verdict, history, partition, records, found)
    for (producer, partition, number), offset in history.acknowledged.items():
        place = found.get((producer, partition, number))
        if place is None:
            verdict.add("missing", f"partition {partition}: {producer} {number} was acknowledged at offset {offset} and is not there")
        elif place != offset and offset >= 0:
            verdict.add("moved", f"partition {partition}: {producer} {number} was acknowledged at offset {offset} and is at {place}")
    if history.open():
        verdict.add("unfinished", f"{history.open()} records were neither acknowledged nor given up")
    return verdict


def judge_partition(verdict, history, partition, records, found):
    last_offset = -1
    last_number = {}
    for offset, producer, number in records:
        here = f"partition {partition}, offset {offset}: {producer} {number}"
        if offset <= last_offset:
            verdict.add("offsets", f"{here} comes after offset {last_offset}")
        last_offset = offset
        key = (producer, partition, number)
        if not 0 <= number < history.sent[producer, partition]:
            verdict.add("strange", f"{here} was never sent")
            continue
        if key in found:
            verdict.add("doubled", f"{here} is at offset {found[key]}, too")
            continue
        found[key] = offset
        before = last_number.get(producer, -1)
        if number < before:
            verdict.add("disordered", f"{here} comes after {before}")
        last_number[producer] = max(number, before)
