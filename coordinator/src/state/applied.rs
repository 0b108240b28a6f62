//! What applying a command came to. Owns the types that the member's core acts on.

use super::access::permits;
use crate::types::{ConnectionKey, SessionId, Zxid};
use sillon_protocol::zookeeper::{Acl, EventType, Identity, acl::permission};
use std::sync::Arc;

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its transaction.
    pub zxid: Zxid,
    /// 0, or the error for the reply's header. A multi of which an operation failed has 0 here, and says so in its body.
    pub error: i32,
    /// The reply's body, where one was wanted and the reply has one.
    pub body: Option<Vec<u8>>,
    /// What happened to nodes, in order.
    pub events: Vec<TreeEvent>,
    /// What became of a session.
    pub session: Option<SessionChange>,
}

/// Something happened to a node that watches may be set on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEvent {
    /// What.
    pub kind: EventType,
    /// The node.
    pub path: String,
    /// Its access list; that of a deleted node as it was.
    pub acl: Arc<[Acl]>,
}

impl TreeEvent {
    /// Whether somebody with these identities is told: who may not read a node hears nothing of it.
    pub fn is_told_to(&self, identities: &[Identity]) -> bool {
        permits(&self.acl, permission::READ, identities)
    }
}

/// What became of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// It is open.
    Opened {
        /// The session.
        session: SessionId,
    },
    /// It goes on with another connection.
    Attached {
        /// The session.
        session: SessionId,
        /// Its timeout, negotiated anew.
        timeout_ms: i32,
        /// The connection that it leaves.
        from: ConnectionKey,
    },
    /// It stays where it is, if it is.
    AttachRefused {
        /// The session.
        session: SessionId,
        /// Why.
        reason: RefusedAttach,
    },
    /// It has ended, and its ephemeral nodes have gone.
    Closed {
        /// The session.
        session: SessionId,
        /// The connection that it had last.
        connection: ConnectionKey,
        /// Whether it was silent for too long, rather than closed by its client.
        expired: bool,
    },
    /// It did not end.
    CloseRefused {
        /// The session.
        session: SessionId,
        /// Why.
        reason: RefusedClose,
    },
}

/// Why a session was not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedAttach {
    /// There is no such session.
    Unknown,
    /// The password is another.
    WrongPassword {
        /// The connection that the session goes on with. ZooKeeper closes it too.
        connection: ConnectionKey,
    },
}

/// Why a session was not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedClose {
    /// There is no such session.
    Unknown,
    /// It goes on with another connection than the one that asked.
    Moved {
        /// The connection that it goes on with.
        connection: ConnectionKey,
    },
}
