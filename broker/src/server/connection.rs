//! One client connection: frames in, answers out, in the order of the requests.
//!
//! Owns the socket's buffers. Never interprets a request: `dispatch` does.
//!
//! As Kafka does, a connection's next request is handled only after the answer to the one before was sent. One thing
//! need not wait: a produce may be appended while those before it still wait for followers, which then fetch several
//! batches at a time. Its answer waits for its turn.

use super::{
    dispatch::{self, Handled, Outcome, RequestError},
    response::Response,
};
use crate::broker::Broker;
use bytes::{Buf, Bytes, BytesMut};
use sillon_runtime::{BoxFuture, BoxStream, Monotonic, ReadHalf, Runtime, WriteHalf};
use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
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
/// How many answers of a connection may wait for followers before its next request is read.
const MAX_ANSWERS_OWED: usize = 64;
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
    Request(#[from] RequestError),
    #[error("no request came for {0:?} (connections.max.idle.ms)")]
    Idle(Duration),
}

impl ConnectionError {
    /// Whether an answer could not be given although the request was sound.
    pub(super) fn is_own_fault(&self) -> bool {
        matches!(self, ConnectionError::Request(RequestError::Encode(_)))
    }
}

/// Serves a connection until either side ends it.
pub(super) async fn serve(
    broker: Arc<Broker>,
    stream: BoxStream,
    number: u64,
) -> Result<(), ConnectionError> {
    let client =
        dispatch::Client { connection: number, local: stream.local_addr(), remote: stream.peer_addr() };
    let (reader, mut writer) = stream.into_split();
    let limit = broker.config().request_max_bytes;
    let idle = Duration::from_millis(broker.config().connections_max_idle_ms);
    let runtime = broker.runtime().clone();
    let mut frames = Frames { runtime, reader, buffer: BytesMut::new(), limit };
    let mut idle_timer = IdleTimer::new(&broker, idle);
    let mut owed = Owed::default();
    loop {
        let frame = tokio::select! {
            biased;
            outcome = owed.next(), if !owed.is_empty() => {
                match owed.beside(conclude(&mut *writer, outcome?)).await? {
                    Proceed::On => idle_timer.touch(),
                    Proceed::End => return Ok(()),
                }
                continue;
            }
            frame = frames.next(), if owed.len() < MAX_ANSWERS_OWED => frame?,
            () = idle_timer.expired(), if owed.is_empty() => return Err(ConnectionError::Idle(idle)),
        };
        let goes_ahead = frame.as_ref().is_some_and(|frame| dispatch::goes_ahead_of_answers(frame));
        while !goes_ahead && !owed.is_empty() {
            let outcome = owed.next().await?;
            if let Proceed::End = owed.beside(conclude(&mut *writer, outcome)).await? {
                return Ok(());
            }
        }
        let Some(frame) = frame else { return Ok(()) };
        let handled = if dispatch::ends_with_connection(&frame) {
            tokio::select! {
                biased;
                handled = dispatch::handle(&broker, &client, frame) => handled,
                () = frames.ended() => return Ok(()),
            }
        } else {
            owed.beside(dispatch::handle(&broker, &client, frame)).await
        };
        owed.push(handled);
    }
}

/// Whether a connection goes on after a request.
enum Proceed {
    On,
    End,
}

/// Does what is left to do for a request.
async fn conclude(writer: &mut dyn WriteHalf, outcome: Outcome) -> Result<Proceed, ConnectionError> {
    match outcome {
        Outcome::Answer(response) => send(writer, response).await?,
        Outcome::Silence => {}
        Outcome::Close => return Ok(Proceed::End),
    }
    Ok(Proceed::On)
}

/// The requests that have no answer yet, in their order. What becomes of each is settled when it is known, not when its
/// turn has come: by then the partition may be another's.
#[derive(Default)]
struct Owed<'a>(VecDeque<Handled<'a>>);

impl<'a> Owed<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, handled: Handled<'a>) {
        self.0.push_back(handled);
    }

    fn settle(&mut self, context: &mut Context<'_>) {
        for handled in &mut self.0 {
            if let Handled::Waits(outcome) = handled
                && let Poll::Ready(outcome) = outcome.as_mut().poll(context)
            {
                *handled = Handled::Done(outcome);
            }
        }
    }

    /// What became of the oldest, once it is settled. Nothing is lost if this is dropped early.
    async fn next(&mut self) -> Result<Outcome, RequestError> {
        poll_fn(|context| {
            self.settle(context);
            match self.0.pop_front() {
                Some(Handled::Done(outcome)) => Poll::Ready(outcome),
                Some(waits) => {
                    self.0.push_front(waits);
                    Poll::Pending
                }
                None => unreachable!("somebody asks only where an answer is owed"),
            }
        })
        .await
    }

    /// Does `work`, and settles meanwhile what can be.
    async fn beside<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.settle(context);
            work.as_mut().poll(context)
        })
        .await
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
    timer: BoxFuture<'static, ()>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::ApiKey;
    use sillon_runtime::tokio_backend;
    use tokio::sync::oneshot;

    fn waits(receiver: oneshot::Receiver<Outcome>) -> Handled<'static> {
        Handled::Waits(Box::pin(async { Ok(receiver.await.expect("the test answers")) }))
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests_whichever_is_ready_first() {
        let run = |runtime: Runtime| async move {
            let ((first, one), (second, two)) = (oneshot::channel(), oneshot::channel());
            let mut owed = Owed::default();
            owed.push(waits(one));
            owed.push(Handled::Done(Ok(Outcome::Close)));
            owed.push(waits(two));
            owed.push(Handled::Done(Err(RequestError::Unavailable(ApiKey::Vote))));
            assert!(second.send(Outcome::Silence).is_ok());
            // Given up twice before anything is there: nothing is lost.
            for _ in 0..2 {
                let early = runtime.timeout(Duration::from_millis(1), owed.next()).await;
                assert!(early.is_err(), "the first is not ready");
            }
            assert_eq!(owed.len(), 4);
            assert!(matches!(owed.0[2], Handled::Done(Ok(Outcome::Silence))), "it did not wait for its turn");
            assert!(first.send(Outcome::Silence).is_ok());
            assert!(matches!(owed.next().await, Ok(Outcome::Silence)));
            assert!(matches!(owed.next().await, Ok(Outcome::Close)));
            assert!(matches!(owed.next().await, Ok(Outcome::Silence)));
            assert!(owed.next().await.is_err(), "what came before it was answered first");
            assert!(owed.is_empty());
        };
        tokio_backend::block_on(Some(1), run).expect("threads can be started");
    }
}
