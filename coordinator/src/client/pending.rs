//! A request on its way. Owns the waiting; how an answer is read is the request's own.

use super::{error::ClientError, session::RawReply};
use crate::types::Zxid;
use sillon_protocol::zookeeper::{Jute, OpCode, Reader};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::sync::oneshot;

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<T> {
    /// The last transaction that the answer has seen; for a write that succeeded, its own.
    pub zxid: Zxid,
    /// What was asked for.
    pub value: T,
}

type Outcome = Result<RawReply, ClientError>;
type Decode<T> = Box<dyn FnOnce(Outcome) -> Result<Reply<T>, ClientError> + Send>;

enum Stage<T> {
    Refused(ClientError),
    Waiting(oneshot::Receiver<Outcome>, Decode<T>),
    Done,
}

/// A request on its way, whether or not it is awaited. Ready once.
#[must_use = "the request is sent in any case, but nobody will know how it ended"]
pub struct Pending<T>(Stage<T>);

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl<T: 'static> Pending<T> {
    /// A request that is not sent.
    pub(super) fn refused(error: ClientError) -> Pending<T> {
        Pending(Stage::Refused(error))
    }

    /// A request whose answer's body says it all.
    pub(super) fn waiting(
        receiver: oneshot::Receiver<Outcome>,
        decode: impl FnOnce(&[u8]) -> Result<T, ClientError> + Send + 'static,
    ) -> Pending<T> {
        Pending::deciding(receiver, move |outcome| {
            let reply = outcome?;
            Ok(Reply { zxid: reply.zxid, value: decode(&reply.body)? })
        })
    }

    /// A request for which an error may be an answer.
    pub(super) fn deciding(
        receiver: oneshot::Receiver<Outcome>,
        decode: impl FnOnce(Outcome) -> Result<Reply<T>, ClientError> + Send + 'static,
    ) -> Pending<T> {
        Pending(Stage::Waiting(receiver, Box::new(decode)))
    }
}

impl<T: Unpin> Future for Pending<T> {
    type Output = Result<Reply<T>, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match &mut self.0 {
            Stage::Refused(_) | Stage::Done => None,
            // The driver ends without an answer only when the client is dropped, or with its node.
            Stage::Waiting(receiver, _) => {
                Some(ready!(Pin::new(receiver).poll(context)).unwrap_or(Err(ClientError::Closed)))
            }
        };
        match (std::mem::replace(&mut self.0, Stage::Done), outcome) {
            (Stage::Refused(error), _) => Poll::Ready(Err(error)),
            (Stage::Waiting(_, decode), Some(outcome)) => Poll::Ready(decode(outcome)),
            _ => panic!("a request is not awaited again after its answer"),
        }
    }
}

/// Reads the record that an answer's body begins with.
pub(super) fn decode<'a, T: Jute<'a>>(operation: OpCode, body: &'a [u8]) -> Result<T, ClientError> {
    T::read(&mut Reader::new(body)).map_err(|source| ClientError::Malformed { operation, source })
}
