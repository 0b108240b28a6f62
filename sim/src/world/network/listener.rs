//! Listening sockets. Owns the queue of connections that wait to be accepted.

use super::{Process, stream::SimulatedStream};
use crate::world::{dead_process, lock};
use sillon_runtime::{BoxFuture, BoxStream, Listener};
use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

/// What a listening socket holds.
#[derive(Default)]
pub(super) struct Backlog(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<SimulatedStream>,
    accepting: Vec<Waker>,
}

impl Backlog {
    pub(super) fn len(&self) -> usize {
        lock(&self.0).waiting.len()
    }

    pub(super) fn push(&self, stream: SimulatedStream) {
        let mut state = lock(&self.0);
        state.waiting.push_back(stream);
        let accepting = std::mem::take(&mut state.accepting);
        drop(state);
        accepting.into_iter().for_each(Waker::wake);
    }

    /// Lets go of the connections that nobody has accepted, which resets or ends them.
    fn close(&self) {
        let waiting = std::mem::take(&mut lock(&self.0).waiting);
        drop(waiting);
    }
}

/// A listening socket as its process holds it.
pub(super) struct SimulatedListener {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
    pub(super) backlog: Arc<Backlog>,
}

impl Drop for SimulatedListener {
    fn drop(&mut self) {
        self.process.close_listener(self.address.port(), &self.backlog);
        self.backlog.close();
    }
}

impl Listener for SimulatedListener {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<BoxStream>> {
        Box::pin(std::future::poll_fn(|context| {
            if !self.process.is_alive() {
                return Poll::Ready(Err(dead_process()));
            }
            let mut state = lock(&self.backlog.0);
            if let Some(stream) = state.waiting.pop_front() {
                return Poll::Ready(Ok(Box::new(stream) as BoxStream));
            }
            state.accepting.retain(|waker| !waker.will_wake(context.waker()));
            state.accepting.push(context.waker().clone());
            Poll::Pending
        }))
    }
}
