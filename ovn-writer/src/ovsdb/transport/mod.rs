//! The connection under a session: a socket, messages, and `echo`, in two halves.
//!
//! A task of its own does all writing, so that an `echo` is answered before all that waits, and reading does not wait for
//! writing. It ends with the guard of the connection.

mod connect;
mod framing;
mod message;
mod tls;

use std::{io, pin::pin, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{codec::Decoder, task::AbortOnDropHandle};

use self::message::Incoming;
pub(crate) use self::{
    connect::connect,
    message::{Notification, Reply, Text, request},
};
pub use self::{
    framing::{Framing, FramingError, Limits},
    message::MessageError,
    tls::{TlsError, TlsIdentity, TlsOptions, Verify},
};

/// Requests that wait for the socket; more make their senders wait.
const QUEUED_REQUESTS: usize = 16;

/// Echo answers that wait for the socket; then reading waits, too.
const QUEUED_ECHOES: usize = 4;

/// How long reading waits for echo answers to be read. A server that asks again and again and reads nothing for this long is
/// not worth keeping.
const ECHO_PATIENCE: Duration = Duration::from_secs(5);

/// Messages longer than this, in bytes, leave the buffer with their room, and are read by a thread of their own: a megabyte
/// takes some milliseconds.
const LONG_MESSAGE: usize = 1 << 20;

/// How often the server is told that we are there while nothing is read: it gives up who was silent for 10 s.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

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
    /// The writing half has ended.
    #[error("the connection is no longer written to")]
    NotWriting,
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
    /// `None` never asks. On unix sockets this is never done.
    pub inactivity_probe: Option<Duration>,
    /// For `ssl:` remotes.
    pub tls: Option<TlsOptions>,
}

impl Default for TransportOptions {
    /// [`Limits::default`], 5 s for both times, and no TLS.
    fn default() -> Self {
        let five = Duration::from_secs(5);
        Self {
            limits: Limits::default(),
            connect_timeout: five,
            inactivity_probe: Some(five),
            tls: None,
        }
    }
}

/// A connection: its two halves, and the guard of its writing task.
pub(crate) struct Connection {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) writer: AbortOnDropHandle<()>,
}

fn split<S>(stream: S, probe: Option<Duration>, options: &TransportOptions) -> Connection
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, write) = tokio::io::split(stream);
    let (requests, request_queue) = mpsc::channel(QUEUED_REQUESTS);
    let (echoes, echo_queue) = mpsc::channel(QUEUED_ECHOES);
    let writer = tokio::spawn(write_all(write, request_queue, echo_queue));
    Connection {
        sender: Sender(requests),
        receiver: Receiver {
            read: Box::new(read),
            buffer: BytesMut::new(),
            framing: Framing::new(options.limits),
            echoes,
            probe,
            heard: Instant::now(),
            probed: false,
        },
        writer: AbortOnDropHandle::new(writer),
    }
}

/// Writes until both queues are closed or the socket fails; the reading half then sees the end of the socket.
async fn write_all(
    mut write: impl AsyncWrite + Unpin,
    mut requests: mpsc::Receiver<Bytes>,
    mut echoes: mpsc::Receiver<Bytes>,
) {
    loop {
        let message = tokio::select! {
            biased;
            Some(echo) = echoes.recv() => echo,
            Some(request) = requests.recv() => request,
            else => break,
        };
        let written = async {
            write.write_all(&message).await?;
            // TLS keeps what the socket does not take at once.
            write.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "cannot write to the OVSDB server");
            break;
        }
    }
}

/// The sending half: hands messages to the writing task.
pub(crate) struct Sender(mpsc::Sender<Bytes>);

impl Sender {
    /// Sends a message when those before it are sent.
    pub(crate) async fn send(&self, message: Bytes) -> Result<(), TransportError> {
        self.0
            .send(message)
            .await
            .map_err(|_| TransportError::NotWriting)
    }
}

/// What is for the session.
#[derive(Debug)]
pub(crate) enum Received {
    Reply(Reply),
    Notification(Notification),
}

/// The receiving half: cuts, reads, answers echoes.
pub(crate) struct Receiver {
    read: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    framing: Framing,
    echoes: mpsc::Sender<Bytes>,
    /// After how long a silence to ask, if at all.
    probe: Option<Duration>,
    /// When the last bytes came, or the question went out.
    heard: Instant,
    /// Whether the question is out.
    probed: bool,
}

impl Receiver {
    async fn echo(&mut self, message: Bytes) -> Result<(), TransportError> {
        match self.echoes.send_timeout(message, ECHO_PATIENCE).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => Err(TransportError::EchoFlood),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(TransportError::NotWriting),
        }
    }

    /// Waits for bytes; asks the server whether it is there when none come.
    async fn fill(&mut self) -> Result<(), TransportError> {
        self.buffer.reserve(READ_AHEAD);
        loop {
            let reading = self.read.read_buf(&mut self.buffer);
            let read = match self.probe {
                None => reading.await?,
                Some(probe) => match timeout_at(self.heard + probe, reading).await {
                    Ok(read) => read?,
                    Err(_) if self.probed => return Err(TransportError::Inactive(probe * 2)),
                    Err(_) => {
                        self.echo(Bytes::from_static(message::PROBE)).await?;
                        self.heard = Instant::now();
                        self.probed = true;
                        continue;
                    }
                },
            };
            if read == 0 {
                // Whole messages were taken out before.
                self.framing.decode_eof(&mut self.buffer)?;
                return Err(TransportError::Closed);
            }
            self.heard = Instant::now();
            self.probed = false;
            return Ok(());
        }
    }

    /// Waits for something else, with nothing read, so that the server holds back what it has to say. It sees that we are there.
    pub(crate) async fn hold<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        loop {
            if let Ok(ended) = timeout(KEEP_ALIVE, &mut waiting).await {
                // How long the server was not listened to says nothing of it.
                self.heard = Instant::now();
                self.probed = false;
                return ended;
            }
            // If that cannot be written, reading tells why, afterwards.
            let _held_up = self.echoes.try_send(Bytes::from_static(message::PROBE));
        }
    }

    /// Waits for a message that is for the session. It must not be dropped before that, or messages are lost.
    pub(crate) async fn receive(&mut self) -> Result<Received, TransportError> {
        loop {
            let Some(message) = self.framing.decode(&mut self.buffer)? else {
                self.fill().await?;
                continue;
            };
            let read = if message.len() > LONG_MESSAGE {
                // What is left of the buffer would keep the room that the message took.
                self.buffer = BytesMut::from(&*self.buffer);
                spawn_blocking(move || message::incoming(&message)).await?
            } else {
                message::incoming(&message)
            };
            match read? {
                Incoming::Reply(reply) => return Ok(Received::Reply(reply)),
                Incoming::Notification(notification) => {
                    return Ok(Received::Notification(notification));
                }
                Incoming::Echo(reply) => self.echo(reply).await?,
                Incoming::ProbeReply => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
