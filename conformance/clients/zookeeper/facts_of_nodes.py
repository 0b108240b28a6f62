"""Facts about nodes: zxids, versions and sequences, what is refused and with which error, access lists, multi, lists of children."""

import re
import struct

from wire import (
    AUTH, AUTH_XID, CHECK, CONTAINER, CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL, DELETE, EPHEMERAL, EXISTS, GET_ACL,
    GET_ALL_CHILDREN_NUMBER, GET_CHILDREN, GET_CHILDREN2, GET_DATA, GET_EPHEMERALS, MULTI, MULTI_READ, OPEN, SEQUENTIAL, SET_ACL,
    SET_DATA, STAT_BYTES, SYNC, TTL, WHO_AM_I, access, auth_body, create_body, multi_body, read_body, set_body, stat, string,
    string_at, vector, version_body,
)

LONGEST_TTL_MS = (1 << 40) - 1


def zxids(server):
    client = server.connect()
    first = client.call(CREATE, create_body(server.path("/n"))).zxid
    yield "read tells the last zxid", client.call(EXISTS, read_body(server.root)).zxid - first
    failed = client.call(CREATE, create_body(server.path("/n")))
    yield "create that fails: error, zxids taken", (failed.error, failed.zxid - first)
    read = client.call(EXISTS, read_body(server.path("/none")))
    yield "read that fails: error, zxids taken", (read.error, read.zxid - failed.zxid)
    written = client.call(SET_DATA, set_body(server.path("/n"), b"x"))
    yield "write: zxids taken, mzxid is the reply's", (written.zxid - read.zxid, stat(written.body)["mzxid"] == written.zxid)
    synced = client.call(SYNC, string(server.root))
    yield "sync: error, zxids taken, path", (synced.error, synced.zxid - written.zxid, string_at(synced.body))


def versions_and_sequences(server):
    client = server.connect()
    for number in range(3):
        client.call(CREATE, create_body(server.path(f"/n{number}")))
    yield "first sequence number after three creates", sequential(client, server)
    deleted = client.call(DELETE, version_body(server.path("/n0")))
    after = stat(client.call(EXISTS, read_body(server.root)).body)
    yield "after four creates and a delete: cversion, children", (after["cversion"], after["num_children"])
    yield "pzxid is that of the delete", after["pzxid"] == deleted.zxid
    yield "next sequence number", sequential(client, server)
    client.call(MULTI, multi_body([(CREATE, create_body(server.path("/m"))), (CHECK, version_body(server.path("/m"), 9))]))
    yield "after a multi that failed", sequential(client, server)
    client.call(SET_DATA, set_body(server.path("/n1"), b"1"))
    client.call(SET_DATA, set_body(server.path("/n1"), b"22"))
    client.call(SET_ACL, string(server.path("/n1")) + OPEN + struct.pack(">i", -1))
    now = stat(client.call(EXISTS, read_body(server.path("/n1"))).body)
    yield "version, aversion, data length", (now["version"], now["aversion"], now["data_length"])
    yield "pzxid of a node without children is its czxid", now["pzxid"] == now["czxid"]
    yield "stale version: set, delete, setACL", (
        client.call(SET_DATA, set_body(server.path("/n1"), b"x", 1)).error,
        client.call(DELETE, version_body(server.path("/n1"), 1)).error,
        client.call(SET_ACL, string(server.path("/n1")) + OPEN + struct.pack(">i", 0)).error,
    )
    yield "stale version of a node that is not there", client.call(SET_DATA, set_body(server.path("/none"), b"x", 1)).error
    yield "delete of a node with children", client.call(DELETE, version_body(server.root)).error


def sequential(client, server):
    return string_at(client.call(CREATE, create_body(server.path("/s-"), flags=SEQUENTIAL)).body)


def what_is_created(server):
    client = server.connect()
    client.call(CREATE, create_body(server.path("/null"), None))
    client.call(CREATE, create_body(server.path("/empty"), b""))
    yield "length of null data", struct.unpack(">i", client.call(GET_DATA, read_body(server.path("/null"))).body[:4])[0]
    yield "length of empty data", struct.unpack(">i", client.call(GET_DATA, read_body(server.path("/empty"))).body[:4])[0]
    reply = client.call(CREATE2, create_body(server.path("/two"), b"22"))
    yield "create2: path, rest, data length", shape_of_create2(reply)
    reply = client.call(CREATE_CONTAINER, create_body(server.path("/box"), flags=CONTAINER))
    yield "createContainer: path, rest, data length", shape_of_create2(reply)
    yield "owner of a container", stat(client.call(EXISTS, read_body(server.path("/box"))).body)["ephemeral_owner"]
    yield "create with the container's flag", client.call(CREATE, create_body(server.path("/box2"), flags=CONTAINER)).error
    for flags in (7, 99):
        yield f"create with flags {flags}", client.call(CREATE, create_body(server.path("/odd"), flags=flags)).error
    for ttl_ms in (0, -1, LONGEST_TTL_MS, LONGEST_TTL_MS + 1):
        body = create_body(server.path(f"/ttl{ttl_ms}"), flags=TTL) + struct.pack(">q", ttl_ms)
        yield f"createTTL of {ttl_ms} ms", client.call(CREATE_TTL, body).error
    yield "owner of a TTL node", stat(client.call(EXISTS, read_body(server.path(f"/ttl{LONGEST_TTL_MS}"))).body)["ephemeral_owner"]
    client.call(CREATE, create_body(server.path("/e"), flags=EPHEMERAL))
    yield "owner of an ephemeral node is the session", (
        stat(client.call(EXISTS, read_body(server.path("/e"))).body)["ephemeral_owner"] == client.session
    )
    yield "child of an ephemeral node", client.call(CREATE, create_body(server.path("/e/x"))).error


