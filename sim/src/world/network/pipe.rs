//! One direction of a connection: what is on its way, what has arrived, and how it ends. Owns the bytes between a
//! writer's kernel and a reader's; which way is open and how long it takes is the network's to say.

use super::{
    ConnectionInfo, Direction, End, Network, NetworkTap,
    ring::{take, window},
};
use crate::{
    decisions::Stream,
    profile::{self, Part},
    world::{
        FaultKind, dead_process, lock,
        timer::{self, Action, TimerKey, now_ns},
    },
};
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::{Arc, Mutex, OnceLock, Weak, atomic::AtomicU64, atomic::Ordering},
    task::{Context, Poll, Waker},
};
use tokio::io::ReadBuf;

/// Something on its way.
struct Segment {
    arrives_ns: u64,
    payload: Payload,
}

enum Payload {
    Data { bytes: usize, checksum: u32 },
    Fin,
    Reset,
}

/// One direction of a connection. Timers, the ends' streams and nobody else keep it alive, so that what was sent
/// arrives even when its sender is gone.
pub(in crate::world) struct Pipe {
    pub(super) info: Arc<ConnectionInfo>,
    pub(super) direction: Direction,
    pub(super) network: Arc<Network>,
    pub(super) tap: Option<Arc<dyn NetworkTap>>,
    writer_live: Arc<AtomicU64>,
    reader_live: Arc<AtomicU64>,
    reverse: OnceLock<Weak<Pipe>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// All bytes that are on their way or unread; the first `arrived` of them can be read.
    buffer: VecDeque<u8>,
    arrived: usize,
    in_flight: VecDeque<Segment>,
    timer: Option<TimerKey>,
    last_arrival_ns: u64,
    /// Since when segments do not get through, and with which number of attempt.
    stalled: Option<Stall>,
    /// Bytes that were read but whose acknowledgement cannot get back.
    unacknowledged: usize,

    fin_sent: bool,
    reset_sent: bool,
    fin_arrived: bool,
    /// What the reader gets once it has read what is there.
    read_error: Option<io::ErrorKind>,
    /// What the writer gets.
    write_error: Option<io::ErrorKind>,
    reader_dropped: bool,
    writer_dropped: bool,
    /// The reading end's socket is closed: whatever arrives is answered with a reset.
    closed: bool,

    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy)]
struct Stall {
    since_ns: u64,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.network.forget(self.info.id, self.direction);
    }
}

impl State {
    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }

    fn occupied(&self) -> usize {
        self.buffer.len() + self.unacknowledged
    }

    /// Drops the segments from `keep` on, and their bytes.
    fn cut_in_flight(&mut self, keep: usize) {
        let lost = self.in_flight.drain(keep..);
        let bytes: usize = lost
            .map(|segment| if let Payload::Data { bytes, .. } = segment.payload { bytes } else { 0 })
            .sum();
        self.buffer.truncate(self.buffer.len() - bytes);
    }
}

fn keep_waker(slot: &mut Option<Waker>, context: &Context<'_>) {
    if slot.as_ref().is_none_or(|waker| !waker.will_wake(context.waker())) {
        *slot = Some(context.waker().clone());
    }
}

impl Pipe {
    /// Both directions of a new connection: to the server, and to the client.
    pub(super) fn pair(
        network: &Arc<Network>,
        info: ConnectionInfo,
        client_live: &Arc<AtomicU64>,
        server_live: &Arc<AtomicU64>,
    ) -> (Arc<Pipe>, Arc<Pipe>) {
        let info = Arc::new(info);
        let tap = network.tap();
        let pipe = |direction, writer_live: &Arc<AtomicU64>, reader_live: &Arc<AtomicU64>| {
            Arc::new(Pipe {
                info: info.clone(),
                direction,
                network: network.clone(),
                tap: tap.clone(),
                writer_live: writer_live.clone(),
                reader_live: reader_live.clone(),
                reverse: OnceLock::new(),
                state: Mutex::default(),
            })
        };
        let to_server = pipe(Direction::ToServer, client_live, server_live);
        let to_client = pipe(Direction::ToClient, server_live, client_live);
        let set = to_server.reverse.set(Arc::downgrade(&to_client)).is_ok()
            && to_client.reverse.set(Arc::downgrade(&to_server)).is_ok();
        assert!(set, "both are new");
        network.remember(&to_server);
        network.remember(&to_client);
        (to_server, to_client)
    }

    pub(super) fn writer(&self) -> &End {
        match self.direction {
            Direction::ToServer => &self.info.client,
            Direction::ToClient => &self.info.server,
        }
    }

    pub(super) fn reader(&self) -> &End {
        match self.direction {
            Direction::ToServer => &self.info.server,
            Direction::ToClient => &self.info.client,
        }
    }

