//! Connections. Owns the traits that both worlds' sockets implement; never frames or interprets bytes.

use crate::{BoxFuture, File};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite};

/// How much [`WriteHalf::poll_send_file`] copies at a time where the world has no sendfile.
const COPY_CHUNK_BYTES: usize = 64 * 1024;

/// A connection that has not been split yet.
pub type BoxStream = Box<dyn Stream>;

/// The half of a connection that receives.
pub trait ReadHalf: AsyncRead + Send + Unpin {}

impl<T: AsyncRead + Send + Unpin> ReadHalf for T {}

/// The half of a connection that sends. Dropping it ends the outgoing direction.
pub trait WriteHalf: AsyncWrite + Send + Unpin {
    /// As `poll_write`, for bytes that more will follow at once: the world may hold them back to send both together
    /// (MSG_MORE), which saves the receiver a wake-up.
    fn poll_write_more(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write(context, bytes)
    }

    /// Sends up to `length` bytes of `file` from `offset`, without passing them through this process where the
    /// world can (sendfile(2)). Gives the number of bytes sent; 0 means that the file ends before `offset`.
    fn poll_send_file(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        file: &dyn File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut buffer = vec![0; length.min(COPY_CHUNK_BYTES)];
        let read = file.read_at_now(&mut buffer, offset)?;
        if read == 0 {
            return Poll::Ready(Ok(0));
        }
        let written = ready!(self.as_mut().poll_write(context, &buffer[..read]))?;
        Poll::Ready(Ok(written))
    }
}

/// An established connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// The other side's address.
    fn peer_addr(&self) -> SocketAddr;
    /// The address on this side.
    fn local_addr(&self) -> SocketAddr;
    /// Splits the connection so that two tasks can use it.
    fn into_split(self: Box<Self>) -> (Box<dyn ReadHalf>, Box<dyn WriteHalf>);
}

/// A listening socket. Dropping it closes the port.
pub trait Listener: Send + Sync {
    /// The address that it listens on, with the port it was given.
    fn local_addr(&self) -> SocketAddr;
    /// Waits for the next connection.
    fn accept(&self) -> BoxFuture<'_, io::Result<BoxStream>>;
}
