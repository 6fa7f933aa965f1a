//! The connection under a session: a socket, messages, and `echo`.
//!
//! There is no task of its own: a message is written at once, as far as the socket takes it, and whoever waits for messages
//! writes the rest, answers what the server asks, and sees to it that the server is there. Who does not wait reads nothing; the
//! server sees that, and adds up what happens meanwhile instead of sending it bit by bit.

mod connect;
mod framing;
mod local;
mod message;
mod output;
mod pem;
mod timer;
mod tls;

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    task::{JoinHandle, spawn_blocking},
    time::{Instant, timeout},
};
use tokio_util::codec::Decoder;

pub(crate) use self::{
    connect::connect,
    message::{Notification, Reply, Text, request},
};
pub use self::{
    framing::{Framing, FramingError, Limits},
    message::MessageError,
    pem::FileError,
    tls::{TlsError, TlsIdentity, TlsOptions, Verify},
};
use self::{message::Incoming, output::Output, timer::Timer};

/// How long reading waits for echo answers to be read. A server that asks again and again and reads nothing for this long is
/// not worth keeping.
const ECHO_PATIENCE: Duration = Duration::from_secs(5);

/// Messages longer than this, in bytes, leave the buffer with their room, and are read by a thread of their own: a megabyte
/// takes some milliseconds.
const LONG_MESSAGE: usize = 1 << 20;

/// How often the server is told that we are there while nothing is read: it gives up who was silent for 10 s.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// For how long what the server said before is read once nothing can be written to it any more. A server that went said it all
/// before, and then the stream ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Bytes to make room for before each read.
const READ_AHEAD: usize = 64 << 10;

/// Why a connection ended, or never was.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The socket cannot be opened, or failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The connection was not made in time.
    #[error("no connection after {0:?}")]
    ConnectTimeout(Duration),
    /// A name stands for no address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// There can be no TLS with the files as they are.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// One side does not accept the other; the reason is that of the TLS library.
    #[error("the TLS handshake failed: {0}")]
    Handshake(io::Error),
    /// The stream holds something else than messages, or a message beyond the bounds.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// A message is not what JSON-RPC has.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The server said nothing for the probe's interval, and nothing for as long again after it was asked.
    #[error("the server does not answer: nothing came for {0:?}")]
    Inactive(Duration),
    /// The server asks for echoes and does not read them.
    #[error("the server asks for echoes and does not read them")]
    EchoFlood,
    /// A thread that reads a long message could not be had.
    #[error("a worker thread failed: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

/// How to connect, and what to put up with.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// Bounds of a message.
    pub limits: Limits,
    /// How long each step may take on the way to a connection: the look-up of a name, the socket to one of its addresses, the
    /// TLS handshake.
    pub connect_timeout: Duration,
    /// On TCP and TLS: after how long a silence the server is asked whether it is there; it then has as long again to answer.
    /// `None` never asks.
    pub inactivity_probe: Option<Duration>,
    /// On unix sockets: after how long a silence the server is asked whether it is there. If it does not answer for a third of
    /// this, it counts as unresponsive until something comes. The connection is kept: the kernel says when the server is gone.
    pub local_probe: Duration,
    /// For `ssl:` remotes.
    pub tls: Option<TlsOptions>,
}

impl Default for TransportOptions {
    /// [`Limits::default`], 30 s for unix sockets, 5 s for the other times, and no TLS.
    fn default() -> Self {
        let five = Duration::from_secs(5);
        Self {
            limits: Limits::default(),
            connect_timeout: five,
            inactivity_probe: Some(five),
            local_probe: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// A socket, or TLS on one.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// When to ask the server whether it is there.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// After how long a silence.
    after: Duration,
    /// How long it has to answer.
    patience: Duration,
    /// Whether the connection ends if it does not.
    is_fatal: bool,
}

impl Probe {
    fn of_network(after: Duration) -> Self {
        Self {
            after,
            patience: after,
            is_fatal: true,
        }
    }

    fn of_local_socket(after: Duration) -> Self {
        Self {
            after,
            patience: after / 3,
            is_fatal: false,
        }
    }
}

/// A connection.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    input: BytesMut,
    framing: Framing,
    /// A long message, while it is read by a thread of its own.
    long: Option<JoinHandle<Result<Incoming, MessageError>>>,
    output: Output,
    /// Why nothing can be written any more, and since when. What the server said before is read all the same.
    broken: Option<(io::Error, Instant)>,
    /// Since when too many echo answers wait.
    held_up: Option<Instant>,
    probe: Option<Probe>,
    /// When the last bytes came, or the question went out.
    heard: Instant,
    /// Whether the question is out.
    probed: bool,
    /// Whether the server answers, and whether the session knows.
    responsive: bool,
    told_responsive: bool,
    /// When the server was last told that we are there. It does not see what is read of that which the kernel took from it.
    told: Instant,
    timer: Timer,
}

/// What is for the session.
#[derive(Debug)]
pub(crate) enum Received {
    Reply(Reply),
    Notification(Notification),
    /// The server does not answer a [`Probe`] that is not fatal, or does so again.
    Responsive(bool),
}

impl Connection {
    fn new(
        stream: impl Stream + 'static,
        probe: Option<Probe>,
        options: &TransportOptions,
    ) -> Self {
        let now = Instant::now();
        Self {
            stream: Box::new(stream),
            input: BytesMut::new(),
            framing: Framing::new(options.limits),
            long: None,
            output: Output::default(),
            broken: None,
            held_up: None,
            probe,
            heard: now,
            probed: false,
            responsive: true,
            told_responsive: true,
            told: now,
            timer: Timer::default(),
        }
    }

