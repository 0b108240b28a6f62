//! Simulated time: what happens next, and when. Owns the queue of timers; knows nothing of node clocks.
//!
//! madsim's own sleeps are rounded up to 1 ms, cannot be cancelled (each leaves an entry in its heap until it is due),
//! and their callbacks run under its timer lock with a stale clock. So all waiting goes through this queue, whose
//! head alone is armed with madsim; one task, the driver, fires what is due, in order of (time, sequence).
//!
//! The queue belongs to the thread: a run has a thread of its own ([`super::run_seeded`]).
#![allow(clippy::disallowed_types)] // madsim's instants are simulated ones.

use super::{NodeId, network::Pipe};
use madsim::time::{Instant, Sleep, TimeHandle};
use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

const SECOND: u64 = 1_000_000_000;

thread_local! {
    static TIMERS: RefCell<Option<Timers>> = const { RefCell::new(None) };
}

/// What happens when a timer is due.
pub(super) enum Action {
    Wake(Waker),
    Deliver(Arc<Pipe>),
    Call(Box<dyn FnOnce() + Send>),
}

/// A timer that has been set: its time, and its place among those of the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey(u64, u64);

impl TimerKey {
    pub(super) fn due_ns(self) -> u64 {
        self.0
    }
}

struct Entry {
    action: Action,
    owner: Option<NodeId>,
}

struct Timers {
    queue: BTreeMap<TimerKey, Entry>,
    sequence: u64,
    /// When madsim will wake the driver. A time that is no longer wanted stays, for madsim takes nothing back; so as
    /// long as one of them comes early enough, no other is added.
    armed: BinaryHeap<Reverse<u64>>,
    driver: Option<Waker>,
    driving: bool,
    next_housekeeping_ns: u64,
    time: TimeHandle,
    start: Instant,
    sleep: Sleep,
}

impl Timers {
    fn now(&self) -> u64 {
        to_ns(self.time.elapsed())
    }

    /// Has madsim wake the driver at `due_ns` or before. False where that has passed already.
    fn arm(&mut self, due_ns: u64) -> bool {
        if self.armed.peek().is_some_and(|Reverse(first)| *first <= due_ns) {
            return true;
        }
        let Some(driver) = self.driver.clone() else { return true };
        let mut sleep = Pin::new(&mut self.sleep);
        // `reset` skips the rounding up to 1 ms.
        sleep.as_mut().reset(self.start + Duration::from_nanos(due_ns));
        let armed = sleep.poll(&mut Context::from_waker(&driver)).is_pending();
        if armed {
            self.armed.push(Reverse(due_ns));
        }
        armed
    }
}

fn to_ns(duration: Duration) -> u64 {
    duration.as_secs() * SECOND + u64::from(duration.subsec_nanos())
}

fn with<T>(f: impl FnOnce(&mut Timers) -> T) -> T {
    TIMERS
        .with_borrow_mut(|timers| f(timers.as_mut().expect("simulated time exists only inside `run_seeded`")))
}

/// Prepares this thread. Called inside madsim's context, before anything else.
pub(super) fn install() {
    let time = TimeHandle::current();
    let elapsed = time.elapsed();
    let timers = Timers {
        queue: BTreeMap::new(),
        sequence: 0,
        armed: BinaryHeap::new(),
        driver: None,
        driving: false,
        next_housekeeping_ns: SECOND,
        start: time.now_instant() - elapsed,
        sleep: time.sleep(Duration::ZERO),
        time,
    };
    TIMERS.with_borrow_mut(|slot| *slot = Some(timers));
}

/// Forgets all timers of this thread, and with them what they hold.
pub(super) fn uninstall() {
    // What is dropped may want to cancel timers: it must find the queue free.
    let timers = TIMERS.with_borrow_mut(Option::take);
    drop(timers);
}

/// Nanoseconds of simulated time since the run began.
///
/// # Panics
/// Outside [`super::run_seeded`].
pub fn now_ns() -> u64 {
    with(|timers| timers.now())
}

