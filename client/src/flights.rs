//! Futures that are under way, owned by one task and polled in the order in which they began: who is first among several
//! that are ready is decided by nothing else. Never spawns; what is under way ends with its owner.

use sillon_runtime::BoxFuture;
use std::{future::poll_fn, task::Poll};

/// What is under way.
pub(crate) struct Flights<T>(Vec<BoxFuture<'static, T>>);

impl<T> Default for Flights<T> {
    fn default() -> Flights<T> {
        Flights(Vec::new())
    }
}

impl<T> Flights<T> {
    /// Begins something. It makes progress only while somebody waits for [`Flights::next`].
    pub(crate) fn push(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.0.push(Box::pin(future));
    }

    /// Ends everything that is under way.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The next thing that is done. Never, while nothing is under way.
    pub(crate) async fn next(&mut self) -> T {
        poll_fn(|context| {
            for index in 0..self.0.len() {
                if let Poll::Ready(output) = self.0[index].as_mut().poll(context) {
                    drop(self.0.remove(index));
                    return Poll::Ready(output);
                }
            }
            Poll::Pending
        })
        .await
    }
}
