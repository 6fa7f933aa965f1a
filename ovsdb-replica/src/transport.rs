//! The connection under a session: a socket, jsonrpsee on it, and `echo`.
//!
//! jsonrpsee's two tasks write requests into the socket and read it; jsonrpsee finds the request of each reply. OVSDB speaks version
//! 1.0 of JSON-RPC, so that requests and replies are translated. All else that comes does not pass through jsonrpsee. Everything
//! comes to the session in one order, that of the socket: what came before a reply is taken before it. While the session takes
//! nothing, nothing is read; the server sees that, and adds up what happens meanwhile instead of sending it bit by bit.

mod connect;
mod connection;
mod framing;
mod inbox;
mod liveness;
mod local;
pub(crate) mod message;
mod output;
mod pem;
mod tls;
mod wire;

use std::{io, time::Duration};

pub(crate) use self::{
    connect::connect,
    connection::Connection,
    inbox::Received,
    message::{Notification, Reply, Text},
};
pub use self::{
    framing::{Framing, FramingError, Limits},
    message::MessageError,
    pem::FileError,
    tls::{TlsError, TlsIdentity, TlsOptions, Verify},
};

/// Messages longer than this, in bytes, leave the buffer with their room, and are read by a thread of their own: a megabyte
/// takes some milliseconds.
const LONG_MESSAGE: usize = 1 << 20;

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

#[cfg(test)]
mod tests;
