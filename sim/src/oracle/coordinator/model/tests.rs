//! The model against what a ZooKeeper 3.8 was seen to do.

use super::*;
use sillon_coordinator::types::SessionId;
use sillon_protocol::zookeeper::{
    CreateRequest, CreateTtlRequest, EventType, Jute, OpCode, PathVersionRequest, SetAclRequest,
    SetDataRequest, multi::MultiHeader, records::open_acl,
};

struct Run {
    model: Model,
    zxid: i64,
}

type Part = (OpCode, Vec<u8>);

fn create(path: &str, flags: i32) -> Part {
    let request = CreateRequest { path, data: Some(b"x"), acl: open_acl(), flags };
    (OpCode::Create2, request.to_bytes())
}

fn create_container(path: &str) -> Part {
    (OpCode::CreateContainer, create(path, 4).1)
}

fn create_ttl(path: &str, ttl_ms: i64) -> Part {
    let request = CreateTtlRequest { path, data: None, acl: open_acl(), flags: 5, ttl_ms };
    (OpCode::CreateTtl, request.to_bytes())
}

fn delete(path: &str) -> Part {
    (OpCode::Delete, PathVersionRequest { path, version: -1 }.to_bytes())
}

fn check(path: &str, version: i32) -> Part {
    (OpCode::Check, PathVersionRequest { path, version }.to_bytes())
}

fn set(path: &str, version: i32) -> Part {
    (OpCode::SetData, SetDataRequest { path, data: Some(b"new"), version }.to_bytes())
}

fn multi(parts: &[Part]) -> Part {
    let mut body = Vec::new();
    for (code, part) in parts {
        MultiHeader::of(code.number()).write(&mut body);
        body.extend_from_slice(part);
    }
    MultiHeader::END.write(&mut body);
    (OpCode::Multi, body)
}

impl Run {
    fn new() -> Run {
        let mut run = Run { model: Model::new(true), zxid: 0 };
        run.open(1);
        run
    }

    fn act(&mut self, action: Action) -> Effect {
        self.zxid += 1;
        self.model.apply(self.zxid, &Command { origin: None, time_ms: 1_000 + self.zxid, action })
    }

    fn open(&mut self, session: i64) {
        let (password, connection) = ([7; 16], ConnectionKey::default());
        let session = SessionId(session);
        self.act(Action::OpenSession { session, password, timeout_ms: 10_000, connection });
    }

    fn write_by(&mut self, session: i64, (code, body): Part) -> Outcome {
        let effect = self.act(Action::Write {
            session: SessionId(session),
            connection: ConnectionKey::default(),
            identities: vec![("ip".into(), "127.0.0.1".into())],
            operation: code.number(),
            body: body.into(),
        });
        match effect {
            Effect::Write { outcome, .. } => outcome,
            other => panic!("{other:?} is no write"),
        }
    }

    fn write(&mut self, part: Part) -> Outcome {
        self.write_by(1, part)
    }

    fn created(&mut self, part: Part) -> String {
        match self.write(part) {
            Outcome::Single(Ok(Done::Created(path, _))) => path,
            other => panic!("{other:?} instead of a new node"),
        }
    }

    fn error(&mut self, part: Part) -> i32 {
        self.write(part).error()
    }

    fn stat(&self, path: &str) -> sillon_protocol::zookeeper::Stat {
        self.model.tree.get(path).expect("it is there").stat()
    }
}

#[test]
fn a_sequence_counts_the_creates_in_the_parent() {
    let mut run = Run::new();
    run.created(create("/r", 0));
    for name in ["/r/n0", "/r/n1", "/r/n2"] {
        run.created(create(name, 0));
    }
    assert_eq!(run.created(create("/r/s-", 2)), "/r/s-0000000003");
    assert_eq!(run.error(delete("/r/n0")), 0);
    let stat = run.stat("/r");
    assert_eq!((stat.cversion, stat.num_children, stat.pzxid), (5, 3, run.zxid));
    let failed = multi(&[create("/r/s-", 2), check("/r/n1", 9)]);
    assert_eq!(run.write(failed), Outcome::None(vec![0, -103]));
    assert_eq!(run.created(create("/r/s-", 3)), "/r/s-0000000004");
    assert_eq!(run.created(create("/r/", 2)), "/r/0000000005");
}

#[test]
fn zookeepers_own_nodes() {
    let mut run = Run::new();
    assert_eq!((run.stat("/").cversion, run.stat("/zookeeper").cversion), (-1, -2));
    assert_eq!(run.stat(""), run.stat("/"));
    for path in ["/", "/zookeeper", "/zookeeper/config", ""] {
        assert_eq!(run.error(delete(path)), -8, "{path}");
    }
    assert_eq!(run.error(set("/zookeeper/config", -1)), -102);
    assert_eq!(run.error(create("/", 0)), -110);
}

#[test]
fn bad_requests() {
    let mut run = Run::new();
    run.created(create("/r", 0));
    assert_eq!(run.error(create("/r//x", 0)), -101);
    for path in ["", "relative", "/r/a\0b", "/r/..", "/r/\u{1}"] {
        assert_eq!(run.error(create(path, 0)), -8, "{path:?}");
    }
    for flags in [7, 99, -1] {
        assert_eq!(run.error(create("/r/x", flags)), -8);
    }
    for ttl_ms in [0, -1, 1 << 40] {
        assert_eq!(run.error(create_ttl("/r/x", ttl_ms)), -8);
    }
    let request = SetAclRequest { path: "/r", acl: vec![], version: -1 };
    assert_eq!(run.error((OpCode::SetAcl, request.to_bytes())), -114);
    run.model.ttl_nodes = false;
    assert_eq!(run.error(create_ttl("/r/x", 5)), -6);
    assert_eq!(run.error(set("/r", 3)), -103);
    assert_eq!(run.error(set("/none", 0)), -101);
    run.created(create("/r/k", 0));
    assert_eq!(run.error(delete("/r")), -111);
}

