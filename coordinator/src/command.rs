//! What a log entry says. Owns the commands' form; [`state`](crate::state) decides what they do when they are applied.

use crate::types::{ConnectionKey, MemberId, SessionId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Who waits for the outcome, where somebody does.
    pub origin: Option<Origin>,
    /// The leader's wall clock when it proposed this, in milliseconds since 1970: it fills time stamps, nothing else.
    pub time_ms: i64,
    /// What to do.
    pub action: Action,
}

/// Who asked for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The member that the client is connected to.
    pub member: MemberId,
    /// A random number of that member's process.
    pub incarnation: u64,
    /// The process's number for it, rising.
    pub sequence: u64,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Opens a session on a connection.
    OpenSession {
        /// The new session.
        session: SessionId,
        /// What will prove it.
        password: [u8; 16],
        /// Its timeout, negotiated.
        timeout_ms: i32,
        /// The connection that it begins on.
        connection: ConnectionKey,
    },
    /// Moves a session to another connection.
    AttachSession {
        /// The session.
        session: SessionId,
        /// What proves it: whoever has another is refused, and the session stays where it was.
        password: Vec<u8>,
        /// Its timeout, negotiated anew.
        timeout_ms: i32,
        /// The connection that it goes on with.
        connection: ConnectionKey,
    },
    /// Ends a session because its client asks for it on this connection.
    CloseSession {
        /// The session.
        session: SessionId,
        /// The connection that asks. Refused where the session has moved on to another.
        connection: ConnectionKey,
    },
    /// Ends a session that was silent for too long.
    ExpireSession {
        /// The session.
        session: SessionId,
    },
    /// A client's write: create, create2, createContainer, createTTL, delete, setData, setACL, multi, and check where
    /// somebody sends it alone.
    Write {
        /// The session.
        session: SessionId,
        /// The connection that asks. Refused where the session has moved on to another.
        connection: ConnectionKey,
        /// Who the client has proven to be, `ip` and `world` included.
        identities: Vec<(String, String)>,
        /// The operation's number.
        operation: i32,
        /// The request's body, as the client sent it.
        body: Bytes,
    },
    /// Deletes a container that has lost its last child, or a node whose time to live is over, if that still holds
    /// when this is applied.
    Sweep {
        /// The node.
        path: String,
        /// What was seen of the node: its pzxid for a container, its mzxid for one with a time to live.
        seen_zxid: i64,
    },
    /// Gives the ensemble its name, where it has none.
    NameEnsemble {
        /// A random number.
        ensemble: u128,
    },
    /// Writes who the members are to `/zookeeper/config`, where clients look.
    DescribeEnsemble {
        /// A `server.N` line for each, and the version, as ZooKeeper writes them.
        members: String,
    },
}
