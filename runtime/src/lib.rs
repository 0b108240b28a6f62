//! The abstract runtime: everything that is not a pure function of its arguments is reached through here.
//!
//! Product code holds one cheap-to-clone [`Runtime`] and asks it for the time, for randomness, for tasks,
//! connections and files. Two backends answer: `tokio_backend` in production (feature `tokio-backend`), and the
//! simulator's world, where one seed decides every answer. The same compiled product code runs on either.
//!
//! What this crate owns: the shape of that boundary and the production backend. What it never does: know
//! about Kafka, logs or clusters, or decide anything by itself.
//!
//! ```text
//!   broker, coordinator, client
//!        │ Runtime (this handle)
//!        ▼
//!   Backend (object-safe)  ──►  tokio_backend: sockets, files, clocks of this machine
//!                          ──►  the simulator: sockets, files, clocks of a simulated one
//! ```
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // This crate is where the real ones are wrapped.

mod file;
mod net;
mod task;
mod time;
#[cfg(feature = "tokio-backend")]
pub mod tokio_backend;

pub use file::{DirectoryEntry, File, FileLock, FileSystem, IoFuture, OpenOptions};
pub use net::{BoxStream, Listener, ReadHalf, Stream, WriteHalf};
pub use task::{AbortTask, BoxFuture, JoinError, JoinHandle, Tasks};
pub use time::{Elapsed, Monotonic, UnixMillis};

use std::{fmt, future::Future, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

/// So long a killed process may go on holding its sockets and locks: the operating system frees its memory first.
const HELD_BY_THE_DYING: Duration = Duration::from_secs(1);
const TRIES_WHILE_HELD: u32 = 50;

/// What a world has to provide. Object-safe, one value per node (a simulated machine, or this process).
pub trait Backend: Send + Sync + 'static {
    /// The node's monotonic clock. Durations and timeouts are measured on it and on nothing else.
    fn now(&self) -> Monotonic;
    /// The node's wall clock, which may be wrong and may jump. Fit for time stamps and retention only.
    fn unix_time(&self) -> UnixMillis;
    /// Completes when [`Backend::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Monotonic) -> BoxFuture<'static, ()>;
    /// Starts a task that runs until it ends, is aborted, or the node stops.
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Box<dyn AbortTask>;
    /// Runs a closure that computes or blocks for long: on a thread of its own in production, in place in simulation.
    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;
    /// Fills `buffer` with random bytes (the operating system's, or the seed's).
    fn fill_random(&self, buffer: &mut [u8]);
    /// Opens a listening socket. Port 0 takes a free one.
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;
    /// Connects to a host by name or literal address. TCP_NODELAY is always set.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxStream>>;
    /// The node's files.
    fn fs(&self) -> &dyn FileSystem;
    /// Names the present run of the machine's operating system: what was written in the same run, by whatever process, is
    /// in the page cache still. None where the world cannot tell.
    fn boot_id(&self) -> Option<u128>;
}

/// The handle through which product code reaches its world. Clone it freely.
#[derive(Clone)]
pub struct Runtime(Arc<dyn Backend>);

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runtime")
    }
}

impl Runtime {
    /// Wraps a backend.
    pub fn new(backend: Arc<dyn Backend>) -> Runtime {
        Runtime(backend)
    }

    /// The node's monotonic clock.
    pub fn now(&self) -> Monotonic {
        self.0.now()
    }

    /// The node's wall clock.
    pub fn unix_time(&self) -> UnixMillis {
        self.0.unix_time()
    }

    /// The node's files.
    pub fn fs(&self) -> &dyn FileSystem {
        self.0.fs()
    }

    /// Names the present run of the machine's operating system: what was written in the same run, by whatever process, is
    /// in the page cache still. None where the world cannot tell.
    pub fn boot_id(&self) -> Option<u128> {
        self.0.boot_id()
    }

    /// Waits until the monotonic clock has reached `deadline`.
    pub fn sleep_until(&self, deadline: Monotonic) -> BoxFuture<'static, ()> {
        self.0.sleep_until(deadline)
    }

    /// Waits for `duration` on the monotonic clock.
    pub fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep_until(self.0.now() + duration)
    }

    /// Gives `future` until `duration` has passed; a future that is ready by then wins.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, Elapsed> {
        let sleep = self.sleep(duration);
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = sleep => Err(Elapsed),
        }
    }

    /// Starts a task. Dropping the handle lets the task go on.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let task = self.0.spawn(
            name,
            Box::pin(async move {
                // The receiver is gone when nobody waits for the task: that is allowed.
                let _ = sender.send(future.await);
            }),
        );
        JoinHandle::new(receiver, task)
    }

    /// Runs `work` where it may compute or block for long, and gives its result.
    ///
    /// # Errors
    /// [`JoinError`] when the closure panicked or the runtime is shutting down.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.0
            .blocking(Box::new(move || {
                let _ = sender.send(work());
            }))
            .await;
        receiver.await.map_err(|_| JoinError)
    }

    /// Fills `buffer` with random bytes.
    pub fn fill_random(&self, buffer: &mut [u8]) {
        self.0.fill_random(buffer);
    }

    /// Sixty-four random bits.
    pub fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill_random(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Opens a listening socket. Where the address is in use it is tried again for a second: a process that was killed
    /// a moment ago keeps what it had until the operating system has taken it all back.
    ///
    /// # Errors
    /// Those of the operating system: address in use, not available, not permitted.
    pub async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        self.while_held(io::ErrorKind::AddrInUse, || self.0.listen(address)).await
    }

    /// Takes the lock file at `path`, creating it where it is missing, and is as patient as [`Runtime::listen`].
    ///
    /// # Errors
    /// Those of the file system; `WouldBlock` where another process holds it.
    pub async fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.while_held(io::ErrorKind::WouldBlock, || self.0.fs().lock(path)).await
    }

    /// Tries again while something is held that a process which has just ended may still hold.
    async fn while_held<T, F: Future<Output = io::Result<T>>>(
        &self,
        held: io::ErrorKind,
        attempt: impl Fn() -> F,
    ) -> io::Result<T> {
        for _ in 0..TRIES_WHILE_HELD {
            match attempt().await {
                Err(error) if error.kind() == held => self.sleep(HELD_BY_THE_DYING / TRIES_WHILE_HELD).await,
                result => return result,
            }
        }
        attempt().await
    }

    /// Connects to a host by name or literal address.
    ///
    /// # Errors
    /// Those of the operating system: refused, unreachable, timed out, name not found.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<BoxStream> {
        self.0.connect(host, port).await
    }
}
