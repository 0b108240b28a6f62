//! One connection to one broker. Owns the order of frames and who waits for which; never interprets a body
//! beyond its schema and never opens a second connection.
//!
//! ```text
//!   send ─► outgoing (bounded) ─► sender task ─► socket
//!     └──► waiting (front = oldest) ◄─ receiver task ◄─ socket
//! ```
//! A request enters both queues in one step, so responses are matched by order and their correlation ids only
//! confirm it. The first failure ends the connection: everyone who waits gets it, and everyone who comes later.

use crate::{ConnectionError, Versions};
use bytes::{Buf, Bytes};
use sillon_protocol::{
    frame::{self, FrameReader},
    messages::{ApiVersionsRequest, ApiVersionsResponse, ResponseHeader},
    wire::{Decoder, Encoder, Message, Request},
};
use sillon_runtime::{ReadHalf, Runtime, Tasks, WriteHalf};
use std::{
    collections::VecDeque,
    future::Future,
    io::IoSlice,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
};

/// Kafka's error code for a version that the broker does not speak.
const UNSUPPORTED_VERSION: i16 = 35;
/// Where the body of an ApiVersions response begins: its header is the correlation id alone, in every version.
const API_VERSIONS_HEADER_BYTES: usize = 4;

/// How a connection behaves.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// The name that the broker's logs and quotas know this client by.
    pub client_id: Arc<str>,
    /// How long connecting and agreeing on versions may take together.
    pub connect_timeout: Duration,
    /// How long a request may wait for its answer, unless it is given another limit.
    pub request_timeout: Duration,
    /// How many requests may be on their way at a time; one more waits.
    pub max_in_flight: usize,
    /// The largest response that is accepted, in bytes.
    pub max_response_bytes: usize,
}

impl Default for ConnectionOptions {
    fn default() -> ConnectionOptions {
        ConnectionOptions {
            client_id: "sillon".into(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            max_in_flight: 64,
            max_response_bytes: 100 << 20,
        }
    }
}

/// A frame in pieces that are sent one after the other, or by one vectored write.
struct Parts(VecDeque<Bytes>);

impl Buf for Parts {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |part| part)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        for (slice, part) in slices.iter_mut().zip(&self.0) {
            *slice = IoSlice::new(part);
        }
        slices.len().min(self.0.len())
    }

    fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let first = self.0.front_mut().expect("nobody advances past the end");
            let step = bytes.min(first.len());
            first.advance(step);
            bytes -= step;
            if first.is_empty() {
                self.0.pop_front();
            }
        }
    }
}

/// A frame to be sent.
struct Outgoing {
    frame: Parts,
    /// Of a request without an answer: given back when the frame is sent.
    _place: Option<OwnedSemaphorePermit>,
}

/// A request that waits for its answer.
struct Waiting {
    correlation_id: i32,
    answer: oneshot::Sender<Result<Bytes, ConnectionError>>,
    /// Given back when the answer is there.
    _place: OwnedSemaphorePermit,
}

struct Queues {
    next_correlation_id: i32,
    waiting: VecDeque<Waiting>,
    /// What ended the connection.
    failure: Option<ConnectionError>,
}

/// What the tasks and the senders share.
struct Shared(Mutex<Queues>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }

    /// Ends the connection for everyone, once.
    fn fail(&self, error: &ConnectionError) {
        let mut queues = self.lock();
        if queues.failure.is_none() {
            queues.failure = Some(error.clone());
        }
        for waiting in queues.waiting.drain(..) {
            // Whoever gave up waiting needs no answer.
            let _ = waiting.answer.send(Err(error.clone()));
        }
    }
}

/// A connection to a broker. Requests may be sent from several tasks at once; they are answered in order.
///
/// Dropping it closes the connection.
pub struct Connection {
    runtime: Runtime,
    options: ConnectionOptions,
    versions: Versions,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
    _tasks: Tasks,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("client_id", &self.options.client_id).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects and agrees on versions.
    ///
    /// # Errors
    /// Where the broker cannot be reached in time, or does not answer ApiVersions as Kafka does.
    pub async fn connect(
        runtime: &Runtime,
        host: &str,
        port: u16,
        options: ConnectionOptions,
    ) -> Result<Connection, ConnectionError> {
        let timeout = options.connect_timeout;
        let connecting = async {
            let stream = runtime.connect(host, port).await.map_err(|error| ConnectionError::Connect {
                host: host.into(),
                port,
                source: Arc::new(error),
            })?;
            let (reader, writer) = stream.into_split();
            let mut connection = Connection::start(runtime, reader, writer, options);
            connection.versions = connection.agree_on_versions().await?;
            Ok(connection)
        };
        runtime.timeout(timeout, connecting).await.unwrap_or_else(|_elapsed| {
            Err(ConnectionError::ConnectTimedOut { host: host.into(), port, timeout_ms: millis(timeout) })
        })
    }

