//! A client's session as a pure state machine: no clock, no socket, no task.
//!
//! ```text
//!   submit, prove, close, forget ──►┐            ┌──► Effect::{Connect, Disconnect}   to whoever holds the socket
//!   connected, lost, received    ──►│  Session   │──► Effect::{Complete}              to whoever asked
//!   tick(now)                    ──►┘            └──► Effect::{Notify, EndWatch, Session}
//!                                        │
//!                                        └──► outgoing bytes
//! ```
//! Rules that hold here:
//! * Requests leave in the order in which they were submitted, and replies belong to them in that order.
//! * What was in flight when a connection is lost ends as [`ClientError::ConnectionLoss`], and is never sent again.
//! * What was not sent yet waits for the next connection, at most for a session timeout.
//! * After a reconnect, identities come first, then watches, then requests.
//! * An event is told before any reply that the server sent after it.
//!
//! Owns the session's number and password, who waits for what, and when what is due. Receiving is in `receive`.

mod receive;
#[cfg(test)]
mod tests;
mod types;
#[cfg(test)]
mod world;

pub(super) use types::{Effect, Extra, RawReply, Request, SessionSettings, Ticket};
pub use types::{Notice, SessionCredentials, SessionEvent, WatchEnded, WatchedEvent};

use super::{
    error::{ClientError, Loss},
    observe::{ClientFact, ClientObserver},
    registry::{NOBODYS_WATCH, Registry, WatchId, WatchedThing},
};
use sillon_protocol::zookeeper::{
    AuthRequest, ConnectRequest, Jute, OpCode,
    records::{AUTH_XID, PING_XID, SET_WATCHES_XID},
};
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// No ping is later than this, however long the timeout.
const PING_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// A connection attempt gets at least this long.
const CONNECT_TIMEOUT_MIN: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No connection, until then.
    Waiting { until: Monotonic },
    /// The socket is being connected.
    Connecting { deadline: Monotonic },
    /// The server has been greeted.
    Handshaking { deadline: Monotonic },
    /// The session is there.
    Connected { last_sent: Monotonic, last_heard: Monotonic },
    /// For good.
    Ended(Ending),
}

/// Why a client is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Expired,
    AuthFailed,
    Closed,
}

impl Ending {
    fn error(self) -> ClientError {
        match self {
            Ending::Expired => ClientError::SessionExpired,
            Ending::AuthFailed => ClientError::AuthFailed,
            Ending::Closed => ClientError::Closed,
        }
    }

    fn watch_end(self) -> WatchEnded {
        match self {
            Ending::Expired => WatchEnded::Expired,
            Ending::AuthFailed | Ending::Closed => WatchEnded::Closed,
        }
    }

    fn event(self) -> SessionEvent {
        match self {
            Ending::Expired => SessionEvent::Expired,
            Ending::AuthFailed => SessionEvent::AuthFailed,
            Ending::Closed => SessionEvent::Closed,
        }
    }
}

/// A request that was sent.
#[derive(Debug)]
struct InFlight {
    xid: i32,
    ticket: Ticket,
    operation: OpCode,
    extra: Extra,
    /// It sets no watch on the server, because one that stays tells all that this one would.
    covered: bool,
}

/// An identity that is proven on every connection.
#[derive(Debug)]
struct Proof {
    scheme: String,
    proof: Vec<u8>,
    /// Who waits for it to be accepted for the first time.
    waiting: Option<Ticket>,
}

/// A source of random numbers.
pub(super) type Random = Box<dyn FnMut() -> u64 + Send>;

pub(super) struct Session {
    settings: SessionSettings,
    random: Random,
    observer: Option<Arc<dyn ClientObserver>>,
    state: State,
    credentials: Option<SessionCredentials>,
    timeout: Duration,
    last_zxid: i64,
    next_xid: i32,
    /// The server that was tried last, as a place in the list, and how many attempts in a row came to nothing.
    server: usize,
    failures: u32,
    queued: VecDeque<(Monotonic, Request)>,
    in_flight: VecDeque<InFlight>,
    proofs: Vec<Proof>,
    /// Which proofs were sent on this connection and not answered yet.
    proofs_in_flight: VecDeque<usize>,
    registry: Registry,
    /// Persistent watches that are being set.
    setting: BTreeMap<(String, WatchedThing), usize>,
    closing: bool,
    outgoing: Vec<u8>,
    effects: VecDeque<Effect>,
}

