//! One run on one fresh thread. Owns its beginning and its end; knows nothing of what is simulated.

use super::{World, task, timer};
use std::{
    any::Any,
    cell::{Cell, RefCell},
    future::Future,
    panic::{AssertUnwindSafe, PanicHookInfo},
    pin::pin,
    sync::{Once, Weak},
    task::Poll,
    time::Duration,
};

/// Deeply nested futures of an unoptimised build need more than the usual 2 MiB. Only touched pages cost memory.
const STACK_BYTES: usize = 16 << 20;

thread_local! {
    static WORLDS: RefCell<Vec<Weak<World>>> = const { RefCell::new(Vec::new()) };
    static LOCATION: RefCell<String> = const { RefCell::new(String::new()) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Something panicked: a message, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked at {location}: {message}")]
pub struct Panic {
    /// What it said.
    pub message: String,
    /// File, line and column.
    pub location: String,
}

/// Runs one simulation to its end on a fresh thread, and cleans up after it.
///
/// `scheduler_seed` seeds madsim's executor (the order in which ready tasks run, the 50–100 ns that each step takes)
/// and the order of std's hash maps on that thread. All else comes from [`crate::decisions::Decisions`]. A run is
/// determined by both together.
///
/// Runs may go on in parallel on several threads; each has a world (or several) of its own.
///
/// # Errors
/// Where `f` panics, or where every task waits for ever. Panics in the tasks of simulated processes are not errors
/// here: they end that process and are kept in [`World::panics`].
///
/// # Panics
/// Where the operating system gives no thread.
pub fn run_seeded<T, F, Fut>(scheduler_seed: u64, f: F) -> Result<T, Panic>
where
    T: Send + 'static,
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T>,
{
    install_panic_hook();
    let thread = std::thread::Builder::new()
        .name(format!("run-{scheduler_seed}"))
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let run = AssertUnwindSafe(|| {
                let mut config = madsim::Config::default();
                config.net.packet_loss_rate = 0.0;
                madsim::runtime::Runtime::with_seed_and_config(scheduler_seed, config).block_on(whole(f))
            });
            // The outer one catches madsim's own panic where every task waits for ever.
            let result = std::panic::catch_unwind(run).unwrap_or_else(|payload| Err(describe(&*payload)));
            timer::uninstall();
            result
        });
    match thread.expect("the operating system gives a thread").join() {
        Ok(result) => result,
        Err(payload) => Err(describe(&*payload)),
    }
}

async fn whole<T, Fut: Future<Output = T>>(f: impl FnOnce() -> Fut) -> Result<T, Panic> {
    timer::install();
    let driver = madsim::task::spawn(timer::Driver);
    let mut future = pin!(async { f().await });
    let result = std::future::poll_fn(|context| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(payload) => Poll::Ready(Err(describe(&*payload))),
        }
    })
    .await;
    // madsim drops no task at the end of a run: without this each run would leave its tasks and disks behind.
    for world in WORLDS.take() {
        if let Some(world) = world.upgrade() {
            world.shut_down();
        }
    }
    timer::sleep(Duration::from_millis(1)).await;
    driver.abort();
    madsim::time::sleep(Duration::from_millis(1)).await;
    result
}

/// Has `world` shut down at the end of this thread's run.
pub(super) fn register(world: Weak<World>) {
    WORLDS.with_borrow_mut(|worlds| worlds.push(world));
}

/// What a caught panic said, and where (as the hook has noted).
pub(super) fn describe(payload: &(dyn Any + Send)) -> Panic {
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".to_owned(),
    };
    Panic { message, location: LOCATION.take() }
}

/// Runs `f`; panics in it are noted but not printed: they belong to a simulated process.
pub(super) fn quietly<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            QUIET.set(self.0);
        }
    }
    let _restore = Restore(QUIET.replace(!task::panics_are_printed()));
    f()
}

fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let location = info.location().map(ToString::to_string).unwrap_or_default();
            // Thread-locals may be gone already where a thread ends.
            let noted = LOCATION.try_with(|slot| *slot.borrow_mut() = location);
            if noted.is_err() || !QUIET.try_with(Cell::get).unwrap_or_default() {
                previous(info);
            }
        }));
    });
}
