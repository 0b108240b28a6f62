//! Why a request, a watch or a connection failed. Owns the distinction that counts most: whether a write that failed may
//! have happened.

use crate::types::Zxid;
use sillon_protocol::zookeeper::{ErrorCode, JuteError, OpCode};

/// A request that was not answered as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The server answered with an error: nothing was changed.
    #[error("the server says: {code}")]
    Server {
        /// Which.
        code: ErrorCode,
        /// The last transaction that the answer has seen.
        zxid: Zxid,
    },
    /// A multi failed: nothing was changed.
    #[error("operation {index} of the multi failed: {code}")]
    MultiFailed {
        /// Which operation, counted from 0.
        index: usize,
        /// Why.
        code: ErrorCode,
        /// The number that each operation was answered with: 0 before the one that failed, -2 behind it.
        codes: Vec<i32>,
        /// The last transaction that the answer has seen.
        zxid: Zxid,
    },
    /// The connection was lost before the answer came. Whether a write happened is not known.
    #[error("the connection was lost before the answer came: the outcome is not known")]
    ConnectionLoss,
    /// No connection came about in time. The request was never sent.
    #[error("not connected for {waited_ms} ms: the request was not sent")]
    NotConnected {
        /// How long it waited, in milliseconds.
        waited_ms: u64,
    },
    /// Too many requests wait already. The request was never sent.
    #[error("{limit} requests wait already: the request was not sent")]
    TooManyRequests {
        /// How many may wait.
        limit: usize,
    },
    /// The session has expired. The request was never sent.
    #[error("the session has expired: the request was not sent")]
    SessionExpired,
    /// An identity could not be proven, which ends the client. The request was never sent.
    #[error("the server did not accept the proof of an identity: the request was not sent")]
    AuthFailed,
    /// The client is closed. The request was never sent.
    #[error("the client is closed: the request was not sent")]
    Closed,
    /// Not a path. The request was never sent.
    #[error("\"{path}\" is no path: it has to begin with /")]
    BadPath {
        /// What was given instead.
        path: String,
    },
    /// This client has a persistent watch of the other kind on that node, which the server would drop for this one. The
    /// request was never sent.
    #[error("{path} has a persistent watch of the other kind, which has to be removed first")]
    WatchConflict {
        /// The node, in the server's tree.
        path: String,
    },
    /// The server's answer cannot be read.
    #[error("the answer to {operation:?} cannot be read: {source}")]
    Malformed {
        /// What was asked.
        operation: OpCode,
        /// What is wrong with the answer.
        source: JuteError,
    },
    /// A result in the server's answer that belongs to no operation of the request.
    #[error("the answer to {operation:?} holds a result of operation {found}")]
    WrongResult {
        /// What was asked.
        operation: OpCode,
        /// The operation's number that the result carries.
        found: i32,
    },
}

impl ClientError {
    /// The server's error, where it is one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Server { code, .. } | ClientError::MultiFailed { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the request may have been carried out all the same.
    pub fn outcome_is_unknown(&self) -> bool {
        matches!(
            self,
            ClientError::ConnectionLoss | ClientError::Malformed { .. } | ClientError::WrongResult { .. }
        )
    }
}

/// Why there is no connection, or no longer one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// It could not be made.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// Connecting and the handshake took too long.
    #[error("no session within {timeout_ms} ms")]
    ConnectTimedOut {
        /// The time that was given, in milliseconds.
        timeout_ms: u64,
    },
    /// The server closed it.
    #[error("the server closed the connection")]
    Closed,
    /// It broke.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// Nothing was heard of the server.
    #[error("nothing was heard of the server for {timeout_ms} ms")]
    Silent {
        /// For how long, in milliseconds.
        timeout_ms: u64,
    },
    /// A frame of an impossible length.
    #[error("the server sent a frame of {length} bytes; at most {max} are accepted")]
    FrameLength {
        /// What it says.
        length: i32,
        /// What is accepted.
        max: usize,
    },
    /// A frame that cannot be read.
    #[error("the server sent a frame that cannot be read: {0}")]
    Frame(JuteError),
    /// Replies come in the order of the requests; this one does not belong to the oldest that waits.
    #[error("the server answered request {received}, expected was {expected:?}")]
    WrongXid {
        /// The oldest request's number, `None` where none waits.
        expected: Option<i32>,
        /// The reply's.
        received: i32,
    },
}
