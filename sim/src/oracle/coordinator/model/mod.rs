//! A pure model of ZooKeeper's tree, written from its rules alone: it shares no line with the coordinator.
//!
//! Takes one transaction after the other and keeps what each node was at every transaction, so that any read can be
//! compared with the state that it claims to have seen. Owns the rules and the versions; judges nothing.

mod access;
mod apply;
pub mod operation;
#[cfg(test)]
mod tests;
pub mod versions;

pub use apply::{Done, Outcome};
pub use operation::Operation;
pub use versions::{Change, Kind, Node};

use sillon_coordinator::{
    command::{Action, Command},
    types::ConnectionKey,
};
use sillon_protocol::zookeeper::ErrorCode;
use std::collections::BTreeMap;
use versions::Versions;

/// A session that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub password: Vec<u8>,
    pub timeout_ms: i32,
    pub connection: ConnectionKey,
}

/// The tree and the sessions, at every transaction so far.
#[derive(Debug)]
pub struct Model {
    /// Whether nodes with a time to live are offered (`zookeeper.extendedTypesEnabled`).
    pub ttl_nodes: bool,
    pub tree: Versions,
    pub sessions: BTreeMap<i64, Session>,
    /// Each session that has ended, and by which transaction.
    pub ended: BTreeMap<i64, i64>,
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A client's write: what it asked for, and what it is to be told.
    Write { session: i64, operation: Operation, outcome: Outcome },
    /// A session began.
    Opened { session: i64 },
    /// A session goes on with another connection.
    Attached { session: i64 },
    /// A session ended, and so many ephemeral nodes with it.
    Ended { session: i64, ephemerals: usize, expired: bool },
    /// A node that nobody needs was removed.
    Swept,
    /// Nothing, and it must not have told a success.
    Refused { why: &'static str },
    /// Nothing.
    Nothing,
}

impl Model {
    /// What a fresh ensemble holds.
    pub fn new(ttl_nodes: bool) -> Model {
        Model { ttl_nodes, tree: Versions::fresh(), sessions: BTreeMap::new(), ended: BTreeMap::new() }
    }

    /// Applies the command of the next transaction.
    pub fn apply(&mut self, zxid: i64, command: &Command) -> Effect {
        self.tree.begin(zxid, command.time_ms);
        let effect = self.act(&command.action);
        self.tree.commit();
        effect
    }

    /// A transaction without a command.
    pub fn skip(&mut self, zxid: i64) {
        self.tree.begin(zxid, 0);
        self.tree.commit();
    }

    fn act(&mut self, action: &Action) -> Effect {
        match action {
            Action::OpenSession { session, password, timeout_ms, connection } => {
                if self.sessions.contains_key(&session.0) || self.ended.contains_key(&session.0) {
                    return Effect::Refused { why: "there was a session of that number before" };
                }
                let opened =
                    Session { password: password.to_vec(), timeout_ms: *timeout_ms, connection: *connection };
                self.sessions.insert(session.0, opened);
                Effect::Opened { session: session.0 }
            }
            Action::AttachSession { session, password, timeout_ms, connection } => {
                match self.sessions.get_mut(&session.0) {
                    None => Effect::Refused { why: "the session does not live" },
                    Some(known) if known.password != *password => {
                        Effect::Refused { why: "the password is another" }
                    }
                    Some(known) => {
                        known.timeout_ms = *timeout_ms;
                        known.connection = *connection;
                        Effect::Attached { session: session.0 }
                    }
                }
            }
            Action::CloseSession { session, connection } => match self.sessions.get(&session.0) {
                None => Effect::Refused { why: "the session has ended" },
                Some(known) if known.connection != *connection => {
                    Effect::Refused { why: "the session has moved to another connection" }
                }
                Some(_) => self.end(session.0, false),
            },
            Action::ExpireSession { session } => match self.sessions.contains_key(&session.0) {
                true => self.end(session.0, true),
                false => Effect::Refused { why: "the session has ended" },
            },
            Action::Write { session, connection, identities, operation, body } => {
                self.write(session.0, *connection, identities, *operation, body)
            }
            Action::Sweep { path, seen_zxid } => self.sweep(path, *seen_zxid),
            Action::NameEnsemble { .. } | Action::DescribeEnsemble { .. } => Effect::Nothing,
        }
    }

    /// Ends a session, and with it its ephemeral nodes, all in one transaction.
    fn end(&mut self, session: i64, expired: bool) -> Effect {
        self.sessions.remove(&session);
        let ephemerals = self.tree.owned_by(session);
        for path in &ephemerals {
            self.tree.remove(path);
        }
        self.ended.insert(session, self.tree.zxid());
        Effect::Ended { session, ephemerals: ephemerals.len(), expired }
    }

    fn write(
        &mut self,
        session: i64,
        connection: ConnectionKey,
        identities: &[(String, String)],
        number: i32,
        body: &[u8],
    ) -> Effect {
        let Some(operation) = Operation::decode(number, body) else {
            return Effect::Refused { why: "the body of the request cannot be read" };
        };
        let refusal = match self.sessions.get(&session) {
            None => Some(ErrorCode::SessionExpired),
            Some(known) if known.connection != connection => Some(ErrorCode::SessionMoved),
            Some(_) => None,
        };
        let outcome = match refusal {
            Some(error) => Outcome::Refused(error.number()),
            None => self.run(session, identities, &operation),
        };
        Effect::Write { session, operation, outcome }
    }

    /// Removes a container that lost its last child, or a node whose time is over, if nothing happened to it since.
    fn sweep(&mut self, path: &str, seen_zxid: i64) -> Effect {
        let now_ms = self.tree.time_ms();
        let due = self.tree.get(path).is_some_and(|node| {
            node.children == 0
                && match node.kind {
                    Kind::Container => node.creates > 0 && node.pzxid == seen_zxid,
                    Kind::Ttl { ttl_ms } => {
                        node.mzxid == seen_zxid && now_ms.saturating_sub(node.mtime) > ttl_ms
                    }
                    Kind::Persistent | Kind::Ephemeral { .. } => false,
                }
        });
        if !due {
            return Effect::Nothing;
        }
        self.tree.remove(path);
        Effect::Swept
    }
}
