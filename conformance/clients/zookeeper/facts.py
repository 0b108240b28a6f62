#!/usr/bin/env python3
"""What a ZooKeeper server does on the wire, fact by fact, compared with what a real ZooKeeper 3.8.4 does (facts.expected).

    facts.py HOST:PORT[,HOST:PORT...]             asks each server, prints `ok` or `FAIL` for every fact, then the sums
    facts.py --capture HOST:PORT[,HOST:PORT...]   writes facts.expected; the servers have to agree

Facts that need two members of an ensemble are asked of the first and the second, and left out where there is one server.
Zxids are told as differences, paths without their random root, sessions not at all: a fact is the same on every server.
"""

import pathlib
import secrets
import struct
import sys

import facts_of_nodes
import facts_of_sessions
import facts_of_watches
from wire import CREATE, DELETE, GET_CHILDREN, Closed, Connection, Silent, create_body, read_body, string_at, version_body

EXPECTED = pathlib.Path(__file__).with_name("facts.expected")


class Server:
    """A server, and a node of its own for one group of facts. `other` is another member of the ensemble, or the same server."""

    def __init__(self, address, other):
        self.address = address
        self.other = other
        self.root = "/facts-" + secrets.token_hex(6)
        self.connections = []

    def connect(self, **how):
        connection = Connection(self.address, **how)
        self.connections.append(connection)
        return connection

    def connect_to_other(self, **how):
        connection = Connection(self.other, **how)
        self.connections.append(connection)
        return connection

    def path(self, name):
        return self.root + name

    def name(self, path):
        """A path without the random root."""
        return path.replace(self.root, "ROOT")

    def make_root(self):
        with_root = self.connect()
        reply = with_root.call(CREATE, create_body(self.root))
        assert reply.error == 0, f"the root was not created: error {reply.error}"
        with_root.close()

    def clean_up(self):
        for connection in self.connections:
            connection.socket.close()
        cleaner = Connection(self.address)
        self.remove(cleaner, self.root)
        cleaner.close()

    def remove(self, cleaner, path):
        children = cleaner.call(GET_CHILDREN, read_body(path)).body
        position = 4
        while position < len(children):
            name = string_at(children, position)
            position += 4 + len(name.encode())
            self.remove(cleaner, f"{path}/{name}")
        cleaner.call(DELETE, version_body(path))


def facts_of(groups, address, other):
    """Every fact as `group / fact` and its value. A group that breaks off leaves a line that says so."""
    for group in groups:
        title = group.__name__.replace("_", " ")
        server = Server(address, other)
        try:
            server.make_root()
            for fact, value in group(server):
                yield f"{title} / {fact}", server.name(str(value))
            server.clean_up()
        except (Closed, Silent, AssertionError, IndexError, ValueError, OSError, struct.error) as error:
            yield f"{title} / broke off", f"{type(error).__name__} {error}"


def read_expected():
    return dict(line.split(" = ", 1) for line in EXPECTED.read_text().splitlines())


def compare(address, seen, expected):
    """Prints a line for each fact; gives how many were right and wrong."""
    passed = failed = 0
    for fact, wanted in expected.items():
        if seen.get(fact) == wanted:
            passed += 1
            print(f"ok   {fact}")
        else:
            failed += 1
            print(f"FAIL {fact} ({address}): wanted {wanted}, got {seen.get(fact, 'nothing')}")
    for fact in seen.keys() - expected.keys():
        failed += 1
        print(f"FAIL {fact} ({address}): not expected at all: {seen[fact]}")
    return passed, failed


def main():
    arguments = sys.argv[1:]
    capture = arguments[:1] == ["--capture"]
    if len(arguments) != 1 + capture:
        sys.exit(__doc__)
    addresses = arguments[-1].split(",")
    groups_of_one = facts_of_sessions.OF_ONE + facts_of_nodes.OF_ONE + facts_of_watches.OF_ONE
    groups_of_two = facts_of_sessions.OF_TWO + facts_of_nodes.OF_TWO
    seen = {address: dict(facts_of(groups_of_one, address, address)) for address in addresses}
    across = dict(facts_of(groups_of_two, *addresses[:2])) if len(addresses) > 1 else {}
    if capture:
        first = seen[addresses[0]]
        for facts in seen.values():
            assert facts == first, f"the servers differ: {facts.items() ^ first.items()}"
        EXPECTED.write_text("".join(f"{fact} = {value}\n" for fact, value in (first | across).items()))
        print(f"captured {len(first) + len(across)} facts")
        return
    expected = read_expected()
    titles_of_two = {group.__name__.replace("_", " ") for group in groups_of_two}
    expected_across = {fact: value for fact, value in expected.items() if fact.split(" / ")[0] in titles_of_two}
    expected_of_one = {fact: value for fact, value in expected.items() if fact not in expected_across}
    sums = []
    for address in addresses:
        print(f"-- {address}")
        sums.append(compare(address, seen[address], expected_of_one))
    if len(addresses) > 1:
        print(f"-- {addresses[0]} and {addresses[1]}")
        sums.append(compare(",".join(addresses[:2]), across, expected_across))
    passed, failed = (sum(counts) for counts in zip(*sums))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
