//! Containers and nodes with a time to live.

use super::*;

fn container(path: &str) -> Request {
    create_with(OpCode::CreateContainer, path, Some(b""), 4, open_acl())
}

fn due(lab: &Lab, now_ms: i64) -> Vec<String> {
    lab.machine.sweepable(now_ms).into_iter().map(|sweep| sweep.path).collect()
}

fn sweep(lab: &mut Lab, path: &str, seen_zxid: i64) -> Applied {
    lab.act(Action::Sweep { path: path.to_owned(), seen_zxid })
}

#[test]
fn neither_shows_an_owner() {
    let mut lab = Lab::new();
    lab.ok(container("/c"));
    lab.ok(create_ttl("/t", 5, 1000));
    assert_eq!([lab.stat("/c").ephemeral_owner, lab.stat("/t").ephemeral_owner], [0, 0]);
    assert_eq!(lab.machine.statistics().ephemerals, 0);
    lab.ok(create("/c/x", b"", 0));
    lab.ok(create("/t/x", b"", 1));
}

#[test]
fn a_container_is_due_once_it_has_lost_its_last_child() {
    let mut lab = Lab::new();
    lab.ok(container("/c"));
    assert_eq!(due(&lab, i64::MAX), [""; 0], "it never had a child");
    lab.ok(create("/c/x", b"", 0));
    assert_eq!(due(&lab, i64::MAX), [""; 0]);
    let emptied = lab.ok(delete("/c/x", -1));
    assert_eq!(lab.machine.sweepable(0), [Sweep { path: "/c".to_owned(), seen_zxid: emptied.zxid.0 }]);
    let applied = sweep(&mut lab, "/c", emptied.zxid.0);
    assert_eq!(applied.error, 0);
    assert_eq!(told(&applied), [(EventType::NodeDeleted, "/c"), (EventType::NodeChildrenChanged, "/")]);
    assert_eq!(sweep(&mut lab, "/c", emptied.zxid.0).error, -101);
}

#[test]
fn a_container_that_was_used_again_stays() {
    let mut lab = Lab::new();
    lab.ok(container("/c"));
    lab.ok(create("/c/x", b"", 0));
    let emptied = lab.ok(delete("/c/x", -1)).zxid.0;
    lab.ok(create("/c/y", b"", 0));
    assert_eq!(sweep(&mut lab, "/c", emptied).error, -103);
    lab.ok(delete("/c/y", -1));
    assert_eq!(sweep(&mut lab, "/c", emptied).error, -103, "it was emptied again since");
    assert!(lab.has("/c"));
}

#[test]
fn a_time_to_live_runs_from_the_last_write() {
    let mut lab = Lab::new();
    lab.ok(create_ttl("/t", 5, 1000));
    let created_ms = lab.now_ms;
    assert_eq!(due(&lab, created_ms + 1000), [""; 0]);
    assert_eq!(due(&lab, created_ms + 1001), ["/t"]);
    let seen = lab.stat("/t").mzxid;
    lab.ok(set_data("/t", b"", -1));
    let written_ms = lab.now_ms;
    lab.now_ms = written_ms + 5000;
    assert_eq!(sweep(&mut lab, "/t", seen).error, -103);
    let seen = lab.stat("/t").mzxid;
    lab.ok(create("/t/x", b"", 0));
    assert_eq!(due(&lab, i64::MAX), [""; 0], "it has a child");
    assert_eq!(sweep(&mut lab, "/t", seen).error, -103);
    lab.ok(delete("/t/x", -1));
    lab.now_ms = written_ms + 500;
    assert_eq!(sweep(&mut lab, "/t", seen).error, -103, "the leader's clock says that it is not over");
    lab.now_ms = written_ms + 1001;
    assert_eq!(sweep(&mut lab, "/t", seen).error, 0);
}

#[test]
fn other_nodes_are_not_swept() {
    let mut lab = Lab::new();
    let applied = lab.ok(create("/a", b"", 0));
    lab.ok(create("/e", b"", 1));
    for path in ["/a", "/e", "/", "/none"] {
        assert_ne!(sweep(&mut lab, path, applied.zxid.0).error, 0, "{path}");
    }
}
