//! Creating, writing and deleting nodes.

use super::*;

const BAD_ARGUMENTS: i32 = -8;
const NO_NODE: i32 = -101;
const BAD_VERSION: i32 = -103;
const EXISTS: i32 = -110;

#[test]
fn a_fresh_tree_is_zookeepers() {
    let machine = StateMachine::new();
    let stat = |path| machine.node(path).unwrap().stat;
    assert_eq!(stat("/"), Stat { cversion: -1, num_children: 1, ..Stat::default() });
    assert_eq!(stat(""), stat("/"));
    assert_eq!(stat("/zookeeper"), Stat { cversion: -2, num_children: 2, ..Stat::default() });
    assert_eq!(stat("/zookeeper/quota"), Stat::default());
    assert_eq!(stat("/zookeeper/config"), Stat { aversion: -1, ..Stat::default() });
    assert_eq!(machine.node("/").unwrap().data, Some(&[][..]));
    assert_eq!(machine.may_read("/zookeeper/config", &[]), Some(true));
    let empty = Statistics { nodes: 4, ephemerals: 0, data_bytes: 44, sessions: 0 };
    assert_eq!(machine.statistics(), empty);
}

#[test]
fn a_create_fills_the_stat() {
    let mut lab = Lab::new();
    let applied = lab.ok(create_with(OpCode::Create2, "/a", Some(b"xyz"), 1, open_acl()));
    let (zxid, now) = (applied.zxid.0, lab.now_ms);
    let stat = Stat {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime: now,
        mtime: now,
        ephemeral_owner: ANN.0,
        data_length: 3,
        ..Stat::default()
    };
    assert_eq!(lab.stat("/a"), stat);
    let mut body = "/a".to_bytes();
    stat.write(&mut body);
    assert_eq!(applied.body, Some(body));
    assert_eq!(lab.stat("/").pzxid, zxid);
}

#[test]
fn events_come_for_the_node_first_and_then_for_its_parent() {
    let mut lab = Lab::new();
    use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
    let applied = lab.ok(create("/a", b"", 0));
    assert_eq!(told(&applied), [(NodeCreated, "/a"), (NodeChildrenChanged, "/")]);
    let applied = lab.ok(create("/a/b", b"", 0));
    assert_eq!(told(&applied), [(NodeCreated, "/a/b"), (NodeChildrenChanged, "/a")]);
    assert_eq!(told(&lab.ok(set_data("/a/b", b"x", 0))), [(NodeDataChanged, "/a/b")]);
    assert_eq!(told(&lab.ok(set_acl("/a/b", open_acl(), 0))), []);
    let applied = lab.ok(delete("/a/b", 1));
    assert_eq!(told(&applied), [(NodeDeleted, "/a/b"), (NodeChildrenChanged, "/a")]);
    assert_eq!(applied.body, None);
}

#[test]
fn a_sequence_number_is_how_many_children_were_created_so_far() {
    let mut lab = Lab::new();
    lab.ok(create("/d", b"", 0));
    for name in ["a", "b", "c"] {
        lab.ok(create(&format!("/d/{name}"), b"", 0));
    }
    assert_eq!(lab.created(create("/d/s-", b"", 2)), "/d/s-0000000003");
    lab.ok(delete("/d/a", -1));
    assert_eq!(lab.error(create("/d/b", b"", 0)), EXISTS);
    assert_eq!(lab.results(&[create("/d/s-", b"", 2), check("/none", -1)]), [0, NO_NODE]);
    assert_eq!(lab.created(create("/d/", b"", 3)), "/d/0000000004");
    // Five creations and a deletion.
    assert_eq!(lab.stat("/d").cversion, 6);
    assert_eq!(lab.created(create("/", b"", 2)), "/0000000001");
}

#[test]
fn data_may_be_null_or_empty_and_stays_so() {
    let mut lab = Lab::new();
    lab.ok(create_with(OpCode::Create, "/null", None, 0, open_acl()));
    lab.ok(create("/empty", b"", 0));
    assert_eq!((lab.data("/null"), lab.data("/empty")), (None, Some(&[][..])));
    lab.ok((OpCode::SetData, SetDataRequest { path: "/empty", data: None, version: 0 }.to_bytes()));
    assert_eq!(lab.data("/empty"), None);
    let body = lab.read(read(OpCode::GetData, "/null")).body;
    assert_eq!(body[..4], [0xff; 4]);
}

