//! A connection as a process holds it. Owns the halves and how dropping them ends it; the bytes are in `pipe`.

use super::pipe::Pipe;
use crate::profile::{self, Part};
use sillon_runtime::{File, ReadHalf, Stream, WriteHalf};
use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The receiving half.
struct Receiver {
    incoming: Arc<Pipe>,
    /// Keeps the other direction known to this end while it may still have to answer.
    _outgoing: Arc<Pipe>,
}

/// The sending half.
struct Sender {
    outgoing: Arc<Pipe>,
    _incoming: Arc<Pipe>,
}

/// Both halves.
pub(super) struct SimulatedStream {
    receiver: Receiver,
    sender: Sender,
    peer: SocketAddr,
    local: SocketAddr,
}

impl SimulatedStream {
    pub(super) fn new(incoming: Arc<Pipe>, outgoing: Arc<Pipe>) -> SimulatedStream {
        let (peer, local) = (outgoing.reader().address, outgoing.writer().address);
        let receiver = Receiver { incoming: incoming.clone(), _outgoing: outgoing.clone() };
        SimulatedStream { receiver, sender: Sender { outgoing, _incoming: incoming }, peer, local }
    }
}

// The process that held a half may be dead by the time that madsim drops it. Its kernel has then said all there was
// to say, and a new process of the machine must not be disturbed.
impl Drop for Receiver {
    fn drop(&mut self) {
        if self.incoming.halves_may_act(true) {
            self.incoming.drop_reader();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.outgoing.halves_may_act(false) {
            self.outgoing.drop_writer();
        }
    }
}

impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let _counted = profile::within(Part::Network);
        self.incoming.poll_receive(context, buffer)
    }
}

impl AsyncWrite for Sender {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let _counted = profile::within(Part::Network);
        self.outgoing.poll_send(context, &[IoSlice::new(bytes)])
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let _counted = profile::within(Part::Network);
        self.outgoing.poll_send(context, buffers)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outgoing.halves_may_act(false) {
            self.outgoing.send_fin();
        }
        Poll::Ready(Ok(()))
    }
}

impl WriteHalf for Sender {
    fn poll_send_file(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        file: &dyn File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        // As sendfile(2): first room in the socket, then so much of the file.
        let room = self.outgoing.poll_window(context);
        if room == 0 {
            return Poll::Pending;
        }
        let mut buffer = vec![0; length.min(room)];
        let read = file.read_at_now(&mut buffer, offset)?;
        if read == 0 {
            return Poll::Ready(Ok(0));
        }
        let sent = ready!(self.outgoing.poll_send(context, &[IoSlice::new(&buffer[..read])]))?;
        Poll::Ready(Ok(sent))
    }
}

impl AsyncRead for SimulatedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.receiver).poll_read(context, buffer)
    }
}

impl AsyncWrite for SimulatedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.sender).poll_write(context, bytes)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.sender).poll_write_vectored(context, buffers)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.sender).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.sender).poll_shutdown(context)
    }
}

impl Stream for SimulatedStream {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }
    fn local_addr(&self) -> SocketAddr {
        self.local
    }
    fn into_split(self: Box<Self>) -> (Box<dyn ReadHalf>, Box<dyn WriteHalf>) {
        (Box::new(self.receiver), Box::new(self.sender))
    }
}
