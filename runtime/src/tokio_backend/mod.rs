//! The production backend: this machine's clocks, tasks and randomness on tokio. Sockets are in `net`, files in `fs`.

mod fs;
mod net;

use crate::{AbortTask, Backend, BoxFuture, BoxStream, FileSystem, Listener, Monotonic, Runtime, UnixMillis};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

struct TokioBackend {
    start: Instant,
    fs: fs::RealFileSystem,
}

/// A handle on this machine. It must be used inside a tokio runtime, such as [`block_on`] starts.
pub fn runtime() -> Runtime {
    Runtime::new(Arc::new(TokioBackend { start: Instant::now(), fs: fs::RealFileSystem }))
}

/// Starts a multi-threaded tokio runtime, runs `main` on it to its end, and stops.
///
/// # Errors
/// Where the operating system gives no threads or no event queue.
pub fn block_on<F: Future>(
    worker_threads: Option<usize>,
    main: impl FnOnce(Runtime) -> F,
) -> io::Result<F::Output> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = worker_threads {
        builder.worker_threads(threads);
    }
    let tokio = builder.enable_all().thread_name("sillon").build()?;
    let output = tokio.block_on(async { main(runtime()).await });
    tokio.shutdown_timeout(Duration::from_secs(5));
    Ok(output)
}

/// Completes at the first SIGTERM or SIGINT, with its name.
///
/// # Errors
/// Where the signal handlers cannot be installed.
pub async fn stop_signal() -> io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        biased;
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}

struct TokioTask(tokio::task::AbortHandle);

impl AbortTask for TokioTask {
    fn abort(&self) {
        self.0.abort();
    }
}

impl Backend for TokioBackend {
    fn now(&self) -> Monotonic {
        Monotonic(
            u64::try_from(self.start.elapsed().as_nanos()).expect("a process runs for less than 584 years"),
        )
    }

    fn unix_time(&self) -> UnixMillis {
        // A clock before 1970 is a broken one; 0 keeps time stamps legal until it is set right.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep_until(&self, deadline: Monotonic) -> BoxFuture<'static, ()> {
        match self.start.checked_add(Duration::from_nanos(deadline.0)) {
            Some(instant) => Box::pin(tokio::time::sleep_until(instant.into())),
            None => Box::pin(std::future::pending()),
        }
    }

    fn spawn(&self, _name: &'static str, future: BoxFuture<'static, ()>) -> Box<dyn AbortTask> {
        Box::new(TokioTask(tokio::spawn(future).abort_handle()))
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let task = tokio::task::spawn_blocking(work);
        // A panic in the closure shows as a missing result to the caller of `Runtime::blocking`.
        Box::pin(async move { drop(task.await) })
    }

    fn fill_random(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system gives random bytes");
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(net::listen(address))
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(net::connect(host, port))
    }

    fn fs(&self) -> &dyn FileSystem {
        &self.fs
    }

    fn boot_id(&self) -> Option<u128> {
        // A UUID, by Linux; other systems have no such file.
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
    }
}
