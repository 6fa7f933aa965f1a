//! The socket under jsonrpsee: bytes in both directions, echoes, and time.

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

/// How long reading waits for echo answers to be read. A server that asks again and again and reads nothing for this long is
/// not worth keeping.
const ECHO_DEADLINE: Duration = Duration::from_secs(5);

/// How often the server hears of us while nothing is read: it gives up a client that was silent for 10 s.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// For how long the socket is read once nothing can be written to it any more. A server that went said everything before, and
/// then the stream ends.
pub(super) const READ_AFTER_WRITE_ERROR: Duration = Duration::from_secs(1);

/// Bytes to make room for before each read.
const READ_AHEAD: usize = 64 << 10;

/// A socket, or TLS on one.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// What the two tasks of jsonrpsee and the session share.
///
/// The task that reads drives everything: it writes what the socket did not take at once, answers echoes, and sees to it that
/// the server is there.
pub(super) struct Wire {
    /// `None` once the session has given the connection up.
    stream: Option<Box<dyn Stream>>,
    input: BytesMut,
    framing: Framing,
    /// A long message, while a thread of its own takes it apart.
    long: Option<JoinHandle<Result<Incoming, MessageError>>>,
    output: Output,
    /// Why nothing can be written any more, and since when. What the server said before is read all the same.
    write_error: Option<(io::Error, Instant)>,
    /// Since when too many echo answers wait.
    echoes_since: Option<Instant>,
    liveness: Liveness,
    /// When the server last heard of us while nothing was read.
    kept_alive: Instant,
    timer: Pin<Box<Sleep>>,
    /// What the session has not taken yet.
    pub(super) inbox: Inbox,
    /// Whether nothing is read until the session takes something.
    is_held_up: bool,
    /// The task that reads.
    reader: Waker,
}

/// A [`Wire`] in several hands. No lock is held while anything waits.
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

    /// Sends a request after those that wait. The task that reads writes what the socket does not take at once.
    pub(super) fn send(&mut self, request: Bytes) {
        self.output.request(request);
        let reader = mem::replace(&mut self.reader, Waker::noop().clone());
        self.write(&mut Context::from_waker(&reader));
        self.reader = reader;
    }

    /// Closes the socket at once, with all that was not written yet, and ends the task that reads.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.output.clear();
        self.inbox = Inbox::default();
        self.reader.wake_by_ref();
    }

    /// The oldest item of the inbox. The task that reads goes on if it waited for room.
    pub(super) fn take(&mut self) -> Option<Received> {
        let item = self.inbox.pop();
        if self.is_held_up && !self.inbox.is_full() {
            self.reader.wake_by_ref();
        }
        item
    }

    /// Reads until a reply is there, and returns what jsonrpsee must know of it. All else is in the inbox.
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

    /// The next message of any kind. While it waits, the socket, a thread or the session will wake the task.
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
                    // What is left of the buffer would keep the room that the message took.
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
            // Whole messages were taken out before.
            self.framing.decode_eof(&mut self.input)?;
            return Poll::Ready(Err(TransportError::Closed));
        }
        self.heard();
        Poll::Ready(Ok(()))
    }

    /// A long message gets room of its own, which goes back to the system when it was read. What grows where it is would leave a
    /// hole below all that is kept of the message.
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

    /// Writes what the socket takes.
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

    /// When there is something to do if nothing comes.
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

    /// Does it.
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

    /// Tells the server that we are there, and asks the same of it, unless an echo waits to be written, which says as much.
    /// Questions of our own that it does not take must not keep us from reading: it may wait for that before it takes any.
    fn keep_alive(&mut self) {
        if !self.output.has_echoes() {
            self.output.echo(Bytes::from_static(message::PROBE));
        }
        self.kept_alive = Instant::now();
    }

    /// How long nothing was heard before says nothing of the server.
    fn heard(&mut self) {
        if self.liveness.heard() {
            self.inbox.push(Received::Responsive(true));
        }
    }
}
