//! Real sockets, with TCP_NODELAY always set and sendfile(2) for files.

use crate::{BoxFuture, BoxStream, File, Listener, ReadHalf, Stream, WriteHalf};
use std::{
    io,
    net::SocketAddr,
    os::fd::AsRawFd,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

pub(super) async fn listen(address: SocketAddr) -> io::Result<Box<dyn Listener>> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok(Box::new(TokioListener { listener, address }))
}

pub(super) async fn connect(host: &str, port: u16) -> io::Result<BoxStream> {
    wrap(TcpStream::connect((host, port)).await?)
}

fn wrap(stream: TcpStream) -> io::Result<BoxStream> {
    stream.set_nodelay(true)?;
    let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
    Ok(Box::new(TokioStream { stream, peer, local }))
}

struct TokioListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener for TokioListener {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn accept(&self) -> BoxFuture<'_, io::Result<BoxStream>> {
        Box::pin(async { wrap(self.listener.accept().await?.0) })
    }
}

struct TokioStream {
    stream: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
}

impl AsyncRead for TokioStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TokioStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Stream for TokioStream {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }
    fn local_addr(&self) -> SocketAddr {
        self.local
    }
    fn into_split(self: Box<Self>) -> (Box<dyn ReadHalf>, Box<dyn WriteHalf>) {
        let (read, write) = self.stream.into_split();
        (Box::new(TokioReadHalf(read)), Box::new(TokioWriteHalf(write)))
    }
}

struct TokioReadHalf(OwnedReadHalf);

impl AsyncRead for TokioReadHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

struct TokioWriteHalf(OwnedWriteHalf);

impl AsyncWrite for TokioWriteHalf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl WriteHalf for TokioWriteHalf {
    fn poll_write_more(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = self.0.as_ref();
        retry(stream, context, || {
            let flags = libc::MSG_MORE | libc::MSG_NOSIGNAL;
            // SAFETY: the pointer and the length are those of a slice that is borrowed for the call.
            unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) }
        })
    }

    fn poll_send_file(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        file: &dyn File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let Some(file_descriptor) = file.raw_fd() else {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the file is of another world",
            )));
        };
        let stream: &TcpStream = self.0.as_ref();
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        retry(stream, context, || {
            let mut position = offset;
            // SAFETY: both descriptors stay open for the call: the stream is borrowed, and so is the file.
            unsafe { libc::sendfile(stream.as_raw_fd(), file_descriptor, &mut position, length) }
        })
    }
}

/// Makes a system call that sends, until it sends something or fails; waits where the socket takes nothing.
fn retry(
    stream: &TcpStream,
    context: &mut Context<'_>,
    call: impl Fn() -> libc::ssize_t,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_write_ready(context))?;
        let sent = stream
            .try_io(Interest::WRITABLE, || usize::try_from(call()).map_err(|_| io::Error::last_os_error()));
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => return Poll::Ready(sent),
        }
    }
}
