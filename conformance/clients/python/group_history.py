"""Judges what the members of a consumer group did against what was written. Knows nothing of brokers: groups.py fills it, group_history_test.py
tests it.

A producer numbers its records. A member tells of each record that it has processed and of each commit that was acknowledged to it, in lines of
text (see `Line`). An observer asks for the group's committed offsets all the time; when it asked and when it was answered is kept, because an
answer has to hold everything that was acknowledged before it was asked for.
"""

import collections

from history import Verdict


class Line:
    """What a member prints: `record PARTITION OFFSET NUMBER`, `commit PARTITION OFFSET` (the offset of the next record), `assigned P,P,...`, `left`.
    Anything else is talk, for a person to read."""

    def __init__(self, text):
        words = text.split()
        self.kind, self.partition, self.offset, self.number = "talk", None, None, None
        if len(words) == 4 and words[0] == "record" and all(word.isdecimal() for word in words[1:]):
            self.kind = "record"
            self.partition, self.offset, self.number = map(int, words[1:])
        elif len(words) == 3 and words[0] == "commit" and all(word.isdecimal() for word in words[1:]):
            self.kind = "commit"
            self.partition, self.offset = map(int, words[1:])
        elif words and words[0] in ("assigned", "left"):
            self.kind = words[0]


class GroupHistory:
    def __init__(self):
        self.acknowledged = {}  # (partition, offset) by number
        self.failed = {}  # error by number
        self.sent = 0
        self.processed = collections.defaultdict(list)  # by member: (partition, offset, number), in the member's order
        self.commits = []  # (time, member, partition, offset)
        self.droppers = set()  # members that may have dropped the record after their last, for their client is known to: one each
        self.observations = []  # (time asked, time answered, offset by partition)

    def tell(self, member, line, time):
        """Takes down a line of a member, which was read at a time."""
        if line.kind == "record":
            self.processed[member].append((line.partition, line.offset, line.number))
        elif line.kind == "commit":
            self.commits.append((time, member, line.partition, line.offset))

    def observe(self, asked, answered, offsets):
        self.observations.append((asked, answered, dict(offsets)))

    def count_processed(self, member=None):
        if member is not None:
            return len(self.processed[member])
        return sum(map(len, self.processed.values()))

    def ends(self):
        """The offset after the last acknowledged record of each partition."""
        ends = {}
        for partition, offset in self.acknowledged.values():
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return ends


class GroupVerdict(Verdict):
    KINDS = ("missing", "strange", "back", "lost", "ahead", "unfinished", "uncommitted")


def judge_group(history):
    """The members have ended, everything that was written has had its time to be processed and committed."""
    verdict = GroupVerdict()
    judge_records(verdict, history)
    judge_observations(verdict, history)
    judge_end(verdict, history)
    return verdict


def judge_records(verdict, history):
    """Every acknowledged record was processed, and nothing was processed that is not where the producer was told."""
    processed = set()
    for member, records in history.processed.items():
        for partition, offset, number in records:
            place = history.acknowledged.get(number)
            if place is None and number not in history.failed:
                verdict.add("strange", f"{member} processed number {number}, which was never sent")
            elif place is not None and place != (partition, offset):
                verdict.add("strange", f"{member} processed number {number} at {partition}:{offset}, acknowledged at {place[0]}:{place[1]}")
            processed.add(number)
    droppers = set(history.droppers)
    for number, (partition, offset) in history.acknowledged.items():
        if number not in processed and not takes_the_blame(history, droppers, partition, offset):
            verdict.add("missing", f"number {number}, acknowledged at {partition}:{offset}, was never processed")
    if history.sent != len(history.acknowledged) + len(history.failed):
        verdict.add("unfinished", f"of {history.sent} records only {len(history.acknowledged)} were acknowledged")


def takes_the_blame(history, droppers, partition, offset):
    """Whether one of these members processed everything up to this record: it is no dropper any more then."""
    for member in sorted(droppers):
        offsets = [record[1] for record in history.processed[member] if record[0] == partition]
        if offsets and offsets[-1] == offset - 1:
            droppers.remove(member)
            return True
    return False


def judge_observations(verdict, history):
    """The committed offset of a partition never goes back, is never less than what was acknowledged before the question, and never more than what
    members processed."""
    commits = collections.defaultdict(list)
    for time, member, partition, offset in sorted(history.commits):
        commits[partition].append((time, member, offset))
    beyond = collections.defaultdict(int)
    for records in history.processed.values():
        for partition, offset, _ in records:
            beyond[partition] = max(beyond[partition], offset + 1)
    partitions = set(commits) | {partition for _, _, offsets in history.observations for partition in offsets}
    asked_in_order = sorted(history.observations, key=lambda one: one[0])
    answered_in_order = sorted(history.observations, key=lambda one: one[1])
    for partition in sorted(partitions):
        # Of two questions that overlap either may have been looked at first: only what was known before a question has to be in its answer.
        known, told = collections.deque(answered_in_order), collections.deque(commits[partition])
        highest, least = -1, (-1, "nobody")
        for asked, _, offsets in asked_in_order:
            offset = offsets.get(partition, -1)
            while known and known[0][1] <= asked:
                highest = max(highest, known.popleft()[2].get(partition, -1))
            while told and told[0][0] < asked:
                _, member, commit = told.popleft()
                least = max(least, (commit, member))
            if offset < highest:
                verdict.add("back", f"partition {partition} was committed at {highest}, and at {offset} after that")
            elif offset < least[0]:
                verdict.add("lost", f"partition {partition} is committed at {offset}, though {least[1]} was told that {least[0]} is")
            if offset > beyond[partition]:
                verdict.add("ahead", f"partition {partition} is committed at {offset}, but processed up to {beyond[partition]}")


def judge_end(verdict, history):
    """At the end everything is committed."""
    last = max(history.observations, key=lambda one: one[0])[2] if history.observations else {}
    for partition, end in sorted(history.ends().items()):
        if last.get(partition, -1) != end:
            verdict.add("uncommitted", f"partition {partition} ends at {end} and is committed at {last.get(partition, -1)}")
