//! One connection of a session client to one member, with a session on it: requests in order, replies and events as
//! they come, pings where nothing else is said. Owns the connection and what the oracle is told of it; decides nothing
//! about sessions, and never repeats a request.

use super::{Shared, watch_book::WatchBook, wire};
use crate::oracle::coordinator::{ClientId, CoordinatorEvent, OperationId, Outcome, Request};
use sillon_protocol::zookeeper::{
    ConnectRequest, ConnectResponse, ErrorCode, EventType, Jute, OpCode, Reader, ReplyHeader, RequestHeader,
    records::{EVENT_XID, PING_XID, SET_WATCHES_XID},
};
use sillon_runtime::{Monotonic, ReadHalf, Runtime, WriteHalf};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, oneshot},
};

/// The longest frame that is taken: far beyond what a workload's tree gives.
const FRAME_MAX_BYTES: i32 = 8 << 20;

/// What a client asks for when it connects.
#[derive(Clone, Debug)]
pub(super) struct Handshake {
    pub session: i64,
    pub password: Vec<u8>,
    pub timeout: Duration,
    pub last_zxid: i64,
    /// What is to be watched again.
    pub watches: Arc<Mutex<WatchBook>>,
}

/// What a member gave.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub session: i64,
    pub password: Vec<u8>,
    pub timeout_ms: i32,
}

/// How a try to connect ended.
pub(super) enum Connecting<T> {
    Connected(T),
    /// The session has gone.
    Refused,
    /// No connection, or no answer.
    Failed,
}

/// Who connects to whom.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub client: ClientId,
    pub member: u32,
    pub host: String,
    pub port: u16,
}

/// A connection that has a session. Dropping it closes the connection.
pub(super) struct Link {
    state: Arc<State>,
    runtime: Runtime,
    frames: mpsc::UnboundedSender<Vec<u8>>,
    events: mpsc::UnboundedReceiver<(EventType, String)>,
}

/// What the tasks of a connection share.
struct State {
    client: ClientId,
    connection: u64,
    session: i64,
    shared: Arc<Shared>,
    watches: Arc<Mutex<WatchBook>>,
    inner: Mutex<Inner>,
    /// Told when the connection is to end.
    ending: tokio::sync::Notify,
}

struct Inner {
    next_xid: i32,
    waiting: BTreeMap<i32, Waiting>,
    last_zxid: i64,
    is_over: bool,
    is_silent: bool,
    last_sent: Monotonic,
    last_heard: Monotonic,
}

struct Waiting {
    operation: OperationId,
    request: Request,
    outcome: oneshot::Sender<Outcome>,
}

impl Link {
    /// Connects, and shakes hands.
    pub async fn connect(
        runtime: &Runtime,
        shared: &Arc<Shared>,
        ends: &Ends,
        handshake: &Handshake,
    ) -> Connecting<(Link, Accepted)> {
        let shaking = runtime.timeout(handshake.timeout, shake_hands(runtime, ends, handshake)).await;
        let Ok(Ok((read, write, accepted))) = shaking else { return Connecting::Failed };
        let client = ends.client;
        if accepted.timeout_ms <= 0 || accepted.session == 0 {
            (shared.events)(CoordinatorEvent::Refused { client, session: handshake.session });
            return Connecting::Refused;
        }
        let (session, timeout_ms) = (accepted.session, accepted.timeout_ms);
        let connection = shared.next_connection();
        (shared.events)(CoordinatorEvent::Connected {
            client,
            session,
            connection,
            member: ends.member,
            timeout_ms,
        });
        let now = runtime.now();
        let state = Arc::new(State {
            client,
            connection,
            session,
            shared: shared.clone(),
            watches: handshake.watches.clone(),
            inner: Mutex::new(Inner {
                next_xid: 1,
                waiting: BTreeMap::new(),
                last_zxid: handshake.last_zxid,
                is_over: false,
                is_silent: false,
                last_sent: now,
                last_heard: now,
            }),
            ending: tokio::sync::Notify::new(),
        });
        let (frames, to_write) = mpsc::unbounded_channel();
        state.watch_again(&frames, handshake.last_zxid);
        let (to_tell, events) = mpsc::unbounded_channel();
        runtime.spawn("session-write", write_frames(write, to_write, state.clone()));
        runtime.spawn("session-read", read_frames(runtime.clone(), read, to_tell, state.clone()));
        let timeout = Duration::from_millis(timeout_ms.unsigned_abs().into());
        runtime.spawn("session-ping", ping(runtime.clone(), timeout, frames.clone(), state.clone()));
        Connecting::Connected((Link { state, runtime: runtime.clone(), frames, events }, accepted))
    }

    /// Whether the connection still stands, as far as is known.
    pub fn is_open(&self) -> bool {
        !self.state.lock().is_over
    }