#[test]
fn a_multi_is_one_transaction_or_nothing() {
    let mut run = Run::new();
    run.created(create("/n1", 0));
    let failing = multi(&[create("/m1", 1), check("/n1", 99), set("/n1", -1)]);
    assert_eq!(run.write(failing), Outcome::None(vec![0, -103, -2]));
    assert_eq!((run.model.tree.get("/m1"), run.stat("/n1").version), (None, 0));
    assert_eq!(run.model.tree.changes_after("/n1", 1).len(), 1, "the create alone");
    let good = multi(&[create("/m1", 1), set("/m1", 0), delete("/n1"), create("/n1", 0)]);
    let Outcome::All(done) = run.write(good) else { panic!("it is legal") };
    let Done::Written(stat) = done[1] else { panic!("a write is answered with a stat") };
    assert_eq!((stat.czxid, stat.mzxid, stat.version, stat.ephemeral_owner), (run.zxid, run.zxid, 1, 1));
    assert_eq!(run.stat("/n1").czxid, run.zxid);
    assert_eq!(run.write(multi(&[])), Outcome::All(vec![]));
    let request = SetAclRequest { path: "/n1", acl: open_acl(), version: -1 };
    let (code, body) = multi(&[(OpCode::SetAcl, request.to_bytes())]);
    assert_eq!(Operation::decode(code.number(), &body), None, "a multi has no setACL");
}

#[test]
fn a_failed_multi_gives_ephemerals_back() {
    let mut run = Run::new();
    run.created(create("/e", 1));
    run.created(create("/p", 0));
    let failing = multi(&[delete("/e"), create("/f", 1), delete("/e")]);
    assert_eq!(run.write(failing), Outcome::None(vec![0, 0, -101]));
    let effect = run.act(Action::ExpireSession { session: SessionId(1) });
    assert_eq!(effect, Effect::Ended { session: 1, ephemerals: 1, expired: true });
    assert_eq!((run.model.tree.get("/e"), run.stat("/").pzxid), (None, run.zxid));
}

#[test]
fn a_session_takes_its_ephemerals_along() {
    let mut run = Run::new();
    run.open(2);
    run.created(create("/e1", 1));
    run.created(create("/e2", 1));
    assert_eq!(run.write_by(2, create("/e1/x", 0)).error(), -108);
    run.write_by(2, create("/e3", 1));
    run.created(create("/p", 0));
    let close = Action::CloseSession { session: SessionId(1), connection: ConnectionKey::default() };
    assert_eq!(run.act(close), Effect::Ended { session: 1, ephemerals: 2, expired: false });
    let events: Vec<_> =
        run.model.tree.all_changes(0).iter().filter(|change| change.zxid == run.zxid).collect();
    let told: Vec<(EventType, &str)> = events.iter().map(|change| (change.event, &*change.path)).collect();
    assert_eq!(
        told,
        [
            (EventType::NodeDeleted, "/e1"),
            (EventType::NodeChildrenChanged, "/"),
            (EventType::NodeDeleted, "/e2"),
            (EventType::NodeChildrenChanged, "/"),
        ]
    );
    assert_eq!(run.write(create("/late", 0)), Outcome::Refused(-112));
    assert!(run.model.tree.get("/e3").is_some());
    let children = |zxid| run.model.tree.children_at("/", zxid).join(" ");
    assert_eq!(children(run.zxid), "e3 p zookeeper");
    assert_eq!(children(run.zxid - 3), "e1 e2 e3 zookeeper");
    assert_eq!(children(2), "zookeeper");
}

#[test]
fn containers_and_times_to_live() {
    let mut run = Run::new();
    run.created(create_container("/box"));
    run.created(create_ttl("/brief", 10));
    assert_eq!(run.stat("/box").ephemeral_owner, 0);
    let sweep = |run: &mut Run, path: &str| {
        let node = run.model.tree.get(path).expect("it is there");
        let seen_zxid = if let Kind::Ttl { .. } = node.kind { node.mzxid } else { node.pzxid };
        run.act(Action::Sweep { path: path.into(), seen_zxid })
    };
    assert_eq!(sweep(&mut run, "/box"), Effect::Nothing, "it never had a child");
    run.created(create("/box/k", 0));
    assert_eq!(sweep(&mut run, "/box"), Effect::Nothing, "it has one");
    run.error(delete("/box/k"));
    let stale = Action::Sweep { path: "/box".into(), seen_zxid: 1 };
    assert_eq!(run.act(stale), Effect::Nothing, "it has changed since");
    assert_eq!(sweep(&mut run, "/box"), Effect::Swept);
    assert_eq!(sweep(&mut run, "/brief"), Effect::Nothing, "its time is not over");
    run.zxid += 10;
    assert_eq!(sweep(&mut run, "/brief"), Effect::Swept);
    assert_eq!(run.error(set("/brief", -1)), -101);
}

#[test]
fn every_version_is_kept() {
    let mut run = Run::new();
    run.created(create("/n", 0));
    let created = run.zxid;
    run.error(set("/n", 0));
    run.error(delete("/n"));
    run.created(create("/n", 0));
    let version_at = |zxid| run.model.tree.get_at("/n", zxid).map(|node| (node.version, node.czxid));
    assert_eq!(version_at(created - 1), None);
    assert_eq!(version_at(created), Some((0, created)));
    assert_eq!(version_at(created + 1), Some((1, created)));
    assert_eq!(version_at(created + 2), None);
    assert_eq!(version_at(created + 3), Some((0, created + 3)));
}
