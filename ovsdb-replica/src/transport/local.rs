//! A unix socket that wakes this process only for input.

use std::{
    io::{self, Write},
    net::Shutdown,
    os::unix::net,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixStream, unix::pipe},
};

/// A stream that waits for bytes, and for buffer space only while the buffer is full.
///
/// tokio's own stream always waits for both. Whenever the server reads a message, the kernel would wake this process to
/// report buffer space. That is work for the server before it can answer. A pipe end waits for only one of the two, and
/// tokio's pipe ends also read and write other files.
pub(super) struct Local {
    input: pipe::Receiver,
    socket: net::UnixStream,
    /// Set while the buffer is full.
    full: Option<pipe::Sender>,
}

impl Local {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        let socket = stream.into_std()?;
        Ok(Self {
            input: pipe::Receiver::from_owned_fd_unchecked(socket.try_clone()?.into())?,
            socket,
            full: None,
        })
    }

    /// The socket, for its options.
    pub(super) fn socket(&self) -> &net::UnixStream {
        &self.socket
    }
}

impl AsyncRead for Local {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_read(context, buffer)
    }
}

impl AsyncWrite for Local {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Self { socket, full, .. } = this;
        let full = match full {
            Some(full) => full,
            None => match socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => full.insert(
                    pipe::Sender::from_owned_fd_unchecked(socket.try_clone()?.into())?,
                ),
                written => return Poll::Ready(written),
            },
        };
        let written = ready!(Pin::new(full).poll_write(context, bytes))?;
        if written == bytes.len() {
            this.full = None;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}
