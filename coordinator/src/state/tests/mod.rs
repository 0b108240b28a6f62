//! Scenarios, a model to compare with, and what a ZooKeeper 3.8.4 answered to the same requests.
//!
//! [`Lab`] is the state machine with a transaction counter, and with requests built from their fields.

mod access;
mod containers;
mod measure;
mod model;
mod multi;
mod nodes;
mod property;
mod quotas;
mod random;
mod reads;
mod recorded;
mod sessions;
mod snapshots;

use super::*;
use crate::types::MemberId;
use bytes::Bytes;
use sillon_protocol::zookeeper::{
    CreateRequest, CreateTtlRequest, EventType, Jute, PathVersionRequest, PathWatchRequest, Reader,
    SetAclRequest, SetDataRequest, multi::MultiHeader, records::open_acl,
};

/// The session that scenarios use unless they say otherwise.
pub(super) const ANN: SessionId = SessionId(0xa);
/// Another session.
pub(super) const BOB: SessionId = SessionId(0xb);

/// The connection on which a session of a scenario lives.
pub(super) fn connection_of(session: SessionId) -> ConnectionKey {
    ConnectionKey { member: MemberId(1), incarnation: 7, number: session.0.cast_unsigned() }
}

/// A state machine on the bench.
pub(super) struct Lab {
    pub(super) machine: StateMachine,
    pub(super) now_ms: i64,
    /// What everybody here has proven.
    pub(super) identities: Vec<(String, String)>,
}

/// A request: an operation and its body.
pub(super) type Request = (OpCode, Vec<u8>);

pub(super) fn create(path: &str, data: &[u8], flags: i32) -> Request {
    create_with(OpCode::Create, path, Some(data), flags, open_acl())
}

pub(super) fn create_with(
    code: OpCode,
    path: &str,
    data: Option<&[u8]>,
    flags: i32,
    acl: Vec<Acl>,
) -> Request {
    (code, CreateRequest { path, data, acl, flags }.to_bytes())
}

pub(super) fn create_ttl(path: &str, flags: i32, ttl_ms: i64) -> Request {
    let request = CreateTtlRequest { path, data: Some(b""), acl: open_acl(), flags, ttl_ms };
    (OpCode::CreateTtl, request.to_bytes())
}

pub(super) fn delete(path: &str, version: i32) -> Request {
    (OpCode::Delete, PathVersionRequest { path, version }.to_bytes())
}

pub(super) fn check(path: &str, version: i32) -> Request {
    (OpCode::Check, PathVersionRequest { path, version }.to_bytes())
}

pub(super) fn set_data(path: &str, data: &[u8], version: i32) -> Request {
    (OpCode::SetData, SetDataRequest { path, data: Some(data), version }.to_bytes())
}

pub(super) fn set_acl(path: &str, acl: Vec<Acl>, version: i32) -> Request {
    (OpCode::SetAcl, SetAclRequest { path, acl, version }.to_bytes())
}

pub(super) fn multi(requests: &[Request]) -> Request {
    framed(OpCode::Multi, requests)
}

pub(super) fn framed(code: OpCode, requests: &[Request]) -> Request {
    let mut body = Vec::new();
    for (code, request) in requests {
        MultiHeader::of(code.number()).write(&mut body);
        body.extend_from_slice(request);
    }
    MultiHeader::END.write(&mut body);
    (code, body)
}

/// A read of a path; those without a watch flag ignore it.
pub(super) fn read(code: OpCode, path: &str) -> Request {
    (code, PathWatchRequest { path, watch: false }.to_bytes())
}

pub(super) fn acl(permissions: i32, scheme: &str, id: &str) -> Acl {
    Acl { permissions, identity: Identity::new(scheme, id) }
}

impl Lab {
    /// A fresh state machine with the sessions of Ann and Bob.
    pub(super) fn new() -> Lab {
        let identities = vec![("ip".to_owned(), "127.0.0.1".to_owned())];
        let mut lab = Lab { machine: StateMachine::new(), now_ms: 1_000_000, identities };
        for session in [ANN, BOB] {
            lab.open(session);
        }
        lab
    }