    /// The last transaction that was seen on it, or before it.
    pub fn last_zxid(&self) -> i64 {
        self.state.lock().last_zxid
    }

    /// Sends a request. Its outcome comes when the reply does, or when the connection is lost.
    pub fn begin(&self, request: Request) -> oneshot::Receiver<Outcome> {
        let (sender, outcome) = oneshot::channel();
        let state = &self.state;
        let (client, connection, session) = (state.client, state.connection, state.session);
        let operation = state.shared.next_operation();
        let tell = |event| (state.shared.events)(event);
        tell(CoordinatorEvent::Invoked { client, operation, session, request: request.clone() });
        let sent = {
            let mut inner = state.lock();
            let xid = inner.next_xid;
            let frame = wire::encode(xid, &request);
            // The writer is gone only where the connection is over.
            (!inner.is_over && self.frames.send(frame).is_ok()).then(|| {
                inner.next_xid += 1;
                inner.last_sent = self.runtime.now();
                xid
            })
        };
        match sent {
            Some(xid) => {
                state.lock().waiting.insert(xid, Waiting { operation, request, outcome: sender });
                tell(CoordinatorEvent::Sent { client, connection, xid });
            }
            None => state.complete(operation, Outcome::Unknown, sender),
        }
        outcome
    }

    /// Pings are left out from now on, or sent again.
    pub fn set_silent(&self, is_silent: bool) {
        let mut inner = self.state.lock();
        inner.is_silent = is_silent;
        // What was not heard meanwhile is no reason to give the connection up.
        inner.last_heard = self.runtime.now();
    }

    /// The next event of a watch that has arrived, or that arrives within `patience`.
    pub async fn next_event(&mut self, patience: Duration) -> Option<(EventType, String)> {
        self.runtime.timeout(patience, self.events.recv()).await.ok().flatten()
    }

    /// Forgets the events that have arrived.
    pub fn skip_events(&mut self) {
        while self.events.try_recv().is_ok() {}
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.state.end();
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: CoordinatorEvent) {
        (self.shared.events)(event);
    }

    fn book(&self) -> MutexGuard<'_, WatchBook> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the watches that the client knows of set on this connection too, before anything else is asked.
    fn watch_again(&self, frames: &mpsc::UnboundedSender<Vec<u8>>, last_zxid: i64) {
        let book = self.book();
        let Some(request) = book.again(last_zxid) else { return };
        let (xid, operation) = (SET_WATCHES_XID, OpCode::SetWatches2.number());
        let mut frame = RequestHeader { xid, operation }.to_bytes();
        request.write(&mut frame);
        drop(book);
        if frames.send(frame).is_ok() {
            let (client, connection) = (self.client, self.connection);
            self.tell(CoordinatorEvent::Sent { client, connection, xid });
        }
    }

    fn complete(&self, operation: OperationId, outcome: Outcome, to: oneshot::Sender<Outcome>) {
        let client = self.client;
        self.tell(CoordinatorEvent::Completed { client, operation, outcome: outcome.clone() });
        // Whoever asked may have gone.
        let _ = to.send(outcome);
    }

    /// The connection is over: nobody knows what came of what was under way.
    fn end(&self) {
        let waiting = {
            let mut inner = self.lock();
            if inner.is_over {
                return;
            }
            inner.is_over = true;
            std::mem::take(&mut inner.waiting)
        };
        self.ending.notify_waiters();
        self.tell(CoordinatorEvent::Disconnected { client: self.client, connection: self.connection });
        for waiting in waiting.into_values() {
            self.complete(waiting.operation, Outcome::Unknown, waiting.outcome);
        }
    }

    fn on_frame(&self, frame: &[u8]) -> Option<(EventType, String)> {
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::read(&mut reader).expect("a member's frame begins with a reply header");
        if header.xid == EVENT_XID {
            let event = wire::event(&mut reader).expect("a member's event can be read")?;
            let zxid_before = self.lock().last_zxid;
            self.book().fired(event.0, &event.1);
            self.tell(CoordinatorEvent::WatchEvent {
                client: self.client,
                session: self.session,
                connection: self.connection,
                zxid_before,
                event: event.clone(),
            });
            return Some(event);
        }
        let (client, connection) = (self.client, self.connection);
        let (xid, zxid, error) = (header.xid, header.zxid, header.error);
        self.tell(CoordinatorEvent::Replied { client, connection, xid, zxid, error });
        let waiting = {
            let mut inner = self.lock();
            inner.last_zxid = inner.last_zxid.max(zxid);
            inner.waiting.remove(&xid)
        };
        if let Some(Waiting { operation, request, outcome: to }) = waiting {
            let outcome = match error {
                0 => {
                    let response = wire::decode(&request, &mut reader);
                    let response = response.unwrap_or_else(|error| {
                        panic!("the reply to {request:?} cannot be read: {error}: {frame:?}")
                    });
                    self.book().answered(&request, Ok(&response));
                    Outcome::Ok { zxid, response }
                }
                error => {
                    let code = ErrorCode::from_number(error).unwrap_or(ErrorCode::Other(error));
                    self.book().answered(&request, Err(code));
                    Outcome::Failed { zxid, error }
                }
            };
            self.complete(operation, outcome, to);
        } else {
            assert!([PING_XID, SET_WATCHES_XID].contains(&xid), "reply {xid} answers no request");
        }
        None
    }
}

