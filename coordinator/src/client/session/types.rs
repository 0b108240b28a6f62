//! What goes into a session and what comes out of it. Owns the types; decides nothing.

use crate::{
    client::{
        error::{ClientError, Loss},
        registry::{WatchId, WatchedThing},
    },
    config::members::HostPort,
    types::{SessionId, Zxid},
};
use sillon_protocol::zookeeper::{EventType, OpCode, WatcherType};
use std::time::Duration;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::client) struct Ticket(pub(in crate::client) u64);

/// What proves a session, for whoever wants to go on with it after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCredentials {
    /// The session.
    pub id: SessionId,
    /// What proves it.
    pub password: Vec<u8>,
}

/// The session's state changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// There is a connection.
    Connected {
        /// To whom.
        server: HostPort,
        /// The session.
        session: SessionId,
        /// Its timeout as negotiated, in milliseconds.
        timeout_ms: u64,
        /// Whether the session went on, with its ephemeral nodes.
        resumed: bool,
    },
    /// The connection is lost. The session lives on, for now.
    Disconnected(Loss),
    /// The session has gone, and with it its ephemeral nodes and watches. This client is over.
    Expired,
    /// An identity was not proven. This client is over.
    AuthFailed,
    /// The client was closed.
    Closed,
}

/// A watched node changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// What happened.
    pub event_type: EventType,
    /// To which node.
    pub path: String,
}

/// What a watch is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Its node, or one below it, changed.
    Changed(WatchedEvent),
    /// Only for watches that stay: the connection was lost and is back, and what happened meanwhile is not told.
    Gap,
}

/// Why a watch tells nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnded {
    /// It has fired, and was for one event.
    #[error("the watch has fired")]
    Fired,
    /// The request that should have set it failed.
    #[error("the watch was not set")]
    NotSet,
    /// It was removed.
    #[error("the watch was removed")]
    Removed,
    /// The session has expired.
    #[error("the session has expired")]
    Expired,
    /// The client is closed, or an identity was not proven.
    #[error("the client is closed")]
    Closed,
}

/// How a session behaves.
#[derive(Clone, Debug)]
pub(in crate::client) struct SessionSettings {
    pub(in crate::client) servers: Vec<HostPort>,
    pub(in crate::client) timeout: Duration,
    pub(in crate::client) credentials: Option<SessionCredentials>,
    pub(in crate::client) max_outstanding: usize,
    pub(in crate::client) backoff_min: Duration,
    pub(in crate::client) backoff_max: Duration,
}

/// What a request does besides what the server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::client) enum Extra {
    Nothing,
    /// It sets a watch, if it succeeds. A read's body ends with the flag that asks for it.
    Watch {
        watch: WatchId,
        thing: WatchedThing,
        path: String,
    },
    /// It removes watches.
    RemoveWatches {
        path: String,
        watcher_type: WatcherType,
    },
    /// It ends the session.
    Close,
}

/// A request that somebody wants to be sent.
#[derive(Clone, Debug)]
pub(in crate::client) struct Request {
    pub(in crate::client) ticket: Ticket,
    pub(in crate::client) operation: OpCode,
    pub(in crate::client) body: Vec<u8>,
    pub(in crate::client) extra: Extra,
}

/// A reply without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::client) struct RawReply {
    pub(in crate::client) zxid: Zxid,
    pub(in crate::client) body: Vec<u8>,
}

/// What is to be done. Connecting and disconnecting concern the one connection there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::client) enum Effect {
    Connect(HostPort),
    Disconnect,
    Complete(Ticket, Result<RawReply, ClientError>),
    Notify(WatchId, Notice),
    EndWatch(WatchId, WatchEnded),
    Session(SessionEvent),
}
