//! Futures that are under way, owned by one task and polled in the order in which they began: who is first among several
//! that are ready is decided by nothing else. Never spawns; what is under way ends with its owner.

use sillon_runtime::BoxFuture;
use std::{
    future::poll_fn,
    sync::Mutex,
    task::{Context, Poll},
};

/// What is under way. Each in a mutex that nobody locks: it makes the whole `Sync`, as its owners' futures have to be `Send`.
pub(crate) struct Flights<T>(Vec<Mutex<BoxFuture<'static, T>>>);

impl<T> Default for Flights<T> {
    fn default() -> Flights<T> {
        Flights(Vec::new())
    }
}

impl<T> Flights<T> {
    /// Begins something. It makes progress only while somebody asks for the next that is done.
    pub(crate) fn push(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.0.push(Mutex::new(Box::pin(future)));
    }

    /// The next thing that is done. Never, while nothing is under way.
    pub(crate) async fn next(&mut self) -> T {
        poll_fn(|context| self.poll(context)).await
    }

    /// The next thing that is done already, `None` where everything has to wait. Lets everything set out.
    pub(crate) async fn next_now(&mut self) -> Option<T> {
        poll_fn(|context| match self.poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        for index in 0..self.0.len() {
            let flight = self.0[index].get_mut().expect("nothing panics while it is polled and goes on");
            if let Poll::Ready(output) = flight.as_mut().poll(context) {
                drop(self.0.remove(index));
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    }
}
