//! The replicated state machine: commands in, replies and events out.
//!
//! ```text
//!            Command ──► apply ──► Applied: error, body, events, what became of a session
//!   request's body ──► read  ──► ReadOutcome: error, body, which watch
//!            snapshot_chunk ──► bytes ──► Restorer ──► the same state machine
//! ```
//!
//! Owns the tree, its access lists and quotas, the sessions and their ephemeral nodes. Does no IO, reads no clock, knows
//! no connection: what it becomes depends on the commands alone, so members that apply the same ones are equal, which
//! [`StateMachine::digest`] shows. What it keeps at all times: an ephemeral node exists as long as its session does
//! (it goes in the same transaction); a write that fails, or a multi of which a part fails, leaves no trace but its
//! transaction number; behaviour that clients see is ZooKeeper 3.8's.

mod access;
mod acl_table;
mod applied;
mod arena;
mod capture;
mod hash;
mod index;
mod name;
mod operation;
mod owners;
mod quota;
mod read;
mod restore;
mod sessions;
mod snapshot;
mod sweep;
#[cfg(test)]
mod tests;
mod tree;
mod undo;
mod write;

pub use access::permits;
pub use applied::{Applied, RefusedAttach, RefusedClose, SessionChange, TreeEvent};
pub use operation::asks_for_time_to_live;
pub use read::{ReadOutcome, WatchKind};
pub use restore::{Restorer, StateError};
pub use sessions::Session;
pub use snapshot::SnapshotStart;
pub use sweep::Sweep;

use crate::{
    command::{Action, Command},
    observe::Digest,
    types::{ConnectionKey, SessionId, Zxid},
};
use access::Caller;
use hash::mix;
use sessions::Sessions;
use sillon_protocol::zookeeper::{Acl, ErrorCode, Identity, OpCode, Stat, acl::permission};
use std::sync::Arc;
use tree::Tree;
use write::Context;

/// Where clients look for the members of the ensemble.
pub const CONFIGURATION: &str = "/zookeeper/config";

/// What is replicated.
#[derive(Debug)]
pub struct StateMachine {
    applied: Zxid,
    ensemble: Option<u128>,
    tree: Tree,
    sessions: Sessions,
    snapshot: Option<snapshot::Stage>,
}

/// A node as it is.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// What clients see of it besides its data.
    pub stat: Stat,
    /// Its access list.
    pub acl: &'a Arc<[Acl]>,
    /// Its data; null is not the same as empty.
    pub data: Option<&'a [u8]>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Nodes, the root and the system's own included. ZooKeeper's `znode_count` is one more: it counts the root twice.
    pub nodes: u64,
    /// Ephemeral nodes.
    pub ephemerals: u64,
    /// Characters of all paths and bytes of all data: ZooKeeper's `approximate_data_size`.
    pub data_bytes: u64,
    /// Sessions.
    pub sessions: u64,
}

impl Default for StateMachine {
    fn default() -> StateMachine {
        StateMachine::new()
    }
}

impl StateMachine {
    /// As it is before the first command: the root, `/zookeeper`, and `config` and `quota` in it.
    pub fn new() -> StateMachine {
        StateMachine::assemble(Zxid(0), None, Tree::new(), Sessions::default())
    }

    fn assemble(applied: Zxid, ensemble: Option<u128>, tree: Tree, sessions: Sessions) -> StateMachine {
        StateMachine { applied, ensemble, tree, sessions, snapshot: None }
    }

    /// The last transaction that was applied; 0 before the first.
    pub fn applied(&self) -> Zxid {
        self.applied
    }

    /// The ensemble's name, once it has one.
    pub fn ensemble(&self) -> Option<u128> {
        self.ensemble
    }

    /// Applies a command; `None` is an entry that says nothing. The reply's body is built only if it is wanted.
    ///
    /// # Panics
    /// If the transaction does not come after the last one: entries would be lost or repeated.
    pub fn apply(&mut self, zxid: Zxid, command: Option<&Command>, want_reply: bool) -> Applied {
        assert!(zxid > self.applied, "transaction {zxid} does not come after {}", self.applied);
        self.applied = zxid;
        let mut applied = Applied { zxid, error: 0, body: None, events: Vec::new(), session: None };
        let Some(command) = command else { return applied };
        let result = self.act(command, want_reply, &mut applied);
        applied.error = result.map_or_else(ErrorCode::number, |()| 0);
        assert!(applied.error == 0 || applied.events.is_empty(), "what failed has changed nothing");
        applied
    }

    fn act(&mut self, command: &Command, want_reply: bool, applied: &mut Applied) -> Result<(), ErrorCode> {
        match &command.action {
            Action::Write { session, connection, identities, operation, body } => {
                self.sessions.check(*session, *connection)?;
                let context = Context {
                    zxid: applied.zxid.0,
                    time_ms: command.time_ms,
                    session: *session,
                    caller: Caller::Pairs(identities),
                };
                self.write(&context, *operation, body, want_reply, applied)
            }
            Action::OpenSession { session, password, timeout_ms, connection } => {
                let opened =
                    Session { timeout_ms: *timeout_ms, password: *password, connection: *connection };
                self.open_session(*session, opened, applied)
            }
            Action::AttachSession { session, password, timeout_ms, connection } => {
                self.attach_session(*session, password, *timeout_ms, *connection, applied)
            }
            Action::CloseSession { session, connection } => {
                self.close_session(*session, Some(*connection), applied)
            }
            Action::ExpireSession { session } => self.close_session(*session, None, applied),
            Action::Sweep { path, seen_zxid } => {
                let sweep = Sweep { path: path.clone(), seen_zxid: *seen_zxid };
                self.tree.sweep(&sweep, applied.zxid.0, command.time_ms, &mut applied.events)
            }
            Action::NameEnsemble { ensemble } => {
                self.ensemble.get_or_insert(*ensemble);
                Ok(())
            }
            Action::DescribeEnsemble { members } => {
                let id = self.tree.find(CONFIGURATION).ok_or(ErrorCode::NoNode)?;
                let Stat { version, mzxid, .. } = self.tree.stat(id);
                // ZooKeeper leaves the node's numbers as they are: they would be those of a reconfiguration.
                self.tree.set_data(id, Some(members.as_bytes()), version, mzxid, command.time_ms);
                Ok(())
            }
        }
    }