    pub(super) fn act(&mut self, action: Action) -> Applied {
        let zxid = Zxid(self.machine.applied().0 + 1);
        self.now_ms += 1;
        self.machine.apply(zxid, Some(&Command { origin: None, time_ms: self.now_ms, action }), true)
    }

    pub(super) fn open(&mut self, session: SessionId) -> Applied {
        let connection = connection_of(session);
        self.act(Action::OpenSession {
            session,
            password: [session.0 as u8; 16],
            timeout_ms: 9000,
            connection,
        })
    }

    pub(super) fn close(&mut self, session: SessionId) -> Applied {
        self.act(Action::CloseSession { session, connection: connection_of(session) })
    }

    pub(super) fn write_as(&mut self, session: SessionId, (code, body): &Request) -> Applied {
        let action = Action::Write {
            session,
            connection: connection_of(session),
            identities: self.identities.clone(),
            operation: code.number(),
            body: Bytes::copy_from_slice(body),
        };
        self.act(action)
    }

    /// Ann writes.
    pub(super) fn write(&mut self, request: Request) -> Applied {
        self.write_as(ANN, &request)
    }

    /// Ann writes, and it works.
    pub(super) fn ok(&mut self, request: Request) -> Applied {
        let applied = self.write(request);
        assert_eq!(applied.error, 0, "{applied:?}");
        applied
    }

    /// Ann writes; the error, or 0.
    pub(super) fn error(&mut self, request: Request) -> i32 {
        let before = self.machine.digest();
        let applied = self.write(request);
        assert!(applied.error == 0 || self.machine.digest() == before, "what fails changes nothing");
        applied.error
    }

    /// Ann creates a node; the path that she is told.
    pub(super) fn created(&mut self, request: Request) -> String {
        let body = self.ok(request).body.expect("a create has a body");
        <&str>::read(&mut Reader::new(&body)).unwrap().to_owned()
    }

    /// Ann writes a multi; the error of each result.
    pub(super) fn results(&mut self, requests: &[Request]) -> Vec<i32> {
        let body = self.ok(multi(requests)).body.expect("a multi has a body");
        multi::errors(&body)
    }

    pub(super) fn read(&self, request: Request) -> ReadOutcome {
        self.read_as(ANN, &request)
    }

    pub(super) fn read_as(&self, session: SessionId, (code, body): &Request) -> ReadOutcome {
        let identities: Vec<Identity> =
            self.identities.iter().map(|(scheme, id)| Identity::new(scheme, id)).collect();
        self.machine.read(*code, body, &identities, session)
    }

    pub(super) fn stat(&self, path: &str) -> Stat {
        self.machine.node(path).unwrap_or_else(|| panic!("{path} exists")).stat
    }

    pub(super) fn data(&self, path: &str) -> Option<&[u8]> {
        self.machine.node(path).unwrap_or_else(|| panic!("{path} exists")).data
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.machine.node(path).is_some()
    }

    /// Names of children, sorted.
    pub(super) fn children(&self, path: &str) -> Vec<String> {
        let outcome = self.read(read(OpCode::GetChildren, path));
        assert_eq!(outcome.error, 0);
        let mut names = Vec::<String>::read(&mut Reader::new(&outcome.body)).unwrap();
        names.sort();
        names
    }
}

/// What happened, in words.
pub(super) fn told(applied: &Applied) -> Vec<(EventType, &str)> {
    applied.events.iter().map(|event| (event.kind, event.path.as_str())).collect()
}

/// All bytes of a snapshot of the machine as it is.
pub(super) fn snapshot_of(machine: &mut StateMachine) -> Vec<u8> {
    machine.begin_snapshot();
    let mut bytes = Vec::new();
    while let Some(chunk) = machine.snapshot_chunk(1000) {
        assert!(chunk.len() <= 1000);
        bytes.extend(chunk);
    }
    bytes
}

/// The machine that a snapshot holds.
pub(super) fn restored(bytes: &[u8]) -> StateMachine {
    let mut restorer = StateMachine::restore();
    for chunk in bytes.chunks(777) {
        restorer.chunk(chunk).unwrap();
    }
    restorer.finish().unwrap()
}
