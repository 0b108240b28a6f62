//! What a client tells an observer about itself as it happens, in order. Owns the list of facts; never changes what the
//! client does.

use super::{error::Loss, session::SessionEvent};
use crate::config::members::HostPort;
use sillon_protocol::zookeeper::{ErrorCode, EventType};

/// Listens to a client. Called in the middle of its work: it must be quick and must not call back.
pub trait ClientObserver: Send + Sync + 'static {
    /// Takes note of one fact. Does nothing unless it is written.
    fn observe(&self, fact: ClientFact<'_>) {
        let _ = fact;
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFact<'a> {
    /// A connection is attempted.
    Connecting {
        /// To whom.
        server: &'a HostPort,
    },
    /// A connection is lost, or was not made. What was in flight has no known outcome.
    Lost {
        /// Why.
        loss: &'a Loss,
        /// How many requests were in flight.
        in_flight: usize,
    },
    /// The session's state changed.
    Session(&'a SessionEvent),
    /// A request leaves, pings, proofs of identity and watches that are set again included.
    RequestSent {
        /// Its number.
        xid: i32,
        /// The operation's number.
        operation: i32,
        /// Its body.
        body: &'a [u8],
    },
    /// A reply arrived.
    ReplyReceived {
        /// The request's number.
        xid: i32,
        /// The operation's number.
        operation: i32,
        /// The last transaction that the answer has seen.
        zxid: i64,
        /// The error, where it is one.
        error: Option<ErrorCode>,
        /// Its body.
        body: &'a [u8],
    },
    /// An event arrived.
    EventReceived {
        /// The last transaction that the event has seen, as its header says: servers write -1.
        zxid: i64,
        /// What happened.
        event_type: EventType,
        /// To which node, in the server's tree.
        path: &'a str,
    },
}
