"""Tests the judge of groups on histories that are wrong on purpose: each kind of damage is found, and a sound history is not blamed."""

import unittest

from group_history import GroupHistory, Line, judge_group


def processed(count=6):
    """A history of so many records in one partition, processed and committed one by one by two members, half each, and observed after each."""
    history = GroupHistory()
    for number in range(count):
        history.sent += 1
        history.acknowledged[number] = (0, number)
        member = "one" if number < count // 2 else "two"
        history.tell(member, Line(f"record 0 {number} {number}"), 10 * number + 1)
        history.tell(member, Line(f"commit 0 {number + 1}"), 10 * number + 2)
        history.observe(10 * number + 3, 10 * number + 4, {0: number + 1})
    return history


class TheJudge(unittest.TestCase):
    def expect(self, history, **wanted):
        counts = {kind: count for kind, count in judge_group(history).counts.items() if count}
        self.assertEqual(counts, wanted)

    def test_finds_nothing_in_a_sound_history(self):
        self.expect(processed())

    def test_takes_a_record_processed_twice(self):
        history = processed()
        history.tell("two", Line("record 0 2 2"), 33)
        self.expect(history)

    def test_finds_a_record_that_nobody_processed(self):
        history = processed()
        del history.processed["one"][1]
        self.expect(history, missing=1)

    def test_takes_one_record_that_a_client_drops_when_it_leaves(self):
        history = processed()
        history.droppers.add("one")
        del history.processed["one"][2]
        self.expect(history)
        del history.processed["one"][1]
        self.expect(history, missing=1)

    def test_finds_a_record_that_is_not_the_last_of_one_that_drops(self):
        history = processed()
        history.droppers.add("one")
        del history.processed["one"][1]
        self.expect(history, missing=1)

    def test_finds_a_record_that_nobody_sent(self):
        history = processed()
        history.tell("two", Line("record 0 5 77"), 60)
        self.expect(history, strange=1)

    def test_finds_a_record_elsewhere(self):
        history = processed()
        history.tell("two", Line("record 1 5 5"), 60)
        self.expect(history, strange=1)

    def test_finds_a_committed_offset_that_goes_back(self):
        history = processed()
        history.observe(45, 46, {0: 2})
        self.expect(history, back=1)

    def test_takes_answers_to_questions_that_overlap(self):
        history = processed()
        history.commits.clear()
        history.observations[-1] = (53, 70, {0: 6})
        history.observe(64, 68, {0: 5})
        history.observe(80, 81, {0: 6})
        self.expect(history)

    def test_finds_a_committed_offset_that_is_gone(self):
        history = processed()
        history.observe(45, 46, {})
        self.expect(history, back=1)

    def test_finds_an_acknowledged_commit_that_is_lost(self):
        history = processed()
        history.observations[3] = (33, 34, {0: 3})
        self.expect(history, lost=1)

    def test_takes_an_answer_to_a_question_before_the_commit(self):
        history = processed()
        history.observations[3] = (31, 34, {0: 3})
        self.expect(history)

    def test_finds_a_commit_of_what_nobody_processed(self):
        history = processed()
        history.observe(70, 71, {0: 9})
        self.expect(history, ahead=1, uncommitted=1)

    def test_finds_what_is_not_committed_at_the_end(self):
        history = processed()
        history.commits.pop()
        history.observations.pop()
        self.expect(history, uncommitted=1)

    def test_finds_a_group_of_which_nothing_is_known(self):
        history = processed()
        history.commits.clear()
        history.observations.clear()
        self.expect(history, uncommitted=1)

    def test_finds_records_that_nobody_heard_of_again(self):
        history = processed()
        history.sent += 1
        self.expect(history, unfinished=1)

    def test_takes_a_record_given_up_as_processed_or_not(self):
        history = processed()
        history.sent += 2
        history.failed.update({6: "timed out", 7: "timed out"})
        history.tell("two", Line("record 0 6 6"), 70)
        self.expect(history)

    def test_keeps_partitions_apart(self):
        history = processed()
        history.sent += 1
        history.acknowledged[6] = (1, 0)
        history.tell("one", Line("record 1 0 6"), 70)
        history.tell("one", Line("commit 1 1"), 71)
        history.observe(72, 73, {0: 6, 1: 1})
        self.expect(history)


class Lines(unittest.TestCase):
    def test_other_lines_are_talk(self):
        for text in ("", "record", "record 1 2", "record a b c", "commit 1 2 3", "% Reached end", "recorded 1 2 3"):
            self.assertEqual(Line(text).kind, "talk")


if __name__ == "__main__":
    unittest.main()
