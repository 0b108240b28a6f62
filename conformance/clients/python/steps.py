"""What the Python client programs share: running named steps, checking results, and the records that they write and expect."""

import os
import sys
import time
import traceback

RECORDS_PER_PARTITION = 200
MILLISECONDS_BETWEEN_RECORDS = 10


class Steps:
    """Runs steps one after the other and counts what passed and what failed. A failed step does not stop the next."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def run(self, name, function):
        start = time.time()
        try:
            function()
        except Exception as error:  # every kind of failure is a failed step, and is told
            self.failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            if os.environ.get("VERBOSE"):
                traceback.print_exc()
            return
        self.passed += 1
        print(f"ok   {name} ({time.time() - start:.1f} s)", flush=True)

    def finish(self):
        """Prints the sums and ends the process, without waiting for the background threads of a client that has failed."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        os._exit(1 if self.failed else 0)


def bootstrap_from_arguments():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} HOST:PORT")
    return sys.argv[1]


def fresh_name(prefix):
    """A topic name that no earlier run against the same broker has used."""
    return f"{prefix}-{int(time.time() * 1000):x}"


def expect_equal(got, wanted, what="result"):
    assert got == wanted, f"{what}: wanted {short(wanted)}, got {short(got)}"


def short(value):
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}... ({len(text)} characters)"


def expect_error(function, *names):
    """Checks that the call fails, and that the error's type or text contains one of the names."""
    try:
        result = function()
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        assert any(name in told for name in names), f"wanted an error named {' or '.join(names)}, got {told[:200]}"
        return
    raise AssertionError(f"wanted an error named {' or '.join(names)}, but the call gave {short(result)}")


def eventually(function, wanted, seconds=10):
    """Repeats the call until it gives what is wanted: metadata reaches a broker a moment after a change is acknowledged."""
    deadline = time.time() + seconds
    while True:
        try:
            got = function()
        except Exception as error:
            got = error
        if got == wanted:
            return
        assert time.time() < deadline, f"after {seconds} s: wanted {short(wanted)}, got {short(got)}"
        time.sleep(0.1)


class Record:
    """One record as it is sent and as it must come back."""

    def __init__(self, key, value, timestamp_ms, headers):
        self.key = key
        self.value = value
        self.timestamp_ms = timestamp_ms
        self.headers = headers

    def as_tuple(self):
        return (self.key, self.value, self.timestamp_ms, self.headers)

    def __eq__(self, other):
        return self.as_tuple() == other.as_tuple()

    def __repr__(self):
        return repr(self.as_tuple())


def make_records(label, first_timestamp_ms):
    """Records with every shape: with and without key, an empty value, a null value (a tombstone), duplicate header keys, time stamps
    at a fixed distance from each other."""
    records = []
    for index in range(RECORDS_PER_PARTITION):
        key = None if index % 7 == 0 else b"key-%d" % index
        value = b"%s record %d, some text that a codec can make smaller, smaller, smaller" % (label.encode(), index)
        if index % 11 == 3:
            value = b""
        if index % 11 == 5 and key is not None:
            value = None
        headers = []
        if index % 3 == 0:
            headers = [("trace", b"first %d" % index), ("trace", b"second"), ("empty", b"")]
        records.append(Record(key, value, first_timestamp_ms + index * MILLISECONDS_BETWEEN_RECORDS, headers))
    return records


def first_timestamp():
    """An hour ago, so that no retention limit removes what is written."""
    return int(time.time() * 1000) - 3_600_000


def expect_records(got, wanted):
    expect_equal(len(got), len(wanted), "number of records")
    for index, (one, other) in enumerate(zip(got, wanted)):
        expect_equal(one, other, f"record {index}")