    fn start(
        runtime: &Runtime,
        reader: Box<dyn ReadHalf>,
        writer: Box<dyn WriteHalf>,
        options: ConnectionOptions,
    ) -> Connection {
        let shared = Arc::new(Shared(Mutex::new(Queues {
            next_correlation_id: 0,
            waiting: VecDeque::new(),
            failure: None,
        })));
        // Bounded by the places: nothing is queued without one.
        let (outgoing, queued) = mpsc::unbounded_channel();
        let mut tasks = Tasks::default();
        tasks.push(runtime.spawn("connection sender", send_frames(writer, queued, shared.clone())));
        let receiver = receive_frames(reader, options.max_response_bytes, shared.clone());
        tasks.push(runtime.spawn("connection receiver", receiver));
        Connection {
            runtime: runtime.clone(),
            places: Arc::new(Semaphore::new(options.max_in_flight)),
            options,
            versions: Versions::default(),
            outgoing,
            shared,
            _tasks: tasks,
        }
    }

    /// What the broker speaks.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// What ended the connection, `None` while it lives.
    pub fn failure(&self) -> Option<ConnectionError> {
        self.shared.lock().failure.clone()
    }

    /// Gives up on the broker: whoever waits hears [`ConnectionError::Closed`], and nothing can be sent any more. The
    /// socket closes when the last holder drops the connection.
    pub fn close(&self) {
        self.shared.fail(&ConnectionError::Closed);
    }

    /// The versions of `R` that both sides speak.
    ///
    /// # Errors
    /// [`ConnectionError::NoCommonVersion`].
    pub fn common_versions<R: Request>(&self) -> Result<RangeInclusive<i16>, ConnectionError> {
        self.versions.common::<R>()
    }

    /// Sends a request in the newest version that both sides speak and waits for the answer.
    ///
    /// # Errors
    /// See [`ConnectionError`]. After a timeout the connection can still be used: the late answer is dropped when
    /// it comes. Whoever suspects that it never will drops the connection.
    pub async fn send<R: Request>(&self, request: &R) -> Result<R::Response, ConnectionError> {
        let version = *self.common_versions::<R>()?.end();
        self.send_version(version, request, self.options.request_timeout).await
    }

    /// Sends a request in the given version and waits for the answer for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_version<R: Request>(
        &self,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> Result<R::Response, ConnectionError> {
        let asking = async { decode_response::<R>(version, &self.ask(version, request).await?.await?) };
        let answer = self.runtime.timeout(timeout, asking).await;
        answer.unwrap_or_else(|_elapsed| Err(timed_out::<R>(timeout)))
    }

