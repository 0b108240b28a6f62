//! A machine's two clocks. Owns the mapping from simulated time to what a node believes; sets no timers itself
//! but for sleeps on the node's own clock.

use super::{
    NodeId, lock,
    timer::{self, Action, TimerKey, now_ns},
};
use sillon_runtime::{Monotonic, UnixMillis};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

/// What every wall clock shows when the simulation begins, before its own offset: 2023-11-14T22:13:20Z.
pub const EPOCH_UNIX_MS: i64 = 1_700_000_000_000;
/// The fastest and slowest clock allowed, in parts per million.
pub const MAX_DRIFT_PPM: i64 = 500_000;
const MILLION: i128 = 1_000_000;

/// A machine's clocks: the monotonic one runs with a drift and never goes back, the wall clock follows it and may jump.
pub struct Clock {
    node: NodeId,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    drift_ppm: i64,
    /// The simulated time since which the drift holds, and what the monotonic clock showed then.
    since_ns: u64,
    local_ns: u64,
    /// What the wall clock is ahead of the monotonic one.
    wall_ahead_ns: i128,
}

impl State {
    fn local(&self, now: u64) -> u64 {
        let passed = now - self.since_ns;
        if self.drift_ppm == 0 {
            return self.local_ns + passed;
        }
        self.local_ns + (i128::from(passed) * (MILLION + i128::from(self.drift_ppm)) / MILLION) as u64
    }

    /// The first simulated time at which the clock shows `local` or more.
    fn global(&self, local: u64) -> u64 {
        let ahead = local.saturating_sub(self.local_ns);
        if self.drift_ppm == 0 {
            return self.since_ns.saturating_add(ahead);
        }
        let rate = MILLION + i128::from(self.drift_ppm);
        let passed = (i128::from(ahead) * MILLION + rate - 1) / rate;
        self.since_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn rebase(&mut self, now: u64) {
        self.local_ns = self.local(now);
        self.since_ns = now;
    }
}

impl Clock {
    pub(super) fn new(node: NodeId) -> Clock {
        let state = State {
            drift_ppm: 0,
            since_ns: now_ns(),
            local_ns: 0,
            wall_ahead_ns: i128::from(EPOCH_UNIX_MS) * MILLION + i128::from(now_ns()),
        };
        Clock { node, state: Mutex::new(state) }
    }

    /// What the monotonic clock shows.
    pub fn monotonic(&self) -> Monotonic {
        Monotonic(lock(&self.state).local(now_ns()))
    }

    /// What the wall clock shows.
    pub fn unix_time(&self) -> UnixMillis {
        let state = *lock(&self.state);
        let wall_ns = i128::from(state.local(now_ns())) + state.wall_ahead_ns;
        UnixMillis(wall_ns.div_euclid(MILLION) as i64)
    }

    /// How much faster than simulated time the clocks run.
    pub fn drift_ppm(&self) -> i64 {
        lock(&self.state).drift_ppm
    }

    /// Changes the rate from now on. What the clocks show does not jump.
    pub(super) fn set_drift(&self, drift_ppm: i64) {
        assert!(drift_ppm.abs() <= MAX_DRIFT_PPM, "a drift of {drift_ppm} ppm is beyond {MAX_DRIFT_PPM}");
        {
            let mut state = lock(&self.state);
            state.rebase(now_ns());
            state.drift_ppm = drift_ppm;
        }
        timer::wake_sleepers_of(self.node);
    }

    /// Steps the wall clock. The monotonic one goes on as if nothing had happened.
    pub(super) fn jump_wall(&self, by_ms: i64) {
        lock(&self.state).wall_ahead_ns += i128::from(by_ms) * MILLION;
    }

    /// The machine powers up: its monotonic clock begins somewhere else, its wall clock is kept by the battery.
    pub(super) fn power_up(&self, local_ns: u64) {
        let mut state = lock(&self.state);
        let old = state.local(now_ns());
        state.wall_ahead_ns += i128::from(old) - i128::from(local_ns);
        state.since_ns = now_ns();
        state.local_ns = local_ns;
    }

    /// Completes when the monotonic clock has reached `deadline`.
    pub(super) fn sleep_until(self: &Arc<Self>, deadline: Monotonic) -> NodeSleep {
        NodeSleep { clock: self.clone(), deadline_ns: deadline.0, timer: None }
    }
}

/// A sleep on a node's own clock.
pub(super) struct NodeSleep {
    clock: Arc<Clock>,
    deadline_ns: u64,
    timer: Option<(TimerKey, Waker)>,
}

impl NodeSleep {
    fn disarm(&mut self) {
        if let Some((key, _)) = self.timer.take() {
            timer::cancel(key);
        }
    }
}

impl Future for NodeSleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (now, state) = (now_ns(), *lock(&self.clock.state));
        if state.local(now) >= self.deadline_ns {
            self.disarm();
            return Poll::Ready(());
        }
        let due_ns = state.global(self.deadline_ns).max(now + 1);
        // Polled again for another reason (a `select!`): the timer that is set already will do.
        let set = self
            .timer
            .as_ref()
            .is_some_and(|(key, waker)| key.due_ns() == due_ns && waker.will_wake(context.waker()));
        if !set {
            self.disarm();
            let waker = context.waker().clone();
            let key = timer::schedule(due_ns, Some(self.clock.node), Action::Wake(waker.clone()));
            self.timer = Some((key, waker));
        }
        Poll::Pending
    }
}

impl Drop for NodeSleep {
    fn drop(&mut self) {
        self.disarm();
    }
}