impl Session {
    /// A session that connects at the first tick, to a server that chance decides.
    pub(super) fn new(
        mut settings: SessionSettings,
        mut random: Random,
        observer: Option<Arc<dyn ClientObserver>>,
        now: Monotonic,
    ) -> Session {
        assert!(!settings.servers.is_empty(), "a connect string names at least one server");
        for last in (1..settings.servers.len()).rev() {
            settings.servers.swap(last, below(&mut random, last + 1));
        }
        Session {
            state: State::Waiting { until: now },
            credentials: settings.credentials.clone(),
            timeout: settings.timeout,
            server: settings.servers.len() - 1,
            settings,
            random,
            observer,
            last_zxid: 0,
            next_xid: 1,
            failures: 0,
            queued: VecDeque::new(),
            in_flight: VecDeque::new(),
            proofs: Vec::new(),
            proofs_in_flight: VecDeque::new(),
            registry: Registry::default(),
            setting: BTreeMap::new(),
            closing: false,
            outgoing: Vec::new(),
            effects: VecDeque::new(),
        }
    }

    /// What is to be done next.
    pub(super) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Bytes to send on the connection, after those of earlier calls.
    pub(super) fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// What proves the session, once there is one.
    pub(super) fn credentials(&self) -> Option<&SessionCredentials> {
        self.credentials.as_ref()
    }

