"""Facts about handshakes, sessions that move or end, authentication, and what a server does with frames that it does not like."""

import socket
import struct
import time

from wire import (
    AUTH, AUTH_XID, CLOSE_SESSION, CREATE, DELETE, EPHEMERAL, EXISTS, GET_DATA, PING, PING_XID, SET_DATA, SET_WATCHES, SET_WATCHES_XID,
    SYNC, Closed, auth_body, create_body, read_body, set_body, string, vector, version_body,
)

UNKNOWN_OPERATION = 55
LARGEST_FRAME = 0x7FFFFFFF
FAR_FUTURE_ZXID = 1 << 62
MEBIBYTE = 1 << 20
CATCH_UP_SECONDS = 5


def handshake(server):
    first = server.connect()
    yield "bytes of the reply", len(first.handshake)
    yield "bytes of the reply to a client that does not say readOnly", len(server.connect(says_read_only=False).handshake)
    yield "protocol version", struct.unpack(">i", first.handshake[:4])[0]
    yield "bytes of the password", len(first.password)
    yield "session is positive", first.session > 0
    for wanted_ms in (1, 10_000, 10_000_000):
        yield f"timeout of {wanted_ms} ms is granted as", server.connect(timeout_ms=wanted_ms).timeout_ms
    unknown = server.connect(session=0x123456, password=b"z" * 16)
    yield "unknown session: timeout, session, password", (unknown.timeout_ms, unknown.session, unknown.password)
    yield "unknown session: connection", unknown.ending()
    try:
        server.connect(last_zxid=FAR_FUTURE_ZXID)
        yield "client that has seen later zxids", "served"
    except Closed:
        yield "client that has seen later zxids", "closed"


def session_taken_up_again(server):
    old = server.connect()
    old.call(CREATE, create_body(server.path("/watched")))
    old.call(CREATE, create_body(server.path("/deleted")))
    old.call(CREATE, create_body(server.path("/made")))
    seen = old.call(EXISTS, read_body(server.root)).zxid
    old.call(CREATE, create_body(server.path("/mine"), flags=EPHEMERAL))
    other = server.connect()
    other.call(SET_DATA, set_body(server.path("/watched"), b"new"))
    other.call(DELETE, version_body(server.path("/deleted")))
    new = server.connect(session=old.session, password=old.password, last_zxid=seen)
    yield "session stays", new.session == old.session
    yield "password stays", new.password == old.password
    yield "old connection", old.ending()
    watched = vector([string(server.path("/watched")), string(server.path("/deleted"))])
    absent = vector([string(server.path("/made"))])
    children = vector([string(server.root)])
    reply = new.call(SET_WATCHES, struct.pack(">q", seen) + watched + absent + children, xid=SET_WATCHES_XID)
    yield "setWatches: xid, error", (reply.xid, reply.error)
    yield "setWatches: events for what was missed", reply.events
    thief = server.connect(session=new.session, password=b"z" * 16)
    yield "wrong password: timeout, session", (thief.timeout_ms, thief.session)
    yield "wrong password: connection", thief.ending()
    yield "wrong password: connection that has the session", new.ending()
    again = server.connect(session=new.session, password=new.password)
    other.call(EXISTS, read_body(server.path("/mine"), watch=True))
    reply = again.call(CLOSE_SESSION)
    yield "closeSession: error, bytes", (reply.error, len(reply.body))
    yield "closeSession: connection", again.ending()
    yield "closeSession: event for an ephemeral node", other.receive_event()
    yield "closeSession: ephemeral node", other.call(EXISTS, read_body(server.path("/mine"))).error
    closed = server.connect(session=new.session, password=new.password)
    yield "closed session: timeout, session", (closed.timeout_ms, closed.session)


def requests_outside_the_order(server):
    client = server.connect()
    last = client.call(CREATE, create_body(server.path("/n"))).zxid
    reply = client.call(PING, xid=PING_XID)
    yield "ping: xid, error, bytes, zxid is the last", (reply.xid, reply.error, len(reply.body), reply.zxid == last)
    reply = client.call(SET_WATCHES, struct.pack(">q", last) + vector([]) * 3)
    yield "setWatches with an ordinary xid is answered with it", reply.xid == client.last_xid
    reply = client.call(AUTH, auth_body("digest", "ann:pw"), xid=AUTH_XID)
    yield "auth: xid, zxid, error", (reply.xid, reply.zxid, reply.error)
    reply = client.call(AUTH, auth_body("digest", "bob:pw"))
    yield "auth with an ordinary xid is answered with it", reply.xid == client.last_xid
    reply = client.call(AUTH, auth_body("nosuch", "x"), xid=AUTH_XID)
    yield "auth with an unknown scheme: xid, zxid, error", (reply.xid, reply.zxid, reply.error)
    yield "auth with an unknown scheme: connection", client.ending()


