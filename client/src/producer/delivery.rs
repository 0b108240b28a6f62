//! What becomes of a record, for those who wait for it. All records of a batch share one outcome: waiting costs nothing
//! that grows with the records but a waker each, and not waiting costs nothing.

use super::RecordMetadata;
use crate::ClientError;
use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

/// How many of the wakers that came last are compared with a new one.
const RECENT_WAKERS: usize = 4;

/// A batch that is written.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    /// `None` where nobody told it.
    pub(super) base_offset: Option<i64>,
    /// The broker's time, where it counts.
    pub(super) log_append_time: Option<i64>,
}

type Callback = Box<dyn FnOnce(Result<RecordMetadata, ClientError>) + Send>;

#[derive(Default)]
struct State {
    result: Option<Result<Written, ClientError>>,
    wakers: Vec<Waker>,
    callbacks: Vec<(i32, i64, Callback)>,
}

/// The outcome of a batch, known once.
#[derive(Default)]
pub(super) struct Outcome(Mutex<State>);

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outcome({:?})", self.lock().result)
    }
}

impl Outcome {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }

    /// Runs the callbacks in the order of their records, and then makes it known.
    pub(super) fn complete(&self, result: Result<Written, ClientError>) {
        let wakers = loop {
            let callbacks = {
                let mut state = self.lock();
                assert!(state.result.is_none(), "an outcome is known once");
                if state.callbacks.is_empty() {
                    state.result = Some(result);
                    break std::mem::take(&mut state.wakers);
                }
                std::mem::take(&mut state.callbacks)
            };
            for (index, timestamp, callback) in callbacks {
                callback(told(&result, index, timestamp));
            }
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Runs a callback once the outcome is known; at once, if it is.
    pub(super) fn on_complete(&self, index: i32, timestamp: i64, callback: Callback) {
        let mut state = self.lock();
        match state.result.clone() {
            None => state.callbacks.push((index, timestamp, callback)),
            Some(result) => {
                drop(state);
                callback(told(&result, index, timestamp));
            }
        }
    }
}

fn told(
    result: &Result<Written, ClientError>,
    index: i32,
    timestamp: i64,
) -> Result<RecordMetadata, ClientError> {
    let written = result.as_ref().map_err(Clone::clone)?;
    Ok(RecordMetadata {
        topic: written.topic.clone(),
        partition: written.partition,
        offset: written.base_offset.map(|base_offset| base_offset + i64::from(index)),
        timestamp: written.log_append_time.unwrap_or(timestamp),
    })
}

/// What becomes of a record. Await it, or drop it: the record is sent either way.
#[derive(Debug)]
#[must_use = "await it to learn whether the record was written, or say that you do not care"]
pub struct Delivery {
    pub(super) outcome: Arc<Outcome>,
    pub(super) index: i32,
    pub(super) timestamp: i64,
}

impl Delivery {
    /// Fire and forget: the record is sent, and nobody hears of its fate.
    pub fn forget(self) {}

    pub(super) fn call(self, callback: Callback) {
        self.outcome.on_complete(self.index, self.timestamp, callback);
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.outcome.lock();
        if let Some(result) = &state.result {
            return Poll::Ready(told(result, self.index, self.timestamp));
        }
        let recent = state.wakers.iter().rev().take(RECENT_WAKERS);
        if !recent.into_iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