    /// Sends a message after those that wait. What the socket does not take at once is written by [`Connection::receive`].
    pub(crate) fn send(&mut self, message: Bytes) {
        self.output.request(message);
        self.write(&mut Context::from_waker(Waker::noop()));
    }

    /// Waits for a message that is for the session, at most until then: `None` if none came. It can be dropped and called
    /// again, and nothing is lost.
    pub(crate) async fn receive(
        &mut self,
        until: Option<Instant>,
    ) -> Result<Option<Received>, TransportError> {
        if !self.input.is_empty() && self.told.elapsed() > KEEP_ALIVE {
            self.tell();
        }
        poll_fn(|context| self.poll_receive(until, context)).await
    }

    /// Waits for something else, with nothing read. The server sees that we are there.
    pub(crate) async fn hold<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        loop {
            if let Ok(ended) = timeout(KEEP_ALIVE, &mut waiting).await {
                self.listens_again();
                return ended;
            }
            self.tell();
        }
    }

    /// Whether the server answered when it was asked last.
    pub(crate) fn is_responsive(&self) -> bool {
        self.responsive
    }

    fn poll_receive(
        &mut self,
        until: Option<Instant>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Received>, TransportError>> {
        self.write(context);
        loop {
            if self.told_responsive != self.responsive {
                self.told_responsive = self.responsive;
                return Poll::Ready(Ok(Some(Received::Responsive(self.responsive))));
            }
            let received = match self.poll_message(context)? {
                Poll::Ready(Incoming::Reply(reply)) => Received::Reply(reply),
                Poll::Ready(Incoming::Notification(notification)) => {
                    Received::Notification(notification)
                }
                Poll::Ready(Incoming::Echo(answer)) => {
                    self.output.echo(answer);
                    self.write(context);
                    continue;
                }
                Poll::Ready(Incoming::ProbeReply) => continue,
                Poll::Pending => {
                    let Some(due) = self.due().into_iter().chain(until).min() else {
                        return Poll::Pending;
                    };
                    ready!(self.timer.poll(due, context));
                    if until.is_some_and(|until| until <= due) {
                        return Poll::Ready(Ok(None));
                    }
                    self.overdue()?;
                    self.write(context);
                    continue;
                }
            };
            return Poll::Ready(Ok(Some(received)));
        }
    }

    /// The next message of any kind. While it waits, either the socket or a thread will wake the task.
    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Incoming, TransportError>> {
        loop {
            if let Some(long) = &mut self.long {
                let read = ready!(Pin::new(long).poll(context));
                self.long = None;
                self.listens_again();
                return Poll::Ready(Ok(read??));
            }
            if self.held_up.is_some() {
                return Poll::Pending;
            }
            match self.framing.decode(&mut self.input)? {
                Some(message) if message.len() > LONG_MESSAGE => {
                    // What is left of the buffer would keep the room that the message took.
                    self.input = BytesMut::from(&*self.input);
                    self.told = Instant::now();
                    self.long = Some(spawn_blocking(move || message::incoming(&message)));
                }
                Some(message) => return Poll::Ready(Ok(message::incoming(&message)?)),
                None => ready!(self.poll_fill(context))?,
            }
        }
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.make_room();
        let reading = pin!(self.stream.read_buf(&mut self.input));
        let read = ready!(reading.poll(context))?;
        if read == 0 {
            // Whole messages were taken out before.
            self.framing.decode_eof(&mut self.input)?;
            return Poll::Ready(Err(TransportError::Closed));
        }
        self.listens_again();
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
        if let Poll::Ready(Err(error)) = self.output.poll_write(&mut self.stream, context) {
            self.output.clear();
            self.broken.get_or_insert_with(|| (error, Instant::now()));
        }
        self.held_up =
            (self.output.is_held_up()).then(|| self.held_up.unwrap_or_else(Instant::now));
    }

    /// When there is something to do if nothing comes.
    fn due(&self) -> Option<Instant> {
        if self.long.is_some() {
            return Some(self.told + KEEP_ALIVE);
        }
        if let Some((_, since)) = &self.broken {
            return Some(*since + LAST_WORDS);
        }
        match self.held_up {
            Some(since) => Some(since + ECHO_PATIENCE),
            // Asked once, a local server answers before it does anything else when it is back.
            None if !self.responsive => None,
            None => self.probe.map(|probe| {
                let wait = if self.probed {
                    probe.patience
                } else {
                    probe.after
                };
                self.heard + wait
            }),
        }
    }

    /// Does it.
    fn overdue(&mut self) -> Result<(), TransportError> {
        if self.long.is_some() {
            self.tell();
            return Ok(());
        }
        if let Some((error, _)) = self.broken.take() {
            return Err(error.into());
        }
        match self.probe {
            _ if self.held_up.is_some() => Err(TransportError::EchoFlood),
            Some(probe) if self.probed && probe.is_fatal => {
                Err(TransportError::Inactive(probe.after + probe.patience))
            }
            Some(_) if self.probed => {
                self.responsive = false;
                Ok(())
            }
            _ => {
                self.tell();
                self.heard = self.told;
                self.probed = true;
                Ok(())
            }
        }
    }

    /// Tells the server that we are there, and asks the same of it, unless an echo waits to be written, which says as much.
    /// Questions of our own that it does not take must not keep us from reading: it may wait for that before it takes any.
    fn tell(&mut self) {
        if !self.output.has_echoes() {
            self.output.echo(Bytes::from_static(message::PROBE));
        }
        self.write(&mut Context::from_waker(Waker::noop()));
        self.told = Instant::now();
    }

    /// How long nothing was heard before says nothing of the server.
    fn listens_again(&mut self) {
        self.heard = Instant::now();
        self.probed = false;
        self.responsive = true;
    }
}

#[cfg(test)]
mod tests;
