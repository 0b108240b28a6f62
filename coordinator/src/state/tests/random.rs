//! Random commands: what the property tests apply.

use super::*;
use proptest::{collection::vec, prelude::*, sample::select};

/// One operation of a client, by its fields.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Create { code: OpCode, path: String, data: Option<Vec<u8>>, flags: i32, ttl_ms: i64, acl: List },
    Delete { path: String, version: i32 },
    SetData { path: String, data: Option<Vec<u8>>, version: i32 },
    SetAcl { path: String, acl: List, version: i32 },
    Check { path: String, version: i32 },
}

/// Access lists that clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Open,
    Own,
    ReadOnly,
    OwnAndReadOnly,
    NotValid,
}

/// One step of a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write {
        session: SessionId,
        operation: Operation,
    },
    Multi {
        session: SessionId,
        operations: Vec<Operation>,
    },
    Open(SessionId),
    Attach {
        session: SessionId,
        number: u64,
        right: bool,
    },
    Close(SessionId),
    Expire(SessionId),
    /// Sweeps whatever is due at this time after the beginning.
    SweepAll {
        after_ms: i64,
    },
    Nothing,
}

pub(super) const SESSIONS: [SessionId; 3] = [ANN, BOB, SessionId(-3)];

/// What a session has proven: the first two have passwords.
pub(super) fn proven(session: SessionId) -> Vec<(String, String)> {
    let ip = ("ip".to_owned(), "127.0.0.1".to_owned());
    let digest = |user: &str| ("digest".to_owned(), format!("{user}:secret"));
    match session {
        ANN => vec![ip, digest("ann")],
        BOB => vec![ip, digest("bob")],
        _ => vec![ip],
    }
}

impl List {
    /// As it is asked for.
    pub(super) fn asked(self) -> Vec<Acl> {
        match self {
            List::Open => open_acl(),
            List::Own => vec![acl(31, "auth", "")],
            List::ReadOnly => vec![acl(1, "world", "anyone")],
            List::OwnAndReadOnly => vec![acl(31, "auth", ""), acl(1, "world", "anyone"), acl(31, "auth", "")],
            List::NotValid => vec![acl(31, "world", "anyone"), acl(31, "digest", "no-colon")],
        }
    }
}

impl Operation {
    pub(super) fn request(&self) -> Request {
        match self {
            Operation::Create { code: OpCode::CreateTtl, path, data, flags, ttl_ms, acl } => {
                let (data, acl) = (data.as_deref(), acl.asked());
                (
                    OpCode::CreateTtl,
                    CreateTtlRequest { path, data, acl, flags: *flags, ttl_ms: *ttl_ms }.to_bytes(),
                )
            }
            Operation::Create { code, path, data, flags, acl, .. } => {
                create_with(*code, path, data.as_deref(), *flags, acl.asked())
            }
            Operation::Delete { path, version } => delete(path, *version),
            Operation::SetData { path, data, version } => (
                OpCode::SetData,
                SetDataRequest { path, data: data.as_deref(), version: *version }.to_bytes(),
            ),
            Operation::SetAcl { path, acl, version } => set_acl(path, acl.asked(), *version),
            Operation::Check { path, version } => check(path, *version),
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    let name = select(vec!["a", "b", "ä", "s-0000000000", "s-0000000001"]);
    prop_oneof![
        30 => vec(name, 1..4).prop_map(|names| format!("/{}", names.join("/"))),
        1 => select(vec!["", "/", "a", "/a/", "/a//b", "/a/..", "/a/\0", "/zookeeper/config", "/zookeeper"])
            .prop_map(str::to_owned),
    ]
}

fn data() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::weighted(0.9, vec(any::<u8>(), 0..40))
}

fn version() -> impl Strategy<Value = i32> {
    prop_oneof![5 => Just(-1), 2 => 0..3]
}

fn list() -> impl Strategy<Value = List> {
    prop_oneof![
        12 => Just(List::Open),
        1 => Just(List::Own),
        1 => Just(List::ReadOnly),
        1 => Just(List::OwnAndReadOnly),
        1 => Just(List::NotValid),
    ]
}

fn creation() -> impl Strategy<Value = Operation> {
    let code = prop_oneof![
        4 => Just(OpCode::Create),
        1 => Just(OpCode::Create2),
        1 => Just(OpCode::CreateContainer),
    ];
    let flags = prop_oneof![5 => Just(0), 5 => Just(1), 2 => Just(2), 2 => Just(3)];
    let plain = (code, path(), data(), flags, list()).prop_map(|(code, path, data, flags, acl)| {
        let path = if flags >= 2 { format!("{path}/s-") } else { path };
        Operation::Create { code, path, data, flags, ttl_ms: -1, acl }
    });
    let ttl_ms = select(vec![1, 50, 1 << 39]);
    let ttl = (path(), data(), 5..7, ttl_ms, list()).prop_map(|(path, data, flags, ttl_ms, acl)| {
        Operation::Create { code: OpCode::CreateTtl, path, data, flags, ttl_ms, acl }
    });
    prop_oneof![8 => plain, 1 => ttl]
}

fn operation(in_multi: bool) -> impl Strategy<Value = Operation> {
    let set_acl =
        (path(), list(), version()).prop_map(|(path, acl, version)| Operation::SetAcl { path, acl, version });
    let check = (path(), version()).prop_map(|(path, version)| Operation::Check { path, version });
    prop_oneof![
        6 => creation(),
        3 => (path(), version()).prop_map(|(path, version)| Operation::Delete { path, version }),
        3 => (path(), data(), version())
            .prop_map(|(path, data, version)| Operation::SetData { path, data, version }),
        1 => if in_multi { check.boxed() } else { set_acl.boxed() },
    ]
}

/// A step of a random history.
pub(super) fn step() -> impl Strategy<Value = Step> {
    let session = || select(SESSIONS.to_vec());
    prop_oneof![
        20 => (session(), operation(false)).prop_map(|(session, operation)| Step::Write { session, operation }),
        8 => (session(), vec(operation(true), 0..5))
            .prop_map(|(session, operations)| Step::Multi { session, operations }),
        2 => session().prop_map(Step::Open),
        1 => (session(), 0..3u64, any::<bool>())
            .prop_map(|(session, number, right)| Step::Attach { session, number, right }),
        1 => session().prop_map(Step::Close),
        1 => session().prop_map(Step::Expire),
        1 => (0..100i64).prop_map(|after_ms| Step::SweepAll { after_ms }),
        1 => Just(Step::Nothing),
    ]
}
