"""One connection that speaks ZooKeeper's protocol byte by byte, for what client libraries hide: raw handshakes, order of frames, closing."""

import socket
import struct

SILENCE_SECONDS = 3
NO_PASSWORD = b"\0" * 16

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL = 1, 2, 3, 4, 5, 6, 7
GET_CHILDREN, SYNC, PING, GET_CHILDREN2, CHECK, MULTI, CREATE2 = 8, 9, 11, 12, 13, 14, 15
CREATE_CONTAINER, CREATE_TTL, MULTI_READ = 19, 21, 22
AUTH, SET_WATCHES, GET_EPHEMERALS, GET_ALL_CHILDREN_NUMBER, SET_WATCHES2, ADD_WATCH, WHO_AM_I = 100, 101, 103, 104, 105, 106, 107
CLOSE_SESSION = -11

NOTIFICATION_XID, PING_XID, AUTH_XID, SET_WATCHES_XID = -1, -2, -4, -8

EPHEMERAL, SEQUENTIAL, CONTAINER, TTL = 1, 2, 4, 5

STAT_FIELDS = "czxid mzxid ctime mtime version cversion aversion ephemeral_owner data_length num_children pzxid".split()
STAT_BYTES = 68


def buffer(content):
    """A length and the bytes; a length of -1 where there is nothing at all."""
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def string(text):
    return buffer(text.encode())


def vector(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def access(permissions, scheme, identity):
    return struct.pack(">i", permissions) + string(scheme) + string(identity)


OPEN = vector([access(31, "world", "anyone")])


def create_body(path, data=b"", flags=0, acl=OPEN):
    return string(path) + buffer(data) + acl + struct.pack(">i", flags)


def set_body(path, data=b"", version=-1):
    return string(path) + buffer(data) + struct.pack(">i", version)


def version_body(path, version=-1):
    """What delete and check take."""
    return string(path) + struct.pack(">i", version)


def read_body(path, watch=False):
    return string(path) + (b"\1" if watch else b"\0")


def auth_body(scheme, credentials):
    return struct.pack(">i", 0) + string(scheme) + string(credentials)


def multi_body(operations):
    """Pairs of an operation's number and its body."""
    parts = [struct.pack(">i?i", operation, False, -1) + body for operation, body in operations]
    return b"".join(parts) + struct.pack(">i?i", -1, True, -1)


def stat(body):
    """The Stat at the end of a reply."""
    return dict(zip(STAT_FIELDS, struct.unpack(">qqqqiiiqiiq", body[-STAT_BYTES:])))


def string_at(body, position=0):
    """The string at a position; None where its length is -1."""
    (length,) = struct.unpack_from(">i", body, position)
    return None if length < 0 else body[position + 4 : position + 4 + length].decode()


class Closed(Exception):
    """The server has closed the connection."""


class Silent(Exception):
    """The server has said nothing for a while."""


class Reply:
    """The header of a reply, its body, and the watch events that came before it as (type, path)."""

    def __init__(self, frame, events):
        self.xid, self.zxid, self.error = struct.unpack(">iqi", frame[:16])
        self.body = frame[16:]
        self.events = events


class Connection:
    """Connects at once. `timeout_ms` is what the server grants; 0 means that it has refused the session."""

    def __init__(self, address, session=0, password=NO_PASSWORD, last_zxid=0, timeout_ms=10000, says_read_only=True):
        host, port = address.rsplit(":", 1)
        self.address = address
        self.last_xid = 0
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(SILENCE_SECONDS)
        request = struct.pack(">iqiq", 0, last_zxid, timeout_ms, session) + buffer(password)
        self.send_frame(request + (b"\0" if says_read_only else b""))
        self.handshake = self.receive_frame()
        self.timeout_ms, self.session = struct.unpack(">iq", self.handshake[4:16])
        self.password = self.handshake[20:36]

    def send_bytes(self, content):
        self.socket.sendall(content)

    def send_frame(self, content):
        self.send_bytes(buffer(content))

    def receive_bytes(self, count):
        received = b""
        while len(received) < count:
            try:
                part = self.socket.recv(count - len(received))
            except socket.timeout:
                raise Silent from None
            except ConnectionError:
                raise Closed from None
            if not part:
                raise Closed
            received += part
        return received

    def receive_frame(self):
        (length,) = struct.unpack(">i", self.receive_bytes(4))
        return self.receive_bytes(length)

    def send(self, operation, body=b"", xid=None):
        if xid is None:
            self.last_xid += 1
            xid = self.last_xid
        try:
            self.send_frame(struct.pack(">ii", xid, operation) + body)
        except ConnectionError:
            raise Closed from None

    def receive(self):
        """The next reply, with the events before it."""
        events = []
        while True:
            frame = self.receive_frame()
            (xid,) = struct.unpack(">i", frame[:4])
            if xid != NOTIFICATION_XID:
                return Reply(frame, events)
            events.append(self.event(frame))

    def receive_event(self):
        return self.event(self.receive_frame())

    @staticmethod
    def event(frame):
        xid, zxid, error, kind, state = struct.unpack(">iqiii", frame[:24])
        assert (xid, zxid, error, state) == (NOTIFICATION_XID, -1, 0, 3), f"an odd notification: {(xid, zxid, error, state)}"
        return kind, string_at(frame, 24)

    def call(self, operation, body=b"", xid=None):
        self.send(operation, body, xid)
        return self.receive()

    def ending(self):
        """What comes next, where the end is expected: `closed`, `open` after a while of silence, or the frame."""
        try:
            return self.receive_frame().hex()
        except Closed:
            return "closed"
        except Silent:
            return "open"

    def close(self):
        """Ends the session as a client does."""
        try:
            self.call(CLOSE_SESSION)
        except (Closed, Silent):
            pass
        self.socket.close()