type Halves = (Box<dyn ReadHalf>, Box<dyn WriteHalf>);

async fn shake_hands(
    runtime: &Runtime,
    ends: &Ends,
    handshake: &Handshake,
) -> io::Result<(Box<dyn ReadHalf>, Box<dyn WriteHalf>, Accepted)> {
    let stream = runtime.connect(&ends.host, ends.port).await?;
    let (mut read, mut write): Halves = stream.into_split();
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: handshake.last_zxid,
        timeout_ms: i32::try_from(handshake.timeout.as_millis()).unwrap_or(i32::MAX),
        session_id: handshake.session,
        password: Some(&handshake.password),
        read_only: Some(false),
    };
    write_frame(&mut write, &request.to_bytes()).await?;
    let frame = read_frame(&mut read).await?;
    let response = ConnectResponse::read(&mut Reader::new(&frame)).expect("a member's handshake can be read");
    let accepted = Accepted {
        session: response.session_id,
        password: response.password.unwrap_or_default().to_vec(),
        timeout_ms: response.timeout_ms,
    };
    Ok((read, write, accepted))
}

async fn write_frame(write: &mut Box<dyn WriteHalf>, frame: &[u8]) -> io::Result<()> {
    let length = i32::try_from(frame.len()).map_err(io::Error::other)?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(frame);
    write.write_all(&bytes).await
}

async fn read_frame(read: &mut Box<dyn ReadHalf>) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    read.read_exact(&mut length).await?;
    let length = i32::from_be_bytes(length);
    assert!((0..=FRAME_MAX_BYTES).contains(&length), "a member's frame has {length} bytes");
    let mut frame = vec![0; length.unsigned_abs() as usize];
    read.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn write_frames(
    mut write: Box<dyn WriteHalf>,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
    state: Arc<State>,
) {
    while !state.lock().is_over {
        let frame = tokio::select! {
            biased;
            () = state.ending.notified() => break,
            frame = frames.recv() => frame,
        };
        let Some(frame) = frame else { break };
        let written = tokio::select! {
            biased;
            () = state.ending.notified() => break,
            written = write_frame(&mut write, &frame) => written,
        };
        if written.is_err() {
            break;
        }
    }
    state.end();
}

async fn read_frames(
    runtime: Runtime,
    mut read: Box<dyn ReadHalf>,
    events: mpsc::UnboundedSender<(EventType, String)>,
    state: Arc<State>,
) {
    while !state.lock().is_over {
        let frame = tokio::select! {
            biased;
            () = state.ending.notified() => break,
            frame = read_frame(&mut read) => frame,
        };
        let Ok(frame) = frame else { break };
        state.lock().last_heard = runtime.now();
        if let Some(event) = state.on_frame(&frame) {
            // Whoever waits for events may have gone.
            let _ = events.send(event);
        }
    }
    state.end();
}

/// Pings after a third of the timeout without anything to say, and gives the connection up after two thirds without
/// anything heard.
async fn ping(
    runtime: Runtime,
    timeout: Duration,
    frames: mpsc::UnboundedSender<Vec<u8>>,
    state: Arc<State>,
) {
    let (idle, patience) = (timeout / 3, timeout * 2 / 3);
    loop {
        let wake = {
            let inner = state.lock();
            let (due, lost) = (inner.last_sent + idle, inner.last_heard + patience);
            match (inner.is_over, inner.is_silent) {
                (true, _) => break,
                (false, true) => due,
                (false, false) => due.min(lost),
            }
        };
        tokio::select! {
            biased;
            () = state.ending.notified() => break,
            () = runtime.sleep_until(wake) => {}
        }
        let now = runtime.now();
        let is_due = {
            let mut inner = state.lock();
            if !inner.is_silent && now >= inner.last_heard + patience {
                break;
            }
            let is_due = now >= inner.last_sent + idle;
            if is_due {
                inner.last_sent = now;
            }
            is_due && !inner.is_silent
        };
        let frame = RequestHeader { xid: PING_XID, operation: OpCode::Ping.number() }.to_bytes();
        if is_due && frames.send(frame).is_ok() {
            let (client, connection) = (state.client, state.connection);
            state.tell(CoordinatorEvent::Sent { client, connection, xid: PING_XID });
        }
    }
    state.end();
}
