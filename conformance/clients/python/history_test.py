"""Tests the judge on logs that are wrong on purpose: each kind of damage is found, and a sound log is not blamed."""

import unittest

from history import History, judge


def written(count=5, partition=0, producer="p"):
    """A history of so many acknowledged records, and the sound log of it."""
    history = History()
    log = {partition: []}
    for offset in range(count):
        number = history.send(producer, partition)
        history.acknowledge(producer, partition, number, offset)
        log[partition].append((offset, producer, number))
    return history, log


class TheJudge(unittest.TestCase):
    def expect(self, history, log, **wanted):
        counts = {kind: count for kind, count in judge(history, log).counts.items() if count}
        self.assertEqual(counts, wanted)

    def test_finds_nothing_in_a_sound_log(self):
        self.expect(*written())

    def test_finds_a_loss_at_the_end(self):
        history, log = written()
        log[0].pop()
        self.expect(history, log, missing=1)

    def test_finds_a_loss_in_the_middle(self):
        history, log = written()
        del log[0][2]
        self.expect(history, log, missing=1)

    def test_finds_a_whole_partition_missing(self):
        history, log = written()
        log.clear()
        self.expect(history, log, missing=5)

    def test_finds_a_double(self):
        history, log = written()
        log[0].append((5, "p", 4))
        self.expect(history, log, doubled=1)

    def test_finds_a_double_that_was_never_acknowledged(self):
        history, log = written()
        number = history.send("p", 0)
        history.fail("p", 0, number, "timed out")
        log[0] += [(5, "p", number), (6, "p", number)]
        self.expect(history, log, doubled=1)

    def test_finds_broken_order(self):
        history, log = written()
        log[0] = [(0, "p", 0), (1, "p", 2), (2, "p", 1), (3, "p", 3), (4, "p", 4)]
        self.expect(history, log, disordered=1, moved=2)

    def test_finds_an_acknowledged_record_elsewhere(self):
        history, log = written()
        log[0] = [(offset + 1, producer, number) for offset, producer, number in log[0]]
        self.expect(history, log, moved=5)

    def test_finds_what_nobody_sent(self):
        history, log = written()
        log[0] += [(5, "p", 5), (6, "stranger", 0)]
        self.expect(history, log, strange=2)

    def test_finds_offsets_that_go_back(self):
        history, log = written()
        number = history.send("p", 0)
        history.fail("p", 0, number, "timed out")
        log[0].append((4, "p", number))
        self.expect(history, log, offsets=1)

    def test_finds_records_that_nobody_heard_of_again(self):
        history, log = written()
        history.send("p", 0)
        self.expect(history, log, unfinished=1)

    def test_takes_a_record_given_up_as_there_or_not(self):
        history, log = written()
        for number in (history.send("p", 0), history.send("p", 0)):
            history.fail("p", 0, number, "timed out")
        log[0].append((5, "p", 5))
        self.expect(history, log)

    def test_keeps_partitions_and_producers_apart(self):
        history, log = written()
        for producer, partition in (("q", 0), ("p", 1)):
            number = history.send(producer, partition)
            history.acknowledge(producer, partition, number, {0: 5, 1: 0}[partition])
            log.setdefault(partition, []).append(({0: 5, 1: 0}[partition], producer, number))
        self.expect(history, log)
        log[1], log[0] = log[0], log[1]
        self.assertFalse(judge(history, log).is_green())


if __name__ == "__main__":
    unittest.main()