    fn writer_is_alive(&self) -> bool {
        self.writer_live.load(Ordering::Relaxed) == self.writer().incarnation
    }

    fn reader_is_alive(&self) -> bool {
        self.reader_live.load(Ordering::Relaxed) == self.reader().incarnation
    }

    fn reverse(&self) -> Option<Arc<Pipe>> {
        self.reverse.get().and_then(Weak::upgrade)
    }

    /// The writer's process hands over as much of `buffers` as the window takes.
    pub(super) fn poll_send(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let config = &self.network.config;
        let decisions = &self.network.core.decisions;
        if !self.writer_is_alive() {
            return Poll::Ready(Err(dead_process()));
        }
        let mut state = lock(&self.state);
        if let Some(kind) = state.write_error {
            return Poll::Ready(Err(kind.into()));
        }
        if state.fin_sent {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if wanted == 0 {
            return Poll::Ready(Ok(0));
        }
        let free = config.window_bytes.saturating_sub(state.occupied());
        if free == 0 {
            keep_waker(&mut state.writer, context);
            return Poll::Pending;
        }
        let mut count = wanted.min(free).min(config.segment_bytes);
        if decisions.chance(Stream::NetworkChunking, "write takes a part", config.partial_write_ppm) {
            count = decisions.part_of(Stream::NetworkChunking, "part of a write", count);
        }
        let checksum = take(&mut state.buffer, buffers, count);
        if let Some(tap) = &self.tap {
            tap.sent(&self.info, self.direction, buffers, count);
        }
        let survives = self.enqueue(&mut state, Payload::Data { bytes: count, checksum });
        drop(state);
        if !survives {
            self.network.core.fault(self.writer().node, FaultKind::Reset, &[("connection", self.info.id)]);
            self.send_reset();
            if let Some(reverse) = self.reverse() {
                reverse.send_reset();
            }
        }
        Poll::Ready(Ok(count))
    }

    /// How many bytes a write could take now; 0 after registering to be woken.
    pub(super) fn poll_window(&self, context: &mut Context<'_>) -> usize {
        let mut state = lock(&self.state);
        let free = self.network.config.window_bytes.saturating_sub(state.occupied());
        // An error is no reason to wait: the write that follows will give it.
        let writable = if state.write_error.is_some() || state.fin_sent { 1 } else { free };
        if writable == 0 {
            keep_waker(&mut state.writer, context);
        }
        writable.min(self.network.config.segment_bytes)
    }

    /// Puts a segment on its way. False where the connection is to be reset at this segment.
    fn enqueue(self: &Arc<Self>, state: &mut State, payload: Payload) -> bool {
        let bytes = if let Payload::Data { bytes, .. } = payload { bytes } else { 0 };
        let transit = self.network.transit(self.writer().node, self.reader().node, bytes);
        let arrives_ns = transit.arrives_ns.max(state.last_arrival_ns + 1);
        state.last_arrival_ns = arrives_ns;
        state.in_flight.push_back(Segment { arrives_ns, payload });
        self.set_timer(state);
        !transit.reset || bytes == 0
    }

    fn set_timer(self: &Arc<Self>, state: &mut State) {
        if state.timer.is_none()
            && state.stalled.is_none()
            && let Some(first) = state.in_flight.front()
        {
            state.timer = Some(timer::schedule(first.arrives_ns, None, Action::Deliver(self.clone())));
        }
    }

    /// Ends the direction after what is on its way.
    pub(super) fn send_fin(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        if !state.fin_sent && state.write_error.is_none() {
            state.fin_sent = true;
            self.enqueue(&mut state, Payload::Fin);
        }
    }

    /// Resets the connection after what is on its way. The kernel does so, on behalf of a process or of one that has
    /// gone.
    pub(super) fn send_reset(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        if state.write_error.is_none() {
            self.enqueue_reset(&mut state);
            state.wake_writer();
        }
    }

    fn enqueue_reset(self: &Arc<Self>, state: &mut State) {
        state.write_error = Some(io::ErrorKind::ConnectionReset);
        if !std::mem::replace(&mut state.reset_sent, true) {
            self.enqueue(state, Payload::Reset);
        }
    }

    /// The first segment on its way is due.
    pub(in crate::world) fn deliver(self: &Arc<Self>) {
        let _counted = profile::within(Part::Network);
        let now = now_ns();
        let open = self.network.is_open(self.writer().node, self.reader().node);
        let mut state = lock(&self.state);
        state.timer = None;
        if !open {
            self.stall(&mut state, now);
            return;
        }
        state.stalled = None;
        if (state.closed || !self.reader_is_alive()) && state.read_error.is_none() {
            let answers = self.discard(&mut state);
            drop(state);
            if answers && let Some(reverse) = self.reverse() {
                reverse.answer_with_reset();
            }
            return;
        }
        let mut reset = false;
        while let Some(first) = state.in_flight.front()
            && first.arrives_ns <= now
        {
            let segment = state.in_flight.pop_front().expect("there is a first");
            reset |= self.arrive(&mut state, &segment.payload);
        }
        self.set_timer(&mut state);
        state.wake_reader();
        drop(state);
        // A reset concerns the whole socket that it reaches: that end can write no more, either.
        if reset && let Some(reverse) = self.reverse() {
            reverse.fail_writer(io::ErrorKind::ConnectionReset);
        }
    }

    /// Drops what reaches a closed socket. True where it is to be answered with a reset.
    fn discard(&self, state: &mut State) -> bool {
        // A socket that its own process has closed still takes the other side's FIN; a machine that knows nothing of
        // the connection does not.
        let closed_in_peace = self.reader_is_alive();
        let only_goodbyes = state.in_flight.iter().all(|segment| match segment.payload {
            Payload::Data { .. } => false,
            Payload::Fin => closed_in_peace,
            Payload::Reset => true,
        });
        state.in_flight.clear();
        state.buffer.clear();
        state.arrived = 0;
        state.closed = true;
        !only_goodbyes
    }

    fn arrive(&self, state: &mut State, payload: &Payload) -> bool {
        let core = &self.network.core;
        let (node, id) = (self.reader().node, self.info.id);
        match *payload {
            Payload::Data { bytes, checksum } => {
                self.network.count_delivery(bytes);
                core.event(
                    node,
                    "delivered",
                    &[
                        ("connection", id),
                        ("direction", self.direction as u64),
                        ("bytes", bytes as u64),
                        ("checksum", u64::from(checksum)),
                    ],
                );
                if let Some(tap) = &self.tap {
                    tap.delivered(&self.info, self.direction, window(&state.buffer, state.arrived, bytes));
                }
                state.arrived += bytes;
                false
            }
            Payload::Fin => {
                core.event(node, "finished", &[("connection", id), ("direction", self.direction as u64)]);
                if let Some(tap) = &self.tap {
                    tap.finished(&self.info, self.direction);
                }
                state.fin_arrived = true;
                false
            }
            Payload::Reset => {
                core.event(node, "reset", &[("connection", id), ("direction", self.direction as u64)]);
                if let Some(tap) = &self.tap {
                    tap.reset(&self.info, self.direction);
                }
                state.read_error = Some(io::ErrorKind::ConnectionReset);
                // Linux lets the process read what had arrived before; others do not.
                if state.arrived > 0
                    && core.decisions.chance(Stream::NetworkFault, "reset drops what is unread", 500_000)
                {
                    state.buffer.drain(..state.arrived);
                    state.arrived = 0;
                }
                true
            }
        }
    }

    /// Something of this connection has reached a machine that knows nothing of it (any more): it answers with a reset.
    fn answer_with_reset(self: &Arc<Self>) {
        // A process may know that its direction is at an end; its kernel answers all the same.
        self.enqueue_reset(&mut lock(&self.state));
    }

    /// The reading end's socket has failed or been closed from afar: its own writes fail too.
    fn fail_writer(&self, kind: io::ErrorKind) {
        let mut state = lock(&self.state);
        if state.write_error.is_none() {
            state.write_error = Some(kind);
        }
        state.wake_writer();
    }

    fn stall(self: &Arc<Self>, state: &mut State, now: u64) {
        if state.stalled.is_some() {
            return;
        }
        state.stalled = Some(Stall { since_ns: now });
        self.network.core.event(self.writer().node, "stalled", &[("connection", self.info.id)]);
        let (pipe, user_timeout_ms) = (Arc::downgrade(self), self.network.config.user_timeout_ms);
        let give_up = Action::Call(Box::new(move || {
            if let Some(pipe) = pipe.upgrade() {
                pipe.give_up(now);
            }
        }));
        timer::schedule(now + user_timeout_ms * 1_000_000, None, give_up);
    }

    /// The user timeout has passed since `since_ns`: the sender gives the connection up.
    fn give_up(&self, since_ns: u64) {
        {
            let mut state = lock(&self.state);
            if state.stalled.is_none_or(|stall| stall.since_ns != since_ns) {
                return;
            }
            state.cut_in_flight(0);
            state.write_error = Some(io::ErrorKind::TimedOut);
            state.wake_writer();
        }
        self.network.core.event(self.writer().node, "gave-up", &[("connection", self.info.id)]);
        if let Some(tap) = &self.tap {
            tap.reset(&self.info, self.direction);
        }
        if let Some(reverse) = self.reverse() {
            let mut state = lock(&reverse.state);
            state.read_error = Some(io::ErrorKind::TimedOut);
            state.wake_reader();
        }
    }

    /// A way has opened: what stands still is sent again when the sender's retransmission timer is due, and
    /// acknowledgements get through.
    pub(super) fn retry(self: &Arc<Self>) {
        let config = &self.network.config;
        let mut state = lock(&self.state);
        if state.unacknowledged > 0 && self.network.is_open(self.reader().node, self.writer().node) {
            state.unacknowledged = 0;
            state.wake_writer();
        }
        let Some(stall) = state.stalled else { return };
        if state.timer.is_none() && self.network.is_open(self.writer().node, self.reader().node) {
            let (now, mut due, mut wait) =
                (now_ns(), stall.since_ns, config.retransmission_min_ms * 1_000_000);
            while due <= now {
                due += wait;
                wait = (wait * 2).min(config.retransmission_max_ms * 1_000_000);
            }
            state.timer = Some(timer::schedule(due, None, Action::Deliver(self.clone())));
        }
    }

    /// The writer's process has ended, with its kernel alive.
    pub(super) fn writer_ended(self: &Arc<Self>, reset: bool) {
        if reset { self.send_reset() } else { self.send_fin() }
    }

    /// Whether bytes have arrived that nobody has read: a socket that is closed then is reset.
    pub(super) fn has_unread(&self) -> bool {
        lock(&self.state).arrived > 0
    }

    /// The writer's machine has lost power: what had not left it is gone.
    pub(super) fn writer_lost_power(&self) {
        let mut state = lock(&self.state);
        let in_flight = state.in_flight.len();
        if in_flight > 0 {
            let decisions = &self.network.core.decisions;
            let keep = match state.stalled {
                Some(_) => 0,
                None => decisions.part_of(Stream::NetworkFault, "segments that had left", in_flight + 1) - 1,
            };
            if keep < in_flight {
                self.network.core.fault(
                    self.writer().node,
                    FaultKind::InFlightLoss,
                    &[("connection", self.info.id), ("segments", (in_flight - keep) as u64)],
                );
            }
            state.cut_in_flight(keep);
        }
        // Nothing more comes, not even a goodbye.
        state.fin_sent = true;
        // After a reboot the kernel answers what still comes for this connection.
        state.reset_sent = false;
        state.write_error = Some(io::ErrorKind::ConnectionReset);
        state.stalled = None;
    }

    /// The reader's socket is closed, or its process gone.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let unread = state.arrived;
        state.buffer.drain(..unread);
        state.arrived = 0;
        let waker = state.reader.take();
        drop(state);
        drop(waker);
    }

