//! The socket under jsonrpsee: bytes in both directions, echoes, and deadlines.

use std::{
    future::Future,
    io, mem,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    task::{JoinHandle, spawn_blocking},
    time::{Instant, Sleep, sleep_until},
};
use tokio_util::codec::Decoder;

use super::{
    Framing, LONG_MESSAGE, MessageError, TransportError, TransportOptions,
    inbox::{Inbox, Received},
    liveness::{Liveness, Probe, Silence},
    message::{self, Incoming},
    output::Output,
};

/// How long reading pauses until the server reads echo replies. After that the server counts as faulty.
const ECHO_DEADLINE: Duration = Duration::from_secs(5);

/// How often the client sends a sign of life while it does not read; a server disconnects a client that was silent for
/// 10 s.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// How long the socket is still read after a write error. The last messages of a server that ended come before the end
/// of the stream.
pub(super) const READ_AFTER_WRITE_ERROR: Duration = Duration::from_secs(1);

/// Buffer space for each read.
const READ_AHEAD: usize = 64 << 10;

/// A socket, or TLS on one.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The shared state of jsonrpsee's two tasks and the session.
///
/// The reading task drives everything: it writes data that the socket did not take at once, answers echoes, and checks
/// that the server is alive.
pub(super) struct Wire {
    /// `None` once the session has closed the connection.
    stream: Option<Box<dyn Stream>>,
    input: BytesMut,
    framing: Framing,
    /// A long message, while a separate thread parses it.
    long: Option<JoinHandle<Result<Incoming, MessageError>>>,
    output: Output,
    /// The first write error, and its time. Messages of the server from before it are still read.
    write_error: Option<(io::Error, Instant)>,
    /// Since when too many echo replies wait.
    echoes_since: Option<Instant>,
    liveness: Liveness,
    /// When the server last got a sign of life while nothing was read.
    kept_alive: Instant,
    timer: Pin<Box<Sleep>>,
    /// The messages that the session has not taken yet.
    pub(super) inbox: Inbox,
    /// Whether reading pauses until the session takes a message.
    is_held_up: bool,
    /// The reading task.
    reader: Waker,
}

/// A shared [`Wire`]. The lock is never held across a wait.
#[derive(Clone)]
pub(super) struct SharedWire(Arc<Mutex<Wire>>);