    /// When to call [`Session::tick`] next.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let deadline = match self.state {
            State::Waiting { until } => until,
            State::Connecting { deadline } | State::Handshaking { deadline } => deadline,
            State::Connected { last_sent, last_heard } => {
                (last_sent + self.ping_interval()).min(last_heard + self.read_timeout())
            }
            State::Ended(_) => return None,
        };
        let oldest = self.queued.front().map(|(submitted, _)| *submitted + self.timeout);
        Some(oldest.map_or(deadline, |oldest| oldest.min(deadline)))
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Monotonic) {
        match self.state {
            State::Waiting { until } if until <= now => self.begin_connecting(now),
            State::Connecting { deadline } | State::Handshaking { deadline } if deadline <= now => {
                let timeout_ms = millis(self.connect_timeout());
                self.lost(now, Loss::ConnectTimedOut { timeout_ms });
            }
            State::Connected { last_heard, .. } if last_heard + self.read_timeout() <= now => {
                let timeout_ms = millis(self.read_timeout());
                self.lost(now, Loss::Silent { timeout_ms });
            }
            State::Connected { last_sent, .. } if last_sent + self.ping_interval() <= now => {
                self.send(now, PING_XID, OpCode::Ping, &[]);
            }
            _ => {}
        }
        while let Some((submitted, _)) = self.queued.front() {
            if *submitted + self.timeout > now {
                break;
            }
            let waited_ms = millis(self.timeout);
            let (_, request) = self.queued.pop_front().expect("the front was there a moment ago");
            self.refuse(request, ClientError::NotConnected { waited_ms });
        }
    }

    /// The socket that [`Effect::Connect`] asked for is there.
    pub(super) fn connected(&mut self, now: Monotonic) {
        let State::Connecting { .. } = self.state else { return };
        let none = [0; 16];
        let credentials = self.credentials.as_ref();
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout_ms: i32::try_from(self.settings.timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: credentials.map_or(0, |credentials| credentials.id.0),
            password: Some(credentials.map_or(&none[..], |credentials| &credentials.password)),
            read_only: Some(false),
        };
        let body = request.to_bytes();
        write_length(body.len(), &mut self.outgoing);
        self.outgoing.extend_from_slice(&body);
        self.state = State::Handshaking { deadline: now + self.connect_timeout() };
    }

    /// The connection is lost, or could not be made.
    pub(super) fn lost(&mut self, now: Monotonic, loss: Loss) {
        let was_connected = match self.state {
            State::Waiting { .. } | State::Ended(_) => return,
            State::Connecting { .. } | State::Handshaking { .. } => false,
            State::Connected { .. } => true,
        };
        self.observe(ClientFact::Lost { loss: &loss, in_flight: self.in_flight.len() });
        self.drop_connection();
        if was_connected {
            self.session_event(SessionEvent::Disconnected(loss));
        }
        if self.closing {
            return self.end(Ending::Closed);
        }
        self.state = State::Waiting { until: now + self.backoff() };
        self.failures = self.failures.saturating_add(1);
    }

    /// Sends a request, at once or with the next connection.
    pub(super) fn submit(&mut self, now: Monotonic, request: Request) {
        if let State::Ended(ending) = self.state {
            return self.refuse(request, ending.error());
        }
        if self.closing {
            return self.refuse(request, ClientError::Closed);
        }
        let is_full = self.queued.len() + self.in_flight.len() >= self.settings.max_outstanding;
        if is_full && request.extra != Extra::Close {
            let limit = self.settings.max_outstanding;
            return self.refuse(request, ClientError::TooManyRequests { limit });
        }
        let is_connected = matches!(self.state, State::Connected { .. });
        if request.extra == Extra::Close {
            self.closing = true;
            if !is_connected {
                self.refuse(request, ClientError::NotConnected { waited_ms: 0 });
                self.drop_connection();
                return self.end(Ending::Closed);
            }
        }
        if is_connected {
            self.send_request(now, request);
        } else {
            self.queued.push_back((now, request));
        }
    }

    /// Proves an identity, on this connection and each that follows.
    pub(super) fn prove(&mut self, now: Monotonic, scheme: String, proof: Vec<u8>, waiting: Option<Ticket>) {
        let refusal = match self.state {
            State::Ended(ending) => Some(ending.error()),
            _ => self.closing.then_some(ClientError::Closed),
        };
        if let Some(error) = refusal {
            self.effects.extend(waiting.map(|ticket| Effect::Complete(ticket, Err(error))));
            return;
        }
        self.proofs.push(Proof { scheme, proof, waiting });
        if let State::Connected { .. } = self.state {
            self.send_proof(now, self.proofs.len() - 1);
        }
    }

    /// Nobody listens to that watch any more. The server is not told.
    pub(super) fn forget(&mut self, watch: WatchId) {
        if self.registry.forget(watch) {
            return;
        }
        // Not set yet: when it is, it belongs to nobody.
        let extras = self.queued.iter_mut().map(|(_, request)| &mut request.extra);
        for extra in extras.chain(self.in_flight.iter_mut().map(|request| &mut request.extra)) {
            match extra {
                Extra::Watch { watch: theirs, .. } if *theirs == watch => *theirs = NOBODYS_WATCH,
                _ => {}
            }
        }
    }

    fn begin_connecting(&mut self, now: Monotonic) {
        self.server = (self.server + 1) % self.settings.servers.len();
        self.state = State::Connecting { deadline: now + self.connect_timeout() };
        let server = self.settings.servers[self.server].clone();
        self.observe(ClientFact::Connecting { server: &server });
        self.effects.push_back(Effect::Connect(server));
    }

    /// How long to wait before the next attempt: at most the shortest time while there are servers that were not tried,
    /// then longer with every round, and never as long as another client.
    fn backoff(&mut self) -> Duration {
        let servers = u32::try_from(self.settings.servers.len()).unwrap_or(u32::MAX);
        let rounds = (self.failures / servers).min(16);
        let longest = (self.settings.backoff_min * (1 << rounds)).min(self.settings.backoff_max);
        let nanos = usize::try_from(longest.as_nanos()).unwrap_or(usize::MAX);
        Duration::from_nanos(below(&mut self.random, nanos.max(1)) as u64)
    }

    /// Everything that belongs to a connection goes; what was in flight has no known outcome.
    fn drop_connection(&mut self) {
        self.outgoing.clear();
        self.proofs_in_flight.clear();
        self.setting.clear();
        for lost in std::mem::take(&mut self.in_flight) {
            if let Extra::Watch { watch, .. } = lost.extra {
                self.effects.push_back(Effect::EndWatch(watch, WatchEnded::NotSet));
            }
            self.effects.push_back(Effect::Complete(lost.ticket, Err(ClientError::ConnectionLoss)));
        }
        self.effects.push_back(Effect::Disconnect);
    }

    /// The client is over.
    fn end(&mut self, ending: Ending) {
        self.state = State::Ended(ending);
        for (_, request) in std::mem::take(&mut self.queued) {
            self.refuse(request, ending.error());
        }
        for ticket in self.proofs.iter_mut().filter_map(|proof| proof.waiting.take()) {
            self.effects.push_back(Effect::Complete(ticket, Err(ending.error())));
        }
        for watch in self.registry.take_all() {
            self.effects.push_back(Effect::EndWatch(watch, ending.watch_end()));
        }
        self.session_event(ending.event());
    }

    /// Answers a request that was never sent.
    fn refuse(&mut self, request: Request, error: ClientError) {
        if let Extra::Watch { watch, .. } = request.extra {
            self.effects.push_back(Effect::EndWatch(watch, WatchEnded::NotSet));
        }
        self.effects.push_back(Effect::Complete(request.ticket, Err(error)));
    }

    fn send_request(&mut self, now: Monotonic, mut request: Request) {
        let mut covered = false;
        if let Extra::Watch { thing, path, .. } = &request.extra {
            if thing.is_persistent() {
                if self.displaces(*thing, path) {
                    let path = path.clone();
                    return self.refuse(request, ClientError::WatchConflict { path });
                }
                *self.setting.entry((path.clone(), *thing)).or_default() += 1;
            } else if self.covers(path) {
                covered = true;
                *request.body.last_mut().expect("a read's body ends with the flag") = 0;
            }
        }
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        self.send(now, xid, request.operation, &request.body);
        let Request { ticket, operation, extra, .. } = request;
        self.in_flight.push_back(InFlight { xid, ticket, operation, extra, covered });
    }

    /// Whether a watch that stays, set or about to be, tells all that a one-shot watch would.
    fn covers(&self, path: &str) -> bool {
        let being_set = |thing| self.setting.contains_key(&(path.to_owned(), thing));
        self.registry.covers(path)
            || being_set(WatchedThing::Persistent)
            || being_set(WatchedThing::PersistentRecursive)
    }

    /// Whether the server would drop a watch of the other persistent kind for this one.
    fn displaces(&self, thing: WatchedThing, path: &str) -> bool {
        let other = match thing {
            WatchedThing::Persistent => WatchedThing::PersistentRecursive,
            _ => WatchedThing::Persistent,
        };
        self.registry.has(other, path) || self.setting.contains_key(&(path.to_owned(), other))
    }

    fn send_proof(&mut self, now: Monotonic, index: usize) {
        let Proof { scheme, proof, .. } = &self.proofs[index];
        let body = AuthRequest { kind: 0, scheme, proof: Some(proof) }.to_bytes();
        self.proofs_in_flight.push_back(index);
        self.send(now, AUTH_XID, OpCode::Auth, &body);
    }

    fn send_watches(&mut self, now: Monotonic) {
        for body in self.registry.set_watches(self.last_zxid) {
            self.send(now, SET_WATCHES_XID, OpCode::SetWatches2, &body);
        }
    }

    fn send(&mut self, now: Monotonic, xid: i32, operation: OpCode, body: &[u8]) {
        let State::Connected { last_sent, .. } = &mut self.state else {
            unreachable!("nothing but the handshake is sent without a session")
        };
        *last_sent = now;
        write_length(8 + body.len(), &mut self.outgoing);
        self.outgoing.extend_from_slice(&xid.to_be_bytes());
        self.outgoing.extend_from_slice(&operation.number().to_be_bytes());
        self.outgoing.extend_from_slice(body);
        self.observe(ClientFact::RequestSent { xid, operation: operation.number(), body });
    }

    fn session_event(&mut self, event: SessionEvent) {
        self.observe(ClientFact::Session(&event));
        self.effects.push_back(Effect::Session(event));
    }

    fn observe(&self, fact: ClientFact<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(fact);
        }
    }

    fn ping_interval(&self) -> Duration {
        (self.timeout / 3).min(PING_INTERVAL_MAX)
    }

    fn read_timeout(&self) -> Duration {
        self.timeout * 2 / 3
    }

    fn connect_timeout(&self) -> Duration {
        let servers = u32::try_from(self.settings.servers.len()).unwrap_or(u32::MAX);
        (self.timeout * 2 / 3 / servers).max(CONNECT_TIMEOUT_MIN)
    }
}

/// A random number below a limit.
fn below(random: &mut Random, limit: usize) -> usize {
    let limit = u64::try_from(limit).expect("a size has at most 64 bits");
    usize::try_from(random() % limit).expect("it is below a size")
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    let length = i32::try_from(length).expect("nothing of more than 2 GiB is ever sent");
    out.extend_from_slice(&length.to_be_bytes());
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