    /// The reader's process takes what has arrived.
    pub(super) fn poll_receive(
        &self,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let config = &self.network.config;
        let decisions = &self.network.core.decisions;
        if !self.reader_is_alive() {
            return Poll::Ready(Err(dead_process()));
        }
        let mut state = lock(&self.state);
        if state.arrived == 0 {
            if let Some(kind) = state.read_error {
                return Poll::Ready(Err(kind.into()));
            }
            if !state.fin_arrived {
                keep_waker(&mut state.reader, context);
                return Poll::Pending;
            }
            return Poll::Ready(Ok(()));
        }
        let mut count = state.arrived.min(into.remaining());
        if count > 1
            && decisions.chance(Stream::NetworkChunking, "read gives a part", config.partial_read_ppm)
        {
            count = decisions.part_of(Stream::NetworkChunking, "part of a read", count);
        }
        let [first, second] = window(&state.buffer, 0, count);
        into.put_slice(first);
        into.put_slice(second);
        state.buffer.drain(..count);
        state.arrived -= count;
        if self.network.is_degraded() && !self.network.is_open(self.reader().node, self.writer().node) {
            state.unacknowledged += count;
        } else {
            state.wake_writer();
        }
        Poll::Ready(Ok(()))
    }

    /// The reading half was dropped. True where the writing half of the same end had been dropped before.
    pub(super) fn drop_reader(&self) {
        lock(&self.state).reader_dropped = true;
        if self.reverse().is_none_or(|reverse| lock(&reverse.state).writer_dropped) {
            self.close_end();
        }
    }

    /// The writing half was dropped, which ends the direction.
    pub(super) fn drop_writer(self: &Arc<Self>) {
        self.send_fin();
        lock(&self.state).writer_dropped = true;
        if let Some(incoming) = self.reverse() {
            let reader_dropped = lock(&incoming.state).reader_dropped;
            if reader_dropped {
                incoming.close_end();
            }
        }
    }

    /// Both halves of the reader's end are gone: its socket is closed, with a reset where something was unread.
    fn close_end(&self) {
        let unread = self.has_unread();
        self.close();
        if unread && let Some(outgoing) = self.reverse() {
            outgoing.send_reset();
        }
    }

    pub(super) fn halves_may_act(&self, reads: bool) -> bool {
        if reads { self.reader_is_alive() } else { self.writer_is_alive() }
    }
}
