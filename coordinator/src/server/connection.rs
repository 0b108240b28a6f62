//! One client's socket: bytes become frames, answers become bytes.
//!
//! Owns the buffers of both directions and their bounds. A client that sends faster than it is answered is not read from
//! until it has taken answers; one that does not take them is cut off by the caller.

use crate::{config::CoordinatorConfig, four_letter_word::FourLetterWord, member::Event};
use bytes::{Buf, Bytes, BytesMut};
use sillon_runtime::{BoxStream, JoinHandle, ReadHalf, Runtime, WriteHalf};
use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Notify, mpsc},
};

/// How much is read at a time, so that small requests come many to a system call.
const READ_CHUNK_BYTES: usize = 64 * 1024;
/// An idle connection keeps no buffer larger than this.
const IDLE_BUFFER_BYTES: usize = 16 * 1024;
/// How many requests of one connection may be under way before it is not read from any more.
const MAXIMUM_OUTSTANDING: usize = 2_000;
/// How many bytes of requests may.
const MAXIMUM_OUTSTANDING_BYTES: usize = 16 * 1024 * 1024;
/// How many bytes may wait for a client that does not read.
const MAXIMUM_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// How much of a frame that is too long is taken in before the connection ends ...
const MAXIMUM_LINGER_BYTES: usize = 4 * 1024 * 1024;
/// ... and how long the next piece of it may take.
const LINGER: Duration = Duration::from_millis(200);
/// Four bytes of length stand in front of each frame.
const LENGTH_BYTES: usize = 4;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    frame_bytes: usize,
}

impl Limits {
    pub fn of(config: &CoordinatorConfig) -> Limits {
        Limits { frame_bytes: config.request_max_bytes }
    }
}

/// What waits to be sent.
#[derive(Debug)]
pub(super) enum Outgoing {
    Bytes { bytes: Vec<u8>, replies: usize },
    Close,
}

/// What is under way on a connection.
#[derive(Debug, Default)]
struct Load {
    requests: AtomicUsize,
    /// Bytes of requests that were handed over; given back in equal parts as they are answered.
    request_bytes: AtomicUsize,
    waiting_bytes: AtomicUsize,
    lighter: Notify,
}

impl Load {
    async fn wait_until_lighter(&self) {
        loop {
            let lighter = self.lighter.notified();
            let requests = self.requests.load(Ordering::Relaxed);
            let bytes = self.request_bytes.load(Ordering::Relaxed);
            if requests < MAXIMUM_OUTSTANDING && bytes < MAXIMUM_OUTSTANDING_BYTES {
                return;
            }
            lighter.await;
        }
    }
}

/// The tasks of one connection; they end with it.
pub(super) struct Sockets {
    address: IpAddr,
    outlet: Arc<Outlet>,
    load: Arc<Load>,
    tasks: [JoinHandle<()>; 2],
}

