//! Tasks: the handle of a started one and a set that ends with its owner. Owns no executor.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::oneshot;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A started task, as its backend knows it.
pub trait AbortTask: Send + Sync {
    /// Ends the task at its next suspension point. Idempotent.
    fn abort(&self);
}

/// The task ended without a result: it was aborted, it panicked, or the runtime shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinError;

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task ended without a result")
    }
}

impl std::error::Error for JoinError {}

/// Awaits a task's result. Dropping it detaches the task.
pub struct JoinHandle<T> {
    result: oneshot::Receiver<T>,
    task: Box<dyn AbortTask>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(result: oneshot::Receiver<T>, task: Box<dyn AbortTask>) -> JoinHandle<T> {
        JoinHandle { result, task }
    }

    /// Ends the task at its next suspension point.
    pub fn abort(&self) {
        self.task.abort();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinHandle")
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(context).map_err(|_| JoinError)
    }
}

/// Tasks that end when this is dropped, for owners that must not outlive themselves in the background.
#[derive(Default)]
pub struct Tasks(Vec<JoinHandle<()>>);

impl Tasks {
    /// Adds a task.
    pub fn push(&mut self, task: JoinHandle<()>) {
        self.0.push(task);
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tasks({})", self.0.len())
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}
