//! One client connection: frames in, answers out, in the order of the requests.
//!
//! Owns the socket's buffers. Never interprets a request: `dispatch` does.
//!
//! As Kafka does, a connection's next request is handled only after the answer to the one before was sent, so a client
//! sees its answers in order without further bookkeeping.

use super::{
    dispatch::{self, Outcome},
    response::Response,
};
use crate::broker::Broker;
use bytes::{Buf, Bytes, BytesMut};
use sillon_runtime::{BoxStream, Monotonic, ReadHalf, Runtime, WriteHalf};
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How much is read at a time at least, so that small requests come several to a system call.
const READ_CHUNK_BYTES: usize = 64 * 1024;
/// An idle connection keeps no buffer larger than this ...
const IDLE_BUFFER_BYTES: usize = 256 * 1024;
/// ... for longer than this. A busy one keeps what its requests need: memory that is given back and taken again costs
/// more than the requests.
const KEEP_LARGE_BUFFER: Duration = Duration::from_secs(1);
/// The length that precedes each frame.
const SIZE_PREFIX_BYTES: usize = 4;

/// Why a connection was closed from this side.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a request of {0} bytes is larger than socket.request.max.bytes, or its length is negative")]
    FrameSize(i32),
    #[error("{0}")]
    Request(#[from] dispatch::RequestError),
    #[error("no request came for {0:?} (connections.max.idle.ms)")]
    Idle(Duration),
}

impl ConnectionError {
    /// Whether an answer could not be given although the request was sound.
    pub(super) fn is_own_fault(&self) -> bool {
        matches!(self, ConnectionError::Request(dispatch::RequestError::Encode(_)))
    }
}

/// Serves a connection until either side ends it.
pub(super) async fn serve(
    broker: Arc<Broker>,
    stream: BoxStream,
    number: u64,
) -> Result<(), ConnectionError> {
    let client = dispatch::Client {
        connection: number,
        local: stream.local_addr(),
        remote: stream.peer_addr(),
        knows_metadata: AtomicBool::new(false),
    };
    let (reader, mut writer) = stream.into_split();
    let limit = broker.config().request_max_bytes;
    let idle = Duration::from_millis(broker.config().connections_max_idle_ms);
    let runtime = broker.runtime().clone();
    let mut frames = Frames { runtime, reader, buffer: BytesMut::new(), limit };
    let mut idle_timer = IdleTimer::new(&broker, idle);
    loop {
        let frame = tokio::select! {
            biased;
            frame = frames.next() => frame?,
            () = idle_timer.expired() => return Err(ConnectionError::Idle(idle)),
        };
        let Some(frame) = frame else { return Ok(()) };
        let outcome = if dispatch::ends_with_connection(&frame) {
            tokio::select! {
                biased;
                outcome = dispatch::handle(&broker, &client, frame) => outcome?,
                () = frames.ended() => return Ok(()),
            }
        } else {
            dispatch::handle(&broker, &client, frame).await?
        };
        match outcome {
            Outcome::Answer(response) => send(&mut *writer, response).await?,
            Outcome::Silence => {}
            Outcome::Close => return Ok(()),
        }
        idle_timer.touch();
    }
}

/// Cuts the incoming bytes into frames.
struct Frames {
    runtime: Runtime,
    reader: Box<dyn ReadHalf>,
    buffer: BytesMut,
    limit: usize,
}

impl Frames {
    /// The next frame without its length, or none at the end of the stream. Nothing is lost if this is dropped early.
    async fn next(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        loop {
            let missing = match self.buffer.first_chunk::<SIZE_PREFIX_BYTES>() {
                None => READ_CHUNK_BYTES,
                Some(prefix) => {
                    let claimed = i32::from_be_bytes(*prefix);
                    let size = usize::try_from(claimed).ok().filter(|size| *size <= self.limit);
                    let size = size.ok_or(ConnectionError::FrameSize(claimed))?;
                    if self.buffer.len() >= SIZE_PREFIX_BYTES + size {
                        self.buffer.advance(SIZE_PREFIX_BYTES);
                        return Ok(Some(self.buffer.split_to(size).freeze()));
                    }
                    SIZE_PREFIX_BYTES + size - self.buffer.len()
                }
            };
            self.make_room(missing);
            let read = if self.buffer.is_empty() && self.buffer.capacity() > IDLE_BUFFER_BYTES {
                let Ok(read) =
                    self.runtime.timeout(KEEP_LARGE_BUFFER, self.reader.read_buf(&mut self.buffer)).await
                else {
                    self.buffer = BytesMut::new();
                    continue;
                };
                read
            } else {
                self.reader.read_buf(&mut self.buffer).await
            };
            if read? == 0 {
                return Ok(None);
            }
        }
    }

    /// Waits for the end of the connection. What comes meanwhile is kept, up to the size of a request. Nothing is lost if
    /// this is dropped early.
    async fn ended(&mut self) {
        while self.buffer.len() <= self.limit {
            self.make_room(READ_CHUNK_BYTES);
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        std::future::pending().await
    }

    /// Room for what is missing, but for no more than has already arrived, whatever a length claims.
    fn make_room(&mut self, missing: usize) {
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare < missing.min(READ_CHUNK_BYTES) {
            self.buffer.reserve(missing.clamp(READ_CHUNK_BYTES / 2, READ_CHUNK_BYTES.max(self.buffer.len())));
        }
    }
}

/// Writes an answer; what lies in log files goes from there to the socket.
async fn send(writer: &mut dyn WriteHalf, mut response: Response) -> io::Result<()> {
    let mut sent = 0;
    for slice in &response.slices {
        while sent < slice.position {
            let head = &response.buffer[sent..slice.position];
            match poll_fn(|context| Pin::new(&mut *writer).poll_write_more(context, head)).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => sent += written,
            }
        }
        let (mut offset, mut left) = (slice.file_position, slice.length);
        while left > 0 {
            let count =
                poll_fn(|context| Pin::new(&mut *writer).poll_send_file(context, &*slice.file, offset, left))
                    .await?;
            if count == 0 {
                // The answer's length is already on its way: only closing the connection is left.
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "a log file became shorter while it was read",
                ));
            }
            offset += count as u64;
            left -= count;
        }
    }
    response.buffer.advance(sent);
    writer.write_all(&response.buffer).await?;
    writer.flush().await
}

/// Ends a connection that asks for nothing. One timer serves many requests: it is looked at only when it fires.
struct IdleTimer<'a> {
    broker: &'a Broker,
    limit: Duration,
    last_use: Monotonic,
    timer: sillon_runtime::BoxFuture<'static, ()>,
}

impl<'a> IdleTimer<'a> {
    fn new(broker: &'a Broker, limit: Duration) -> IdleTimer<'a> {
        IdleTimer { broker, limit, last_use: broker.runtime().now(), timer: broker.runtime().sleep(limit) }
    }

    fn touch(&mut self) {
        self.last_use = self.broker.runtime().now();
    }

    async fn expired(&mut self) {
        loop {
            (&mut self.timer).await;
            let deadline = self.last_use + self.limit;
            if self.broker.runtime().now() >= deadline {
                return;
            }
            self.timer = self.broker.runtime().sleep_until(deadline);
        }
    }
}