impl SharedWire {
    pub(super) fn new(wire: Wire) -> Self {
        Self(Arc::new(Mutex::new(wire)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wire {
    pub(super) fn new(
        stream: impl Stream + 'static,
        probe: Option<Probe>,
        options: &TransportOptions,
    ) -> Self {
        Self {
            stream: Some(Box::new(stream)),
            input: BytesMut::new(),
            framing: Framing::new(options.limits),
            long: None,
            output: Output::default(),
            write_error: None,
            echoes_since: None,
            liveness: Liveness::new(probe),
            kept_alive: Instant::now(),
            timer: Box::pin(sleep_until(Instant::now())),
            inbox: Inbox::default(),
            is_held_up: false,
            reader: Waker::noop().clone(),
        }
    }

    /// Sends a request after the waiting ones. The reading task writes bytes that the socket does not take at once.
    pub(super) fn send(&mut self, request: Bytes) {
        self.output.request(request);
        let reader = mem::replace(&mut self.reader, Waker::noop().clone());
        self.write(&mut Context::from_waker(&reader));
        self.reader = reader;
    }

    /// Closes the socket at once, discards unsent data, and ends the reading task.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.output.clear();
        self.inbox = Inbox::default();
        self.reader.wake_by_ref();
    }

    /// The oldest item of the inbox. The reading task continues if it waited for room.
    pub(super) fn take(&mut self) -> Option<Received> {
        let item = self.inbox.pop();
        if self.is_held_up && !self.inbox.is_full() {
            self.reader.wake_by_ref();
        }
        item
    }

    /// Reads until a reply comes, and returns its substitute for jsonrpsee. All other messages go to the inbox.
    pub(super) fn poll_reply(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Vec<u8>, TransportError>> {
        self.reader.clone_from(context.waker());
        self.write(context);
        loop {
            match self.poll_message(context)? {
                Poll::Ready(Incoming::Reply(reply)) => {
                    let placeholder = message::placeholder(reply.id);
                    self.inbox.push(Received::Reply(reply));
                    return Poll::Ready(Ok(placeholder));
                }
                Poll::Ready(Incoming::Notification(notification)) => {
                    self.inbox.push(Received::Notification(notification));
                }
                Poll::Ready(Incoming::Echo(answer)) => {
                    self.output.echo(answer);
                    self.write(context);
                }
                Poll::Ready(Incoming::ProbeReply) => {}
                Poll::Pending => {
                    let Some(due) = self.due() else {
                        return Poll::Pending;
                    };
                    self.timer.as_mut().reset(due);
                    ready!(self.timer.as_mut().poll(context));
                    self.overdue()?;
                    self.write(context);
                }
            }
        }
    }

    /// The next message of any kind. A pending call is woken by the socket, a thread or the session.
    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Incoming, TransportError>> {
        loop {
            if let Some(long) = &mut self.long {
                let read = ready!(Pin::new(long).poll(context));
                self.long = None;
                self.heard();
                return Poll::Ready(Ok(read??));
            }
            let was_held_up = mem::replace(&mut self.is_held_up, self.inbox.is_full());
            if self.is_held_up {
                return Poll::Pending;
            }
            if was_held_up {
                self.heard();
            }
            if self.echoes_since.is_some() {
                return Poll::Pending;
            }
            match self.framing.decode(&mut self.input)? {
                Some(message) if message.len() > LONG_MESSAGE => {
                    // The rest of the buffer would keep the memory of the message.
                    self.input = BytesMut::from(&*self.input);
                    self.kept_alive = Instant::now();
                    self.long = Some(spawn_blocking(move || message::incoming(message)));
                }
                Some(message) => return Poll::Ready(Ok(message::incoming(message)?)),
                None => ready!(self.poll_fill(context))?,
            }
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.make_room();
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(TransportError::Closed));
        };
        let reading = pin!(stream.read_buf(&mut self.input));
        if ready!(reading.poll(context))? == 0 {
            // Complete messages were taken before.
            self.framing.decode_eof(&mut self.input)?;
            return Poll::Ready(Err(TransportError::Closed));
        }
        self.heard();
        Poll::Ready(Ok(()))
    }

    /// A long message gets a buffer of its own, whose memory returns to the system afterwards. Growing the buffer in
    /// place would leave a hole below everything that is kept of the message.
    fn make_room(&mut self) {
        let has_room = self.input.capacity().saturating_sub(self.input.len()) >= READ_AHEAD;
        if has_room || self.input.len() < LONG_MESSAGE {
            self.input.reserve(READ_AHEAD);
            return;
        }
        let mut larger = BytesMut::with_capacity(self.input.capacity().saturating_mul(2));
        larger.extend_from_slice(&self.input);
        self.input = larger;
    }

    /// Writes as much as the socket takes.
    fn write(&mut self, context: &mut Context<'_>) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        if let Poll::Ready(Err(error)) = self.output.poll_write(stream, context) {
            self.output.clear();
            self.write_error
                .get_or_insert_with(|| (error, Instant::now()));
        }
        self.echoes_since =
            (self.output.is_held_up()).then(|| self.echoes_since.unwrap_or_else(Instant::now));
    }

    /// The time of the next action, if no message comes.
    fn due(&self) -> Option<Instant> {
        if self.long.is_some() || self.is_held_up {
            return Some(self.kept_alive + KEEP_ALIVE);
        }
        if let Some((_, since)) = &self.write_error {
            return Some(*since + READ_AFTER_WRITE_ERROR);
        }
        match self.echoes_since {
            Some(since) => Some(since + ECHO_DEADLINE),
            None => self.liveness.due(),
        }
    }

    /// Performs the action that is due.
    fn overdue(&mut self) -> Result<(), TransportError> {
        if self.long.is_some() || self.is_held_up {
            self.keep_alive();
            return Ok(());
        }
        if let Some((error, _)) = self.write_error.take() {
            return Err(error.into());
        }
        if self.echoes_since.is_some() {
            return Err(TransportError::EchoFlood);
        }
        match self.liveness.overdue() {
            Silence::Ask => self.keep_alive(),
            Silence::Unresponsive => self.inbox.push(Received::Responsive(false)),
            Silence::Dead(silence) => return Err(TransportError::Inactive(silence)),
        }
        Ok(())
    }

    /// Sends the server a sign of life with an echo request, unless an echo already waits to be written. A server that
    /// does not take our echo must not stop the reading: it may wait for that before it reads.
    fn keep_alive(&mut self) {
        if !self.output.has_echoes() {
            self.output.echo(Bytes::from_static(message::PROBE));
        }
        self.kept_alive = Instant::now();
    }

    /// Silence from before the reading started says nothing about the server.
    fn heard(&mut self) {
        if self.liveness.heard() {
            self.inbox.push(Received::Responsive(true));
        }
    }
}
