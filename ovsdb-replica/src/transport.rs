//! The connection under a session: a socket, jsonrpsee on it, and `echo`.
//!
//! jsonrpsee's two tasks write requests to the socket and read it; jsonrpsee matches replies to requests. OVSDB uses
//! version 1.0 of JSON-RPC, so requests and replies are translated. Other messages bypass jsonrpsee.
//!
//! The session gets everything in the order of the socket: messages before a reply are taken before it. While the
//! session takes nothing, nothing is read. The server then merges its updates instead of sending each one.

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
    tls::{TlsError, TlsIdentity, TlsOptions},
};

/// Longer messages, in bytes, leave the buffer together with their memory, and are parsed on a separate thread: a
/// megabyte takes some milliseconds.
const LONG_MESSAGE: usize = 1 << 20;

/// Why a connection ended or could not be made.
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
    /// A host name has no address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// TLS cannot be set up with the current files.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The TLS handshake failed, with the reason of the TLS library.
    #[error("the TLS handshake failed: {0}")]
    Handshake(io::Error),
    /// The stream has invalid data, or a message beyond the limits.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// A message does not follow JSON-RPC.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The server was silent for the probe's interval, and again as long after the probe.
    #[error("the server does not answer: nothing came for {0:?}")]
    Inactive(Duration),
    /// The server sends echo requests and does not read the replies.
    #[error("the server sends echo requests and does not read the replies")]
    EchoFlood,
    /// A thread that parses a long message failed.
    #[error("a worker thread failed: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

/// The options of a connection, and its limits.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// Bounds of a message.
    pub limits: Limits,
    /// The time-out of each step of a connection: the look-up of a name, the socket to one of its addresses, the TLS
    /// handshake.
    pub connect_timeout: Duration,
    /// On TCP and TLS: the silence after which the server is probed; it then has as long again to answer. `None`
    /// disables probes.
    pub inactivity_probe: Option<Duration>,
    /// On unix sockets: the silence after which the server is probed. Without an answer for a third of this time it
    /// counts as unresponsive until a message comes. The connection is kept: the kernel reports the end of the server.
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