/// Sets a timer. The owner is the node whose clock the time was computed with, where there is one.
pub(super) fn schedule(due_ns: u64, owner: Option<NodeId>, action: Action) -> TimerKey {
    with(|timers| {
        timers.sequence += 1;
        let key = TimerKey(due_ns, timers.sequence);
        timers.queue.insert(key, Entry { action, owner });
        if !timers.driving
            && !timers.arm(due_ns)
            && let Some(driver) = &timers.driver
        {
            driver.wake_by_ref();
        }
        key
    })
}

/// Takes a timer back. Nothing happens where it has fired already, or where the run is over.
pub(super) fn cancel(key: TimerKey) {
    let entry =
        TIMERS.try_with(|slot| slot.borrow_mut().as_mut().and_then(|timers| timers.queue.remove(&key)));
    drop(entry);
}

/// Wakes every sleeper of a node, so that it computes its time anew: the node's clock has changed its rate.
pub(super) fn wake_sleepers_of(node: NodeId) {
    let wakers: Vec<Waker> = with(|timers| {
        let of_node = timers.queue.values().filter(|entry| entry.owner == Some(node));
        of_node
            .filter_map(
                |entry| if let Action::Wake(waker) = &entry.action { Some(waker.clone()) } else { None },
            )
            .collect()
    });
    for waker in wakers {
        waker.wake();
    }
}

/// The task that fires timers.
pub(super) struct Driver;

impl Future for Driver {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let due = with(|timers| {
                timers.driver.get_or_insert_with(|| context.waker().clone());
                timers.driving = true;
                let now = timers.now();
                while timers.armed.peek().is_some_and(|Reverse(first)| *first <= now) {
                    timers.armed.pop();
                }
                let Some(first) = timers.queue.first_entry() else {
                    timers.driving = false;
                    return None;
                };
                let due_ns = first.key().0;
                if due_ns <= now {
                    return Some(Some(first.remove().action));
                }
                timers.driving = false;
                (!timers.arm(due_ns)).then_some(None)
            });
            match due {
                None => break,
                Some(None) => {}
                Some(Some(Action::Wake(waker))) => waker.wake(),
                Some(Some(Action::Deliver(pipe))) => pipe.deliver(),
                Some(Some(Action::Call(call))) => call(),
            }
        }
        housekeeping();
        Poll::Pending
    }
}

/// madsim keeps about 160 bytes for each task ever spawned until somebody counts the tasks.
fn housekeeping() {
    let is_time = with(|timers| {
        let now = timers.now();
        let is_time = now >= timers.next_housekeeping_ns;
        if is_time {
            timers.next_housekeeping_ns = now + SECOND;
        }
        is_time
    });
    if is_time {
        madsim::runtime::Handle::current().metrics().num_tasks();
    }
}

/// Waits for a moment of simulated time, exactly.
#[must_use = "futures do nothing unless awaited"]
pub struct SleepUntil {
    due_ns: u64,
    timer: Option<(TimerKey, Waker)>,
}

/// Completes when [`now_ns`] has reached `due_ns`.
pub fn sleep_until_ns(due_ns: u64) -> SleepUntil {
    SleepUntil { due_ns, timer: None }
}

/// Waits for a duration of simulated time, exactly.
pub fn sleep(duration: Duration) -> SleepUntil {
    sleep_until_ns(now_ns().saturating_add(to_ns(duration)))
}

impl Future for SleepUntil {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if now_ns() >= self.due_ns {
            return Poll::Ready(());
        }
        if self.timer.as_ref().is_none_or(|(_, waker)| !waker.will_wake(context.waker())) {
            if let Some((key, _)) = self.timer.take() {
                cancel(key);
            }
            let waker = context.waker().clone();
            self.timer = Some((schedule(self.due_ns, None, Action::Wake(waker.clone())), waker));
        }
        Poll::Pending
    }
}

impl Drop for SleepUntil {
    fn drop(&mut self) {
        if let Some((key, _)) = self.timer.take() {
            cancel(key);
        }
    }
}
