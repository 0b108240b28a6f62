//! One client connection: its session, its identities, its requests in order, and the bytes that wait for it.
//!
//! Owns the order of replies: whatever takes how long, replies leave as requests came. Never touches the tree.

use crate::types::{SessionId, Zxid};
use bytes::Bytes;
use sillon_protocol::zookeeper::{
    Identity, Jute, OpCode, ReplyHeader, WatcherEvent, flags::KeeperState, records::EVENT_XID,
};
use sillon_runtime::Monotonic;
use std::{collections::VecDeque, net::SocketAddr};

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has arrived yet.
    Greeting,
    /// Its session is being opened or moved here.
    Opening {
        /// Whether the client knows of read-only servers, and so expects a byte about it.
        read_only_byte: bool,
    },
    /// It is at work.
    Open,
    /// It ends once everything is sent. Nothing that still arrives counts.
    Closing,
}

/// What a reply needs to know of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub xid: i32,
    pub operation: i32,
    pub received: Monotonic,
}

/// A request whose reply has not been sent.
#[derive(Debug)]
pub(super) struct Queued {
    pub request: Request,
    pub step: Step,
}

/// What a request waits for.
#[derive(Debug)]
pub(super) enum Step {
    /// For its turn: it is answered from the state as it is then.
    Turn { operation: OpCode, body: Bytes },
    /// For its command to be applied.
    Commit { sequence: u64 },
    /// For this member to have applied what was committed when it asked.
    Sync { ticket: u64, body: Bytes },
    /// For its turn, after it waited for that.
    Synced { body: Bytes },
    /// For its turn, with the reply ready.
    Answered(Answer),
}

/// A reply.
#[derive(Debug)]
pub(super) struct Answer {
    pub zxid: i64,
    pub error: i32,
    pub body: Vec<u8>,
    /// Whether the connection ends behind it.
    pub last: bool,
}

/// Times and counts of a connection, for the four-letter words.
#[derive(Clone, Debug, Default)]
pub struct ConnectionReport {
    /// Packets that arrived.
    pub received: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// The last operation's number.
    pub last_operation: Option<i32>,
    /// The last xid.
    pub last_xid: i32,
    /// The last zxid that was sent.
    pub last_zxid: i64,
    /// When the last reply was made.
    pub last_response: Monotonic,
    /// How long the last request took, in milliseconds.
    pub last_latency_ms: u64,
    /// The shortest request, in milliseconds.
    pub minimum_latency_ms: u64,
    /// The longest request, in milliseconds.
    pub maximum_latency_ms: u64,
    /// All requests together, in milliseconds.
    pub total_latency_ms: u64,
    /// How many requests that were.
    pub answered: u64,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub peer: SocketAddr,
    pub accepted: Monotonic,
    pub established_unix_ms: i64,
    pub phase: Phase,
    pub session: Option<SessionId>,
    pub timeout_ms: i32,
    pub identities: Vec<Identity>,
    pub queue: VecDeque<Queued>,
    /// How many of the queue's requests wait for a commit.
    pub commits_waited_for: usize,
    pub last_heard: Monotonic,
    /// Frames that came before the handshake was over.
    pub early_frames: Vec<Bytes>,
    pub out: Vec<u8>,
    pub out_replies: usize,
    pub report: ConnectionReport,
}

impl Connection {
    pub fn new(peer: SocketAddr, now: Monotonic, unix_ms: i64) -> Connection {
        Connection {
            peer,
            accepted: now,
            established_unix_ms: unix_ms,
            phase: Phase::Greeting,
            session: None,
            timeout_ms: 0,
            identities: vec![Identity::new("ip", peer.ip().to_canonical().to_string())],
            queue: VecDeque::new(),
            commits_waited_for: 0,
            last_heard: now,
            early_frames: Vec::new(),
            out: Vec::new(),
            out_replies: 0,
            report: ConnectionReport { minimum_latency_ms: u64::MAX, ..ConnectionReport::default() },
        }
    }

    /// Appends a reply.
    pub fn reply(&mut self, request: &Request, answer: &Answer, now: Monotonic) {
        let header = ReplyHeader { xid: request.xid, zxid: answer.zxid, error: answer.error };
        frame(&mut self.out, |out| {
            header.write(out);
            if answer.error == 0 {
                out.extend_from_slice(&answer.body);
            }
        });
        self.out_replies += 1;
        let report = &mut self.report;
        let latency_ms = u64::try_from((now - request.received).as_millis()).unwrap_or(u64::MAX);
        report.sent += 1;
        report.answered += 1;
        report.last_operation = Some(request.operation);
        report.last_xid = request.xid;
        report.last_zxid = answer.zxid;
        report.last_response = now;
        report.last_latency_ms = latency_ms;
        report.minimum_latency_ms = report.minimum_latency_ms.min(latency_ms);
        report.maximum_latency_ms = report.maximum_latency_ms.max(latency_ms);
        report.total_latency_ms += latency_ms;
    }

    /// Appends a watch event.
    pub fn event(&mut self, event_type: i32, path: &str) {
        let header = ReplyHeader { xid: EVENT_XID, zxid: -1, error: 0 };
        let event = WatcherEvent { event_type, state: KeeperState::SyncConnected.number(), path };
        frame(&mut self.out, |out| {
            header.write(out);
            event.write(out);
        });
        self.report.sent += 1;
    }

    /// The transaction that the next reply from the state itself carries.
    pub fn answer(zxid: Zxid, error: i32, body: Vec<u8>) -> Answer {
        Answer { zxid: zxid.0, error, body, last: false }
    }

    /// The text that answers a four-letter word: no frame, and the connection ends behind it.
    pub fn tell(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.phase = Phase::Closing;
    }
}

/// Appends a frame: four bytes of length, then what `write` appends.
pub(super) fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = i32::try_from(out.len() - start - 4).expect("no reply has more than 2 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
