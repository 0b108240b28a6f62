"""Facts about watches: which events come, in which order, and before which replies."""

import struct

from wire import (
    ADD_WATCH, CLOSE_SESSION, CREATE, DELETE, EPHEMERAL, EXISTS, GET_CHILDREN, GET_DATA, MULTI, SET_DATA, create_body, multi_body,
    read_body, set_body, string, version_body,
)

PERSISTENT, PERSISTENT_RECURSIVE, NO_SUCH_MODE = 0, 1, 2


def one_shot_watches(server):
    client, other = server.connect(), server.connect()
    path = server.path("/n")
    client.call(EXISTS, read_body(path, watch=True))
    yield "exists, then own create: events before the reply", client.call(CREATE, create_body(path)).events
    client.call(GET_DATA, read_body(path, watch=True))
    yield "getData, then own set: events before the reply", client.call(SET_DATA, set_body(path, b"x")).events
    yield "a second set", client.call(SET_DATA, set_body(path, b"y")).events
    client.call(EXISTS, read_body(path, watch=True))
    client.call(GET_DATA, read_body(path, watch=True))
    other.call(SET_DATA, set_body(path, b"z"))
    yield "exists and getData, then another's set", events_of(client)
    client.call(GET_CHILDREN, read_body(server.root, watch=True))
    yield "getChildren, then a set on a child", client.call(SET_DATA, set_body(path, b"q")).events
    yield "getChildren, then a create", client.call(CREATE, create_body(server.path("/m"))).events
    client.call(GET_DATA, read_body(path, watch=True))
    client.call(GET_CHILDREN, read_body(path, watch=True))
    client.call(GET_CHILDREN, read_body(server.root, watch=True))
    yield "data and children watched, then deleted", client.call(DELETE, version_body(path)).events
    client.call(GET_CHILDREN, read_body(path, watch=True))
    yield "getChildren that failed sets no watch", client.call(CREATE, create_body(path)).events
    client.call(GET_DATA, read_body(path, watch=True))
    client.call(GET_CHILDREN, read_body(server.root, watch=True))
    both = multi_body([(SET_DATA, set_body(path, b"1")), (CREATE, create_body(server.path("/k"))), (SET_DATA, set_body(path, b"2"))])
    yield "events of a multi", client.call(MULTI, both).events
    client.call(GET_DATA, read_body(path, watch=True))
    failing = multi_body([(SET_DATA, set_body(path, b"1")), (DELETE, version_body(server.path("/none")))])
    yield "events of a multi that failed", client.call(MULTI, failing).events


def watches_at_the_end_of_a_session(server):
    watcher, owner = server.connect(), server.connect()
    for name in ("/e1", "/e2"):
        owner.call(CREATE, create_body(server.path(name), flags=EPHEMERAL))
        watcher.call(GET_DATA, read_body(server.path(name), watch=True))
    watcher.call(GET_CHILDREN, read_body(server.root, watch=True))
    owner.call(CLOSE_SESSION)
    events = events_of(watcher)
    yield "events, sorted", sorted(events)
    yield "the children's event comes after a node's", events.index((4, server.root)) > 0


def watches_that_stay(server):
    client = server.connect()
    path = server.path("/n")
    client.call(CREATE, create_body(path))
    reply = client.call(ADD_WATCH, string(path) + struct.pack(">i", PERSISTENT))
    yield "addWatch: error, body", (reply.error, reply.body)
    yield "addWatch with an unknown mode", client.call(ADD_WATCH, string(path) + struct.pack(">i", NO_SUCH_MODE)).error
    for number in (1, 2):
        yield f"persistent, set {number}", client.call(SET_DATA, set_body(path, b"x")).events
    yield "persistent, child made", client.call(CREATE, create_body(path + "/k")).events
    yield "persistent, set on the child", client.call(SET_DATA, set_body(path + "/k", b"x")).events
    top = server.path("/tree")
    client.call(CREATE, create_body(top))
    client.call(ADD_WATCH, string(top) + struct.pack(">i", PERSISTENT_RECURSIVE))
    yield "recursive, made below", client.call(CREATE, create_body(top + "/a")).events
    yield "recursive, made two below", client.call(CREATE, create_body(top + "/a/b")).events
    yield "recursive, set two below", client.call(SET_DATA, set_body(top + "/a/b", b"x")).events
    yield "recursive, deleted two below", client.call(DELETE, version_body(top + "/a/b")).events
    client.call(GET_DATA, read_body(path, watch=True))
    yield "one-shot beside persistent: first set", client.call(SET_DATA, set_body(path, b"x")).events
    yield "one-shot beside persistent: second set", client.call(SET_DATA, set_body(path, b"y")).events


def events_of(connection):
    """The events that have been sent by now: up to the reply of a read."""
    return connection.call(EXISTS, read_body("/")).events


OF_ONE = [one_shot_watches, watches_at_the_end_of_a_session, watches_that_stay]