def shape_of_create2(reply):
    path = string_at(reply.body)
    return path, len(reply.body) - 4 - len(path) - STAT_BYTES, stat(reply.body)["data_length"]


def paths(server):
    client = server.connect()
    for title, path in (
        ("without a slash", "x"), ("empty", ""), ("ending in a slash", server.path("/x/")), ("with an empty part", server.path("//x")),
        ("with a dot", server.path("/./x")), ("with two dots", server.path("/../x")), ("with NUL", server.path("/\0")),
        ("below nothing", server.path("/none/x")), ("of the root", "/"),
    ):
        yield f"create, path {title}", client.call(CREATE, create_body(path)).error
    for title, path in (("without a slash", "x"), ("ending in a slash", server.root + "/"), ("with NUL", server.path("/\0"))):
        yield f"getData and exists, path {title}", tuple(client.call(kind, read_body(path)).error for kind in (GET_DATA, EXISTS))
    yield "getChildren of the empty path", client.call(GET_CHILDREN, read_body("")).error
    yield "delete of / and of /zookeeper", tuple(client.call(DELETE, version_body(path)).error for path in ("/", "/zookeeper"))
    yield "setData on /zookeeper/config", client.call(SET_DATA, set_body("/zookeeper/config", b"x")).error
    yield "getData of /zookeeper/config", client.call(GET_DATA, read_body("/zookeeper/config")).error


def access_lists(server):
    client, stranger = server.connect(), server.connect()
    path = server.path("/n")
    for title, acl in (("null", struct.pack(">i", -1)), ("empty", vector([])), ("unknown scheme", vector([access(31, "nosuch", "x")])),
                       ("auth without any", vector([access(31, "auth", "")])), ("bad address", vector([access(31, "ip", "x")]))):
        yield f"create with a list that is {title}", client.call(CREATE, create_body(path, acl=acl)).error
    twice = vector([access(31, "world", "anyone"), access(1, "digest", "ann:x"), access(31, "world", "anyone")])
    client.call(CREATE, create_body(path, acl=twice))
    yield "same entry twice: entries kept", struct.unpack(">i", client.call(GET_ACL, string(path)).body[:4])[0]
    client.call(AUTH, auth_body("digest", "ann:pw"), xid=AUTH_XID)
    closed = server.path("/closed")
    client.call(CREATE, create_body(closed, acl=vector([access(31, "auth", "")])))
    yield "auth becomes", access_as_text(client.call(GET_ACL, string(closed)).body)
    client.call(CREATE, create_body(closed + "/k"))
    yield "to a stranger: getData, exists, getChildren, setData, create, delete below, getACL", (
        stranger.call(GET_DATA, read_body(closed)).error, stranger.call(EXISTS, read_body(closed)).error,
        stranger.call(GET_CHILDREN, read_body(closed)).error, stranger.call(SET_DATA, set_body(closed)).error,
        stranger.call(CREATE, create_body(closed + "/x")).error, stranger.call(DELETE, version_body(closed + "/k")).error,
        stranger.call(GET_ACL, string(closed)).error,
    )
    readable = server.path("/readable")
    digest = "ann:RYbu6l5aZwqon8VWmkcGvezdzfc="
    client.call(CREATE, create_body(readable, acl=vector([access(31, "digest", digest), access(1, "world", "anyone")])))
    yield "list shown to a reader", access_as_text(stranger.call(GET_ACL, string(readable)).body)
    yield "whoAmI: users", sorted(users(client.call(WHO_AM_I).body))
    superuser = server.connect()
    superuser.call(AUTH, auth_body("digest", "super:test"), xid=AUTH_XID)
    yield "super: setData", superuser.call(SET_DATA, set_body(closed)).error


def access_as_text(body):
    (count,) = struct.unpack_from(">i", body)
    position, entries = 4, []
    for _ in range(count):
        (permissions,) = struct.unpack_from(">i", body, position)
        scheme = string_at(body, position + 4)
        identity = string_at(body, position + 8 + len(scheme))
        position += 12 + len(scheme) + len(identity)
        entries.append(f"{scheme}:{identity}:{permissions}")
    return entries