#[test]
fn versions_are_checked_and_counted() {
    let mut lab = Lab::new();
    lab.ok(create("/a", b"0", 0));
    let created = lab.stat("/a");
    assert_eq!(lab.error(set_data("/a", b"1", 1)), BAD_VERSION);
    let applied = lab.ok(set_data("/a", b"1", 0));
    let written = lab.stat("/a");
    assert_eq!((written.version, written.mzxid, written.mtime), (1, applied.zxid.0, lab.now_ms));
    assert_eq!((written.czxid, written.ctime, written.pzxid), (created.czxid, created.ctime, created.pzxid));
    assert_eq!(lab.error(set_data("/a", b"2", -1)), 0);
    assert_eq!(lab.error(set_acl("/a", open_acl(), 2)), BAD_VERSION);
    assert_eq!(lab.error(set_acl("/a", open_acl(), 0)), 0);
    assert_eq!((lab.stat("/a").version, lab.stat("/a").aversion), (2, 1));
    assert_eq!(lab.error(delete("/a", 1)), BAD_VERSION);
    assert_eq!(lab.error(delete("/a", 2)), 0);
}

#[test]
fn which_error_wins() {
    let mut lab = Lab::new();
    lab.ok(create("/a", b"", 0));
    lab.ok(create("/a/b", b"", 0));
    lab.ok(create("/e", b"", 1));
    // The flags before the path, the access list before the parent, the parent before the name.
    assert_eq!(lab.error(create("", b"", 99)), BAD_ARGUMENTS);
    assert_eq!(lab.error(create_with(OpCode::Create, "/no/x", None, 0, vec![])), -114);
    assert_eq!(lab.error(create("/no/..", b"", 0)), NO_NODE);
    assert_eq!(lab.error(create("/a//x", b"", 0)), NO_NODE);
    assert_eq!(lab.error(create("//x", b"", 0)), BAD_ARGUMENTS);
    assert_eq!(lab.error(create("/", b"", 0)), EXISTS);
    // The node before its parent's kind, the version before the children.
    assert_eq!(lab.error(create("/e/x", b"", 0)), -108);
    assert_eq!(lab.error(delete("/a", 7)), BAD_VERSION);
    assert_eq!(lab.error(delete("/a", 0)), -111);
    assert_eq!(lab.error(set_acl("/none", vec![], 0)), -114);
    assert_eq!(lab.error(set_data("x", b"", 0)), BAD_ARGUMENTS);
}

#[test]
fn flags_mean_what_they_mean_to_zookeeper() {
    let mut lab = Lab::new();
    for flags in [5, 6, 7, 99, -1] {
        assert_eq!(lab.error(create("/x", b"", flags)), BAD_ARGUMENTS, "{flags}");
    }
    lab.ok(create("/plain", b"", 4));
    assert_eq!(lab.machine.sweepable(i64::MAX), []);
    assert!(
        lab.machine.tree.owners.containers.count == 0,
        "flags 4 of a plain create make a persistent node"
    );
    for (flags, ttl_ms) in [(0, 1), (0, -1), (5, 0), (5, -5), (5, 1 << 40)] {
        assert_eq!(lab.error(create_ttl("/x", flags, ttl_ms)), BAD_ARGUMENTS, "{flags} {ttl_ms}");
    }
    assert_eq!(lab.error(create_ttl("/x", 5, (1 << 40) - 1)), 0);
}

#[test]
fn what_is_the_systems_is_not_deleted() {
    let mut lab = Lab::new();
    for path in ["", "/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "x"] {
        assert_eq!(lab.error(delete(path, -1)), BAD_ARGUMENTS, "{path}");
    }
    assert_eq!(lab.error(set_data("/zookeeper/config", b"", -1)), -102);
    assert_eq!(lab.error(create("/zookeeper/x", b"", 0)), 0);
    assert_eq!(lab.error(set_data("/", b"", 0)), 0);
}