    /// Sends a request and gives its answer as something that can be awaited elsewhere, for whoever sends several
    /// before the first is answered: they leave in the order of these calls.
    ///
    /// # Errors
    /// As [`Connection::send`], as far as they show before the request is sent; the rest with the answer.
    pub async fn begin<R: Request>(
        &self,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> Result<impl Future<Output = Result<R::Response, ConnectionError>> + Send + use<R>, ConnectionError>
    {
        let answer = self.ask(version, request).await?;
        let runtime = self.runtime.clone();
        Ok(async move {
            let waiting = runtime.timeout(timeout, answer);
            let frame = waiting.await.unwrap_or_else(|_elapsed| Err(timed_out::<R>(timeout)))?;
            decode_response::<R>(version, &frame)
        })
    }

    /// Sends a request that has no answer (Produce with acks=0). Returns once it is queued.
    ///
    /// # Errors
    /// As [`Connection::send`], as far as they show before the request is sent.
    pub async fn send_unanswered<R: Request>(
        &self,
        version: i16,
        request: &R,
    ) -> Result<(), ConnectionError> {
        let place = self.place().await;
        let mut queues = self.shared.lock();
        self.queue(&mut queues, version, request, Some(place)).map(|_correlation_id| ())
    }

    async fn place(&self) -> OwnedSemaphorePermit {
        self.places.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Queues a request; what comes back is the whole answer, header included.
    async fn ask<R: Request>(
        &self,
        version: i16,
        request: &R,
    ) -> Result<impl Future<Output = Result<Bytes, ConnectionError>> + Send + use<R>, ConnectionError> {
        let place = self.place().await;
        let (answer, receiver) = oneshot::channel();
        let mut queues = self.shared.lock();
        let correlation_id = self.queue(&mut queues, version, request, None)?;
        queues.waiting.push_back(Waiting { correlation_id, answer, _place: place });
        // The sender is dropped without an answer only when the connection is, or the node goes down with its tasks.
        Ok(async move { receiver.await.unwrap_or(Err(ConnectionError::Closed)) })
    }

    fn queue<R: Request>(
        &self,
        queues: &mut Queues,
        version: i16,
        request: &R,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<i32, ConnectionError> {
        if let Some(failure) = &queues.failure {
            return Err(failure.clone());
        }
        let correlation_id = queues.next_correlation_id;
        // Record batches go from their own buffers to the socket.
        let mut encoder = Encoder::sharing();
        frame::encode_request(&mut encoder, version, correlation_id, Some(&self.options.client_id), request)
            .map_err(|source| ConnectionError::Unsayable { api: R::API_KEY, version, source })?;
        queues.next_correlation_id = correlation_id.wrapping_add(1);
        let outgoing = Outgoing { frame: Parts(encoder.into_parts()), _place: place };
        self.outgoing.send(outgoing).map_err(|_closed| ConnectionError::Closed)?;
        Ok(correlation_id)
    }

    /// Asks in the newest version known here. A broker that does not know that one answers in version 0 and names
    /// the versions that it does know (KIP-511).
    async fn agree_on_versions(&self) -> Result<Versions, ConnectionError> {
        let mut version = *ApiVersionsRequest::VERSIONS.end();
        loop {
            let request = ApiVersionsRequest {
                client_software_name: env!("CARGO_PKG_NAME").into(),
                client_software_version: env!("CARGO_PKG_VERSION").into(),
            };
            let frame = self.ask(version, &request).await?.await?;
            let error_code = frame.get(API_VERSIONS_HEADER_BYTES..API_VERSIONS_HEADER_BYTES + 2);
            let refused = error_code.is_some_and(|code| code == UNSUPPORTED_VERSION.to_be_bytes());
            let spoken = if refused { 0 } else { version };
            let response: ApiVersionsResponse = decode_response::<ApiVersionsRequest>(spoken, &frame)?;
            match response.error_code {
                0 => return Ok(Versions::new(&response)),
                UNSUPPORTED_VERSION if version > 0 => {
                    let theirs = Versions::new(&response).common::<ApiVersionsRequest>();
                    version = theirs.map_or(0, |common| *common.end()).min(version - 1);
                }
                error_code => return Err(ConnectionError::Refused { error_code }),
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn timed_out<R: Request>(timeout: Duration) -> ConnectionError {
    ConnectionError::TimedOut { api: R::API_KEY, timeout_ms: millis(timeout) }
}

fn decode_response<R: Request>(version: i16, frame: &Bytes) -> Result<R::Response, ConnectionError> {
    let mut decoder = Decoder::new(frame);
    ResponseHeader::decode(R::response_header_version(version), &mut decoder)
        .and_then(|_header| R::Response::decode(version, &mut decoder))
        .map_err(|source| ConnectionError::Malformed { api: R::API_KEY, version, source })
}

async fn send_frames(
    mut writer: Box<dyn WriteHalf>,
    mut queued: mpsc::UnboundedReceiver<Outgoing>,
    shared: Arc<Shared>,
) {
    while let Some(mut outgoing) = queued.recv().await {
        let sent = async {
            writer.write_all_buf(&mut outgoing.frame).await?;
            writer.flush().await
        };
        if let Err(error) = sent.await {
            shared.fail(&error.into());
            return;
        }
    }
}

async fn receive_frames(mut reader: Box<dyn ReadHalf>, max_response_bytes: usize, shared: Arc<Shared>) {
    let mut frames = FrameReader::new(max_response_bytes);
    loop {
        match frames.next_frame() {
            Ok(Some(frame)) => {
                if let Err(error) = deliver(&shared, frame) {
                    return shared.fail(&error);
                }
            }
            Ok(None) => match reader.read_buf(frames.buffer()).await {
                Ok(0) => return shared.fail(&ConnectionError::Closed),
                Ok(_) => {}
                Err(error) => return shared.fail(&error.into()),
            },
            Err(error) => return shared.fail(&error.into()),
        }
    }
}

/// Gives a response to the oldest request that waits.
fn deliver(shared: &Shared, frame: Bytes) -> Result<(), ConnectionError> {
    let Some(id) = frame.first_chunk::<4>() else {
        return Err(ConnectionError::ShortResponse { bytes: frame.len() });
    };
    let received = i32::from_be_bytes(*id);
    let mut queues = shared.lock();
    match queues.waiting.front() {
        None => Err(ConnectionError::UnaskedResponse { received }),
        Some(oldest) if oldest.correlation_id != received => {
            Err(ConnectionError::WrongCorrelationId { expected: oldest.correlation_id, received })
        }
        Some(_) => {
            let oldest = queues.waiting.pop_front().expect("the front was there a moment ago");
            // Whoever gave up waiting needs no answer.
            let _ = oldest.answer.send(Ok(frame));
            Ok(())
        }
    }
}
