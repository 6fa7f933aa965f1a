//! The output queue: echo replies before requests, and each message whole.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

/// The limit of waiting echo replies; above it nothing is read.
const QUEUED_ECHOES: usize = 4;

/// The messages that the socket has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The rest of the message that is being written.
    current: Bytes,
    echoes: VecDeque<Bytes>,
    requests: VecDeque<Bytes>,
    /// Whether the stream may buffer written data, as TLS does when the socket is full.
    is_unflushed: bool,
}

impl Output {
    /// Queues an echo reply, or our own echo request.
    pub(super) fn echo(&mut self, message: Bytes) {
        self.echoes.push_back(message);
    }

    pub(super) fn request(&mut self, message: Bytes) {
        self.requests.push_back(message);
    }

    /// Whether the limit of waiting echo replies is reached.
    pub(super) fn is_held_up(&self) -> bool {
        self.echoes.len() >= QUEUED_ECHOES
    }

    /// Whether an echo request or reply waits.
    pub(super) fn has_echoes(&self) -> bool {
        !self.echoes.is_empty()
    }

    /// Drops everything, since nothing can be written any more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Writes as much as the stream takes; ready when the queue is empty.
    pub(super) fn poll_write(
        &mut self,
        mut stream: impl AsyncWrite + Unpin,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.current.is_empty() {
                match self
                    .echoes
                    .pop_front()
                    .or_else(|| self.requests.pop_front())
                {
                    Some(next) => self.current = next,
                    None => break,
                }
            }
            let written = ready!(Pin::new(&mut stream).poll_write(context, &self.current))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.current.advance(written);
            self.is_unflushed = true;
        }
        if self.is_unflushed {
            ready!(Pin::new(&mut stream).poll_flush(context))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}
