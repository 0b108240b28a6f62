//! The world of the sessions that are tested: a clock, and a server that the scenario plays. Owns no expectation.

use super::*;
use crate::{config::members::HostPort, types::Zxid};
use sillon_protocol::zookeeper::{
    ConnectResponse, ErrorCode, EventType, PathWatchRequest, Reader, ReplyHeader, RequestHeader,
    WatcherEvent, records::EVENT_XID,
};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const PASSWORD: [u8; 16] = [7; 16];

/// A session with its world: a clock and one connection, which the scenario plays.
pub(super) struct World {
    pub(super) session: Session,
    pub(super) now: Monotonic,
    pub(super) tickets: u64,
}

/// A frame that the session sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) xid: i32,
    pub(super) operation: OpCode,
    pub(super) body: Vec<u8>,
}

impl World {
    pub(super) fn new(servers: usize) -> World {
        let host = |number| HostPort { host: format!("n{number}"), port: 2181 };
        let settings = SessionSettings {
            servers: (0..servers).map(host).collect(),
            timeout: 6 * SECOND,
            credentials: None,
            max_outstanding: 4,
            backoff_min: Duration::from_millis(50),
            backoff_max: SECOND,
        };
        let now = Monotonic(1);
        let mut state = 12345u64;
        let random = Box::new(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 16
        });
        World { session: Session::new(settings, random, None, now), now, tickets: 0 }
    }

    /// A session that is connected, as session 5.
    pub(super) fn connected() -> World {
        let mut world = World::new(1);
        world.connect();
        world.effects();
        world
    }

    /// Waits for the attempt to connect, and lets it and the handshake succeed. Gives what the session sent after it.
    pub(super) fn connect(&mut self) -> Vec<Sent> {
        self.await_attempt();
        self.session.connected(self.now);
        self.session.take_outgoing();
        self.welcome(5, 6000);
        self.sent()
    }

    /// Moves the clock from deadline to deadline until a connection is attempted; gives to whom.
    pub(super) fn await_attempt(&mut self) -> String {
        for _ in 0..10 {
            self.session.tick(self.now);
            for effect in self.effects() {
                if let Effect::Connect(server) = effect {
                    return server.host;
                }
            }
            self.now = self.session.deadline().expect("it goes on");
        }
        panic!("no attempt");
    }

    pub(super) fn pass(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.session.tick(self.now);
    }

    pub(super) fn welcome(&mut self, session_id: i64, timeout_ms: i32) {
        let password = Some(&PASSWORD[..]);
        let mut frame = ConnectResponse { protocol_version: 0, timeout_ms, session_id, password }.to_bytes();
        frame.push(0);
        self.session.received(self.now, &frame);
    }

    pub(super) fn answer(&mut self, xid: i32, zxid: i64, error: Option<ErrorCode>, body: &[u8]) {
        let mut frame = ReplyHeader { xid, zxid, error: error.map_or(0, ErrorCode::number) }.to_bytes();
        frame.extend_from_slice(body);
        self.session.received(self.now, &frame);
    }

    pub(super) fn event(&mut self, event_type: EventType, path: &str) {
        let body = WatcherEvent { event_type: event_type.number(), state: 3, path }.to_bytes();
        self.answer(EVENT_XID, -1, None, &body);
    }

    pub(super) fn submit(&mut self, operation: OpCode, body: Vec<u8>, extra: Extra) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.session.submit(self.now, Request { ticket, operation, body, extra });
        ticket
    }

    pub(super) fn ask(&mut self) -> Ticket {
        self.submit(OpCode::Sync, vec![1, 2], Extra::Nothing)
    }

    pub(super) fn watched(
        &mut self,
        operation: OpCode,
        thing: WatchedThing,
        path: &str,
        watch: u64,
    ) -> Ticket {
        let body = PathWatchRequest { path, watch: true }.to_bytes();
        let extra = Extra::Watch { watch: WatchId(watch), thing, path: path.to_owned() };
        self.submit(operation, body, extra)
    }

    pub(super) fn lose(&mut self) {
        self.session.lost(self.now, Loss::Closed);
    }

    pub(super) fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.session.next_effect()).collect()
    }

    pub(super) fn sent(&mut self) -> Vec<Sent> {
        let bytes = self.session.take_outgoing();
        let mut reader = Reader::new(&bytes);
        let mut sent = Vec::new();
        while !reader.is_empty() {
            let length = i32::read(&mut reader).unwrap();
            let mut frame = Reader::new(reader.take(usize::try_from(length).unwrap()).unwrap());
            let RequestHeader { xid, operation } = RequestHeader::read(&mut frame).unwrap();
            let operation = OpCode::from_number(operation).unwrap();
            sent.push(Sent { xid, operation, body: frame.rest().to_vec() });
        }
        sent
    }
}

pub(super) fn operations(sent: &[Sent]) -> Vec<OpCode> {
    sent.iter().map(|sent| sent.operation).collect()
}

pub(super) fn done(ticket: Ticket, zxid: i64) -> Effect {
    Effect::Complete(ticket, Ok(RawReply { zxid: Zxid(zxid), body: Vec::new() }))
}

pub(super) fn failed(ticket: Ticket, error: ClientError) -> Effect {
    Effect::Complete(ticket, Err(error))
}

pub(super) fn changed(watch: u64, event_type: EventType, path: &str) -> Effect {
    Effect::Notify(WatchId(watch), Notice::Changed(WatchedEvent { event_type, path: path.to_owned() }))
}