def users(body):
    (count,) = struct.unpack_from(">i", body)
    position = 4
    for _ in range(count):
        scheme = string_at(body, position)
        identity = string_at(body, position + 4 + len(scheme))
        position += 8 + len(scheme) + len(identity)
        yield f"{scheme}:{identity}"


def multi(server):
    client = server.connect()
    client.call(CREATE, create_body(server.path("/n")))
    before = client.call(EXISTS, read_body(server.root)).zxid
    body = multi_body([
        (CREATE, create_body(server.path("/m"))), (CHECK, version_body(server.path("/n"), 99)), (SET_DATA, set_body(server.path("/n"), b"q")),
    ])
    reply = client.call(MULTI, body)
    yield "fails: error, zxids taken", (reply.error, reply.zxid - before)
    yield "fails: results", failed_results(reply.body, 3)
    body = multi_body([(CREATE, create_body(server.path("/m"), None, EPHEMERAL)), (SET_DATA, set_body(server.path("/m"), b"q", 0))])
    reply = client.call(MULTI, body)
    made = stat(client.call(EXISTS, read_body(server.path("/m"))).body)
    yield "succeeds: error, one zxid for all", (reply.error, made["czxid"] == made["mzxid"] == reply.zxid)
    yield "succeeds: results", (*created_then_set(reply.body), made["ephemeral_owner"] == client.session)
    reply = client.call(MULTI, multi_body([(CHECK, version_body(server.path("/n"), 0))]))
    yield "only a check: error, body, zxids taken", (reply.error, reply.body, reply.zxid - made["mzxid"])
    reply = client.call(MULTI, multi_body([]))
    yield "empty: error, body", (reply.error, reply.body)
    yield "with a getData: error", client.call(MULTI, multi_body([(GET_DATA, read_body(server.path("/n")))])).error
    reads = [
        (GET_DATA, read_body(server.path("/none"))), (GET_CHILDREN, read_body(server.path("/n"))),
        (GET_DATA, read_body(server.path("/n"), watch=True)),
    ]
    reply = client.call(MULTI_READ, multi_body(reads))
    yield "multiRead: error, first result, bytes", (reply.error, struct.unpack(">i?i", reply.body[:9]), len(reply.body))
    yield "multiRead sets no watch", client.call(SET_DATA, set_body(server.path("/n"), b"z")).events


def failed_results(body, count):
    """Each result as (type, done, error, error again), and the end."""
    step = 13
    results = [struct.unpack(">i?ii", body[step * index : step * (index + 1)]) for index in range(count)]
    return results, struct.unpack(">i?i", body[step * count :])


def created_then_set(body):
    """The results of a create and a set: their headers, the path, the Stat's version, and the end."""
    header = 9
    path = string_at(body, header)
    second = header + 4 + len(path)
    stat_end = second + header + STAT_BYTES
    headers = [struct.unpack_from(">i?i", body, position) for position in (0, second, stat_end)]
    return headers, path, stat(body[:stat_end])["version"], len(body) - stat_end - header


def lists(server):
    client = server.connect()
    for name in ("b", "a", "c"):
        client.call(CREATE, create_body(server.path("/" + name)))
    client.call(CREATE, create_body(server.path("/a/deep")))
    reply = client.call(GET_CHILDREN, read_body(server.root))
    yield "getChildren: error, count", (reply.error, struct.unpack(">i", reply.body[:4])[0])
    reply2 = client.call(GET_CHILDREN2, read_body(server.root))
    yield "getChildren2: children as getChildren, then a Stat", reply2.body[:-STAT_BYTES] == reply.body
    yield "getAllChildrenNumber", struct.unpack(">i", client.call(GET_ALL_CHILDREN_NUMBER, string(server.root)).body)[0]
    client.call(CREATE, create_body(server.path("/e"), flags=EPHEMERAL))
    reply = client.call(GET_EPHEMERALS, string(server.root))
    yield "getEphemerals: count, first", (struct.unpack(">i", reply.body[:4])[0], string_at(reply.body, 4))
    yield "lists of a node that is not there", tuple(
        client.call(kind, body).error
        for kind, body in (
            (GET_CHILDREN, read_body(server.path("/none"))), (GET_CHILDREN2, read_body(server.path("/none"))),
            (GET_ALL_CHILDREN_NUMBER, string(server.path("/none"))), (GET_EPHEMERALS, string(server.path("/none"))),
        )
    )


def members_in_the_configuration_node(server):
    for place, client in (("here", server.connect()), ("on the other member", server.connect_to_other())):
        reply = client.call(GET_DATA, read_body("/zookeeper/config"))
        lines = string_at(reply.body).split("\n")
        # The client address after a semicolon is there or not, as the configuration has it.
        yield f"lines {place}", [re.sub(r":[0-9]+", ":PORT", line.split(";")[0]) for line in lines[:-1]]
        yield f"last line is the version {place}", bool(re.fullmatch("version=[0-9a-f]+", lines[-1]))


OF_ONE = [zxids, versions_and_sequences, what_is_created, paths, access_lists, multi, lists]
OF_TWO = [members_in_the_configuration_node]
