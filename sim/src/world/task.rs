//! The tasks of simulated processes. Owns the fence around each: a panic ends the process, not the simulation; a
//! process that has died does nothing more; a slow processor takes its time for each step.

use super::{
    World,
    node::Node,
    run::{describe, quietly},
    timer::SleepUntil,
    timer::{now_ns, sleep_until_ns},
};
use crate::{decisions::Stream, profile};
use sillon_runtime::{AbortTask, BoxFuture};
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

static PRINT_PANICS: AtomicBool = AtomicBool::new(false);

/// Also prints the panics of simulated processes as they happen, with what `RUST_BACKTRACE` adds. For people who hunt
/// one; changes no run.
pub fn print_panics(print: bool) {
    PRINT_PANICS.store(print, Ordering::Relaxed);
}

pub(super) fn panics_are_printed() -> bool {
    PRINT_PANICS.load(Ordering::Relaxed)
}

/// A task of a process, with the fence around it.
pub(super) struct ProcessTask {
    pub(super) name: &'static str,
    pub(super) world: Arc<World>,
    pub(super) node: Arc<Node>,
    pub(super) incarnation: u64,
    pub(super) future: Option<BoxFuture<'static, ()>>,
    pub(super) slowness: Option<SleepUntil>,
}

impl ProcessTask {
    /// Whether the processor has come round to this task.
    fn poll_processor(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some((low_ns, high_ns)) = self.node.slowness_ns() else { return Poll::Ready(()) };
        let decisions = self.world.decisions();
        let sleep = self.slowness.get_or_insert_with(|| {
            sleep_until_ns(now_ns() + decisions.draw(Stream::Processor, "time of a step", low_ns, high_ns))
        });
        ready!(Pin::new(sleep).poll(context));
        self.slowness = None;
        Poll::Ready(())
    }

    fn panicked(&self, payload: &(dyn std::any::Any + Send)) {
        self.world.process_panicked(&self.node, self.incarnation, self.name, describe(payload));
    }

    /// What a task drops may panic, too.
    fn drop_future(&mut self) {
        let future = self.future.take();
        if let Err(payload) = quietly(|| catch_unwind(AssertUnwindSafe(|| drop(future)))) {
            self.panicked(&*payload);
        }
    }
}

impl Future for ProcessTask {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.node.live_incarnation() != this.incarnation {
            this.drop_future();
            return Poll::Ready(());
        }
        ready!(this.poll_processor(context));
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        let _counted = profile::within(this.node.part());
        let poll = quietly(|| catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))));
        match poll {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => {
                this.drop_future();
                Poll::Ready(())
            }
            Err(payload) => {
                this.panicked(&*payload);
                this.drop_future();
                Poll::Ready(())
            }
        }
    }
}

impl Drop for ProcessTask {
    fn drop(&mut self) {
        if self.future.is_some() {
            self.drop_future();
        }
    }
}

/// Ends a task of a simulated process.
pub(super) struct AbortProcessTask(pub(super) madsim::task::AbortHandle);

impl AbortTask for AbortProcessTask {
    fn abort(&self) {
        self.0.abort();
    }
}

/// For a task that was never started: its process was dead.
pub(super) struct NoTask;

impl AbortTask for NoTask {
    fn abort(&self) {}
}
