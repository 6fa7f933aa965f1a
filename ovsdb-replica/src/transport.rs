//! The connection under a session: a socket, jsonrpsee on it, and `echo`.
//!
//! jsonrpsee writes the requests, and knows which replies are due. OVSDB uses version 1.0 of JSON-RPC, so requests and
//! replies are translated. The session gets the messages themselves in the order of the socket, since a reply must not
//! overtake the updates before it.

mod connect;
mod connection;
mod framing;
pub(crate) mod message;
mod pem;
mod receiver;
mod tls;
mod writer;

use std::{io, time::Duration};

pub(crate) use self::{
    connect::connect,
    connection::{Connection, Received},
    message::{Notification, Reply, Text},
};
pub use self::{
    framing::{Framing, FramingError, Limits},
    message::MessageError,
    pem::FileError,
    tls::{TlsError, TlsIdentity, TlsOptions},
};

/// Longer messages, in bytes, leave the buffer together with their memory.
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
}

/// The options of a connection, and its limits.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// Bounds of a message.
    pub limits: Limits,
    /// The time-out of each step of a connection: the look-up of a name, the socket to one of its addresses, the TLS
    /// handshake.
    pub connect_timeout: Duration,
    /// The silence after which the server is probed; it then has as long again to answer. On a unix socket it is six
    /// times as long: the kernel reports the end of a local server, and a busy one is no better after a new connection.
    pub inactivity_probe: Duration,
    /// For `ssl:` remotes.
    pub tls: Option<TlsOptions>,
}

impl Default for TransportOptions {
    /// [`Limits::default`], 5 s for each time, and no TLS.
    fn default() -> Self {
        let five = Duration::from_secs(5);
        Self {
            limits: Limits::default(),
            connect_timeout: five,
            inactivity_probe: five,
            tls: None,
        }
    }
}

#[cfg(test)]
mod tests;