    fn write(
        &mut self,
        context: &Context<'_>,
        operation: i32,
        body: &[u8],
        want_reply: bool,
        applied: &mut Applied,
    ) -> Result<(), ErrorCode> {
        match OpCode::from_number(operation).ok_or(ErrorCode::Unimplemented)? {
            OpCode::Multi => {
                let operations = operation::read_multi(body)?;
                applied.body = self.tree.perform_all(context, &operations, &mut applied.events, want_reply);
            }
            code => {
                let operation = operation::read_single(code, body)?;
                let reply = self.tree.perform(context, &operation, &mut applied.events)?;
                applied.body = if want_reply { reply.body() } else { None };
            }
        }
        Ok(())
    }

    fn open_session(
        &mut self,
        id: SessionId,
        opened: Session,
        applied: &mut Applied,
    ) -> Result<(), ErrorCode> {
        if self.sessions.get(id).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        self.sessions.put(id, opened);
        applied.session = Some(SessionChange::Opened { session: id });
        Ok(())
    }

    fn attach_session(
        &mut self,
        id: SessionId,
        password: &[u8],
        timeout_ms: i32,
        connection: ConnectionKey,
        applied: &mut Applied,
    ) -> Result<(), ErrorCode> {
        let refused = match self.sessions.get(id) {
            None => RefusedAttach::Unknown,
            Some(session) if session.password != password => {
                RefusedAttach::WrongPassword { connection: session.connection }
            }
            Some(session) => {
                let (attached, from) = (Session { timeout_ms, connection, ..*session }, session.connection);
                self.sessions.put(id, attached);
                applied.session = Some(SessionChange::Attached { session: id, timeout_ms, from });
                return Ok(());
            }
        };
        applied.session = Some(SessionChange::AttachRefused { session: id, reason: refused });
        Err(ErrorCode::SessionExpired)
    }

    /// Ends a session and deletes its ephemeral nodes. Without a connection it has expired.
    fn close_session(
        &mut self,
        id: SessionId,
        connection: Option<ConnectionKey>,
        applied: &mut Applied,
    ) -> Result<(), ErrorCode> {
        let (refused, error) = match self.sessions.get(id) {
            None => (RefusedClose::Unknown, ErrorCode::SessionExpired),
            Some(session) if connection.is_some_and(|connection| connection != session.connection) => {
                (RefusedClose::Moved { connection: session.connection }, ErrorCode::SessionMoved)
            }
            Some(session) => {
                let connection_now = session.connection;
                self.sessions.remove(id);
                for node in self.tree.ephemerals(id) {
                    assert!(self.tree.is_owned_by(node, id), "a session's list holds its own nodes");
                    let path = self.tree.path(node);
                    self.tree.delete_now(node, path, applied.zxid.0, &mut applied.events);
                }
                assert_eq!(
                    self.tree.owners.of_session(id).count,
                    0,
                    "all ephemeral nodes went with the session"
                );
                let expired = connection.is_none();
                applied.session =
                    Some(SessionChange::Closed { session: id, connection: connection_now, expired });
                return Ok(());
            }
        };
        applied.session = Some(SessionChange::CloseRefused { session: id, reason: refused });
        Err(error)
    }

    /// Answers exists, getData, getACL, getChildren, getChildren2, getEphemerals, getAllChildrenNumber or multiRead; any
    /// other operation is Unimplemented.
    pub fn read(
        &self,
        operation: OpCode,
        body: &[u8],
        identities: &[Identity],
        session: SessionId,
    ) -> ReadOutcome {
        self.tree.read(operation, body, identities, session)
    }

    /// The digest of everything that is replicated.
    pub fn digest(&self) -> Digest {
        let ensemble = self.ensemble.map_or(0, |name| mix(5, name as u64, (name >> 64) as u64));
        Digest { tree: self.tree.counts.digest, sessions: self.sessions.digest().wrapping_add(ensemble) }
    }

    /// A session that lives.
    pub fn session(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(session)
    }

    /// All sessions, by number.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter()
    }

    /// The paths of a session's ephemeral nodes, in the order in which they were created.
    pub fn ephemerals(&self, session: SessionId) -> Vec<String> {
        self.tree.ephemerals(session).into_iter().map(|id| self.tree.path(id)).collect()
    }

    /// A node, by its path.
    pub fn node(&self, path: &str) -> Option<NodeView<'_>> {
        let id = self.tree.find(path)?;
        let data = self.tree.arena.node(id).data.as_deref();
        Some(NodeView { stat: self.tree.stat(id), acl: self.tree.acl(id), data })
    }

    /// Whether somebody with these identities may read a node; `None` where there is no such node.
    pub fn may_read(&self, path: &str, identities: &[Identity]) -> Option<bool> {
        let id = self.tree.find(path)?;
        Some(self.tree.require(id, permission::READ, Caller::Identities(identities)).is_ok())
    }

    /// How much there is.
    pub fn statistics(&self) -> Statistics {
        let counts = self.tree.counts;
        Statistics {
            nodes: counts.nodes.into(),
            ephemerals: counts.ephemerals.into(),
            data_bytes: counts.data_bytes,
            sessions: self.sessions.len() as u64,
        }
    }
}