impl Sockets {
    /// Starts reading and writing. `ended` is called once, when the connection has ended by itself.
    pub fn start(
        runtime: &Runtime,
        number: u64,
        stream: BoxStream,
        limits: Limits,
        events: mpsc::Sender<Event>,
        ended: impl FnOnce() + std::marker::Send + 'static,
    ) -> Sockets {
        let peer = stream.peer_addr();
        let (reader, writer) = stream.into_split();
        let outlet = Arc::new(Outlet::default());
        outlet.lock().socket = Some(writer);
        let load = Arc::new(Load::default());
        let (finished, finish) = tokio::sync::oneshot::channel::<()>();
        let reading = Reading {
            number,
            reader,
            buffer: BytesMut::new(),
            limits,
            events,
            load: load.clone(),
            greeted: false,
        };
        let lingering = runtime.clone();
        let read = runtime.spawn("client reader", async move {
            tokio::select! {
                biased;
                result = reading.run(&lingering) => {
                    if let Err(error) = result {
                        tracing::debug!(connection = number, %peer, %error, "client connection closed");
                    }
                }
                // The writer has ended: what the client still sends is of no use.
                _ = finish => {}
            }
            ended();
        });
        let (write_outlet, write_load) = (outlet.clone(), load.clone());
        let write = runtime.spawn("client writer", async move {
            if let Err(error) = write_all(&write_outlet, &write_load).await {
                tracing::debug!(connection = number, %peer, %error, "cannot write to a client");
            }
            drop(finished);
        });
        Sockets { address: peer.ip(), outlet, load, tasks: [read, write] }
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Queues something; refuses, with what waits already, where the client reads too slowly.
    pub fn queue(&self, outgoing: Outgoing) -> Result<(), usize> {
        if let Outgoing::Bytes { bytes, .. } = &outgoing {
            let waiting = self.load.waiting_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
            if waiting > MAXIMUM_WAITING_BYTES {
                return Err(waiting);
            }
        }
        self.outlet.send(outgoing, &self.load);
        Ok(())
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a frame of {0} bytes is not allowed (jute.maxbuffer)")]
    Length(i32),
    #[error("the member has ended")]
    MemberEnded,
}

struct Reading {
    number: u64,
    reader: Box<dyn ReadHalf>,
    buffer: BytesMut,
    limits: Limits,
    events: mpsc::Sender<Event>,
    load: Arc<Load>,
    greeted: bool,
}

impl Reading {
    async fn run(mut self, runtime: &Runtime) -> Result<(), ReadError> {
        let result = self.read_all().await;
        if let Err(ReadError::Length(length)) = &result {
            self.linger(runtime, *length).await;
        }
        result
    }

    /// Takes in what is left of a frame that is too long, as far as that makes sense: a client whose socket is closed
    /// while it still writes sees a broken pipe instead of the end of the connection.
    async fn linger(&mut self, runtime: &Runtime, length: i32) {
        let mut left = usize::try_from(length).unwrap_or(0).min(MAXIMUM_LINGER_BYTES);
        loop {
            left = left.saturating_sub(self.buffer.len());
            self.buffer.clear();
            if left == 0 {
                return;
            }
            let read = runtime.timeout(LINGER, self.reader.read_buf(&mut self.buffer)).await;
            if !matches!(read, Ok(Ok(1..))) {
                return;
            }
        }
    }

    async fn read_all(&mut self) -> Result<(), ReadError> {
        loop {
            self.make_room();
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(());
            }
            if !self.greeted && self.buffer.len() >= LENGTH_BYTES {
                self.greeted = true;
                if let Some(word) = self.four_letter_word() {
                    tell(&self.events, Event::FourLetterWord { connection: self.number, word }).await?;
                    // The answer closes the connection; until then the client may only leave.
                    while self.reader.read_buf(&mut self.buffer).await? > 0 {
                        self.buffer.clear();
                    }
                    return Ok(());
                }
            }
            let mut frames = Vec::new();
            let mut bytes = 0;
            while let Some(frame) = self.next_frame()? {
                bytes += frame.len();
                frames.push(frame);
            }
            if !frames.is_empty() {
                self.load.requests.fetch_add(frames.len(), Ordering::Relaxed);
                self.load.request_bytes.fetch_add(bytes, Ordering::Relaxed);
                tell(&self.events, Event::Frames { connection: self.number, frames }).await?;
                self.load.wait_until_lighter().await;
            }
        }
    }

    fn four_letter_word(&self) -> Option<FourLetterWord> {
        self.buffer.first_chunk::<LENGTH_BYTES>().and_then(|bytes| FourLetterWord::from_bytes(*bytes))
    }

    fn next_frame(&mut self) -> Result<Option<Bytes>, ReadError> {
        let Some(length) = self.claimed_length()? else { return Ok(None) };
        if self.buffer.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    fn claimed_length(&self) -> Result<Option<usize>, ReadError> {
        let Some(prefix) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let claimed = i32::from_be_bytes(*prefix);
        let length = usize::try_from(claimed).ok().filter(|length| *length <= self.limits.frame_bytes);
        length.map(Some).ok_or(ReadError::Length(claimed))
    }

    /// Room for what is missing of a frame, but for no more than what has already arrived, whatever a length claims.
    fn make_room(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() < IDLE_BUFFER_BYTES {
            self.buffer.reserve(IDLE_BUFFER_BYTES);
        }
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare < IDLE_BUFFER_BYTES / 4 || (!self.buffer.is_empty() && spare < READ_CHUNK_BYTES / 2) {
            self.buffer.reserve(READ_CHUNK_BYTES.max(self.buffer.len()));
        }
    }
}

async fn tell(events: &mpsc::Sender<Event>, event: Event) -> Result<(), ReadError> {
    events.send(event).await.map_err(|_| ReadError::MemberEnded)
}

/// What waits to be sent, and the socket while nobody writes to it.
#[derive(Default)]
struct Outbox {
    waiting: VecDeque<Outgoing>,
    /// Away while the writing task uses it.
    socket: Option<Box<dyn WriteHalf>>,
}

/// The way to a client's socket, shared by the member, which writes at once where it can, and the task that writes what
/// the socket did not take: handing every answer to a task would cost more than most answers themselves.
#[derive(Default)]
struct Outlet {
    outbox: Mutex<Outbox>,
    filled: Notify,
}

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what the socket takes without waiting, and leaves the rest to the writing task.
    fn send(&self, mut outgoing: Outgoing, load: &Load) {
        let mut outbox = self.lock();
        if outbox.waiting.is_empty()
            && let Some(socket) = &mut outbox.socket
            && let Outgoing::Bytes { bytes, replies } = &mut outgoing
        {
            // The writing task registers its own waker when it finds what is left.
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(Ok(written)) = Pin::new(socket).poll_write(&mut context, bytes) {
                load.waiting_bytes.fetch_sub(written, Ordering::Relaxed);
                if written == bytes.len() {
                    let replies = *replies;
                    drop(outbox);
                    answered(load, replies);
                    return;
                }
                bytes.drain(..written);
            }
        }
        outbox.waiting.push_back(outgoing);
        drop(outbox);
        self.filled.notify_one();
    }

    /// What waits, with the socket, once there is something.
    async fn take(&self) -> (VecDeque<Outgoing>, Box<dyn WriteHalf>) {
        loop {
            let filled = self.filled.notified();
            {
                let mut outbox = self.lock();
                if !outbox.waiting.is_empty() {
                    let socket =
                        outbox.socket.take().expect("only the writing task takes it, and gives it back");
                    return (std::mem::take(&mut outbox.waiting), socket);
                }
            }
            filled.await;
        }
    }
}

/// Writes what the member could not write at once, until the connection is to end.
async fn write_all(outlet: &Outlet, load: &Load) -> io::Result<()> {
    loop {
        let (waiting, mut socket) = outlet.take().await;
        for outgoing in waiting {
            match outgoing {
                Outgoing::Bytes { bytes, replies } => {
                    socket.write_all(&bytes).await?;
                    load.waiting_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
                    answered(load, replies);
                }
                Outgoing::Close => return socket.shutdown().await,
            }
        }
        socket.flush().await?;
        outlet.lock().socket = Some(socket);
    }
}

/// Requests were answered: their part of the load is gone.
fn answered(load: &Load, replies: usize) {
    if replies == 0 {
        return;
    }
    let before = load.requests.load(Ordering::Relaxed).max(1);
    let bytes = load.request_bytes.load(Ordering::Relaxed);
    let part = if replies >= before { bytes } else { bytes / before * replies };
    load.requests.fetch_sub(replies.min(before), Ordering::Relaxed);
    load.request_bytes.fetch_sub(part, Ordering::Relaxed);
    load.lighter.notify_one();
}