def frames_that_are_not_liked(server):
    client = server.connect()
    reply = client.call(UNKNOWN_OPERATION)
    yield "unknown operation: xid is kept, error", (reply.xid == client.last_xid, reply.error)
    yield "unknown operation: connection", client.ending()
    for name, length in (("too long", LARGEST_FRAME), ("of negative length", -5)):
        client = server.connect()
        client.send_bytes(struct.pack(">i", length))
        yield f"frame {name}: connection", client.ending()
    client = server.connect()
    try:
        client.send(CREATE, create_body(server.path("/large"), b"x" * MEBIBYTE))
        yield "create with 1 MiB of data: connection", client.ending()
    except Closed:
        yield "create with 1 MiB of data: connection", "closed"
    client = server.connect()
    client.call(CREATE, create_body(server.path("/nearly"), b"x" * (MEBIBYTE - 1024)))
    yield "get of 1 MiB less 1 KiB: bytes", len(client.call(GET_DATA, read_body(server.path("/nearly"))).body)
    yield "string that is longer than its frame: error", client.call(GET_DATA, struct.pack(">i", 1000) + b"short").error
    yield "string that is longer than its frame: connection", client.ending()


def four_letter_words(server):
    yield "ruok", four_letters(server, b"ruok")
    yield "isro", four_letters(server, b"isro")
    yield "srvr: keys", [line.split(":")[0] for line in four_letters(server, b"srvr").splitlines()[:8]]
    keys = {line.split("\t")[0] for line in four_letters(server, b"mntr").splitlines()}
    for key in ("version", "server_state", "znode_count", "watch_count", "ephemerals_count", "num_alive_connections", "avg_latency",
                "outstanding_requests", "packets_received", "approximate_data_size"):
        yield f"mntr: has zk_{key}", f"zk_{key}" in keys


def four_letters(server, word):
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(word)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer.decode()


def session_moved_to_another_member(server):
    old = server.connect()
    path = server.path("/mine")
    seen = old.call(CREATE, create_body(path, flags=EPHEMERAL)).zxid
    new = connect_when_caught_up(server, session=old.session, password=old.password, last_zxid=seen)
    yield "session stays", new.session == old.session
    yield "read through the new connection", new.call(EXISTS, read_body(path)).error
    yield "write through the new connection", new.call(SET_DATA, set_body(path, b"new")).error
    try:
        old.call(SET_DATA, set_body(path, b"old"))
        yield "write through the old connection", "answered"
    except Closed:
        yield "write through the old connection", "closed"
    reply = new.call(GET_DATA, read_body(path))
    yield "data after it", reply.body[4:7]
    yield "closeSession through the new connection", new.call(CLOSE_SESSION).error
    watcher = server.connect()
    watcher.call(SYNC, string("/"))
    yield "ephemeral node after it", watcher.call(EXISTS, read_body(path)).error


def connect_when_caught_up(server, **how):
    """A member that has not yet seen what the client has seen closes the connection."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while True:
        try:
            return server.connect_to_other(**how)
        except Closed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def read_through_another_member_after_sync(server):
    writer, reader = server.connect(), server.connect_to_other()
    path = server.path("/n")
    writer.call(CREATE, create_body(path))
    wrong = 0
    for number in range(100):
        data = b"%06d" % number
        writer.call(SET_DATA, set_body(path, data))
        reader.call(SYNC, string("/"))
        wrong += reader.call(GET_DATA, read_body(path)).body[4:10] != data
    yield "stale reads of 100", wrong
    reader.call(EXISTS, read_body(path, watch=True))
    writer.call(SET_DATA, set_body(path, b"watched"))
    yield "event for a write through the other member", reader.receive_event()


OF_ONE = [handshake, session_taken_up_again, requests_outside_the_order, frames_that_are_not_liked, four_letter_words]
OF_TWO = [session_moved_to_another_member, read_through_another_member_after_sync]