#[test]
fn paths_that_are_not_legal() {
    let mut lab = Lab::new();
    lab.ok(create("/t", b"", 0));
    for path in ["x", "", "/t/", "/t/.", "/t/..", "/t/\0", "/t/\u{1f}", "/t/\u{fff5}", "/t/😀", "//x"] {
        assert_eq!(lab.error(create(path, b"", 0)), BAD_ARGUMENTS, "create {path:?}");
        assert_eq!(lab.error(set_data(path, b"", -1)), BAD_ARGUMENTS, "setData {path:?}");
        assert_eq!(lab.error(set_acl(path, open_acl(), -1)), BAD_ARGUMENTS, "setACL {path:?}");
        if !path.is_empty() {
            assert_eq!(lab.read(read(OpCode::GetData, path)).error, NO_NODE, "getData {path:?}");
        }
    }
    assert_eq!(lab.error(create("/ä/", b"", 2)), NO_NODE);
    assert_eq!(lab.created(create("/t/..", b"", 2)), "/t/..0000000000");
    assert_eq!(lab.read(read(OpCode::Exists, "/t\0")).error, BAD_ARGUMENTS);
}

#[test]
fn requests_that_cannot_be_read() {
    let mut lab = Lab::new();
    for code in [1, 2, 5, 7, 13, 14, 15, 19, 21] {
        let code = OpCode::from_number(code).unwrap();
        assert_eq!(lab.error((code, vec![0])), -5, "{code:?}");
    }
    assert_eq!(lab.error((OpCode::Sync, vec![])), -6);
    assert_eq!(lab.error((OpCode::DeleteContainer, b"/t".to_vec())), BAD_ARGUMENTS);
    // Null paths, as ZooKeeper stumbles over them.
    let null = |code| (code, vec![0xff; 40]);
    assert_eq!(lab.error(null(OpCode::Delete)), -5);
    assert_eq!(lab.error(null(OpCode::SetData)), BAD_ARGUMENTS);
    assert_eq!(lab.error(null(OpCode::Check)), BAD_ARGUMENTS);
    // Bytes that are not UTF-8 are replaced by a character that is not allowed.
    let mut body = create("/ab", b"", 0).1;
    body[5] = 0xff;
    assert_eq!(lab.error((OpCode::Create, body)), BAD_ARGUMENTS);
}

#[test]
fn check_may_stand_alone() {
    let mut lab = Lab::new();
    assert_eq!(lab.error(check("/", 0)), 0);
    assert_eq!(lab.ok(check("/", -1)).body, None);
    assert_eq!(lab.error(check("/", 1)), BAD_VERSION);
    assert_eq!(lab.error(check("/none", 1)), NO_NODE);
}

#[test]
fn a_failed_write_takes_its_transaction_number() {
    let mut lab = Lab::new();
    let before = lab.machine.applied().0;
    lab.error(create("/no/x", b"", 0));
    lab.machine.apply(Zxid(before + 2), None, true);
    assert_eq!(lab.ok(create("/a", b"", 0)).zxid, Zxid(before + 3));
}

#[test]
#[should_panic(expected = "does not come after")]
fn a_transaction_is_applied_once() {
    let mut lab = Lab::new();
    lab.machine.apply(lab.machine.applied(), None, true);
}

#[test]
fn a_reply_is_built_only_where_it_is_wanted() {
    let mut lab = Lab::new();
    let (session, connection) = (ANN, connection_of(ANN));
    for (code, body) in [create("/a", b"", 0), multi(&[check("/a", 0)])] {
        let action = Action::Write {
            session,
            connection,
            identities: vec![],
            operation: code.number(),
            body: body.into(),
        };
        let command = Command { origin: None, time_ms: 1, action };
        let zxid = Zxid(lab.machine.applied().0 + 1);
        let applied = lab.machine.apply(zxid, Some(&command), false);
        assert_eq!((applied.error, applied.body), (0, None));
    }
    assert!(lab.has("/a"));
}

#[test]
fn the_ensemble_is_named_once() {
    let mut lab = Lab::new();
    let before = lab.machine.digest();
    assert_eq!(lab.machine.ensemble(), None);
    lab.act(Action::NameEnsemble { ensemble: 7 });
    lab.act(Action::NameEnsemble { ensemble: 8 });
    assert_eq!(lab.machine.ensemble(), Some(7));
    assert_ne!(lab.machine.digest(), before);
}
