//! Sockets to listen on: unix or TCP, by a URL.

mod address;

use std::{
    fmt, fs,
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    os::unix::fs::{FileTypeExt, PermissionsExt, chown},
    path::Path,
    pin::Pin,
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
};

pub use self::address::{ListenAddress, MAX_SOCKET_PATH, UnixAddress, parse_local};

/// Unanswered keepalive probes before a silent peer counts as gone (tcp(7), TCP_KEEPCNT).
const KEEPALIVE_PROBES: u32 = 3;

/// The access to a unix socket whose URL has no `mode`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// The user of this process: mode 0600.
    User,
    /// Its group too: mode 0660.
    Group,
}

/// A bound socket. Its file stays, and the next bind replaces it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: ListenAddress,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Peer {
    /// The process at the other end of a unix socket, by the kernel's data; `None` if it is invisible from here, as from
    /// another PID namespace.
    Process(Option<i32>),
    /// The other end of a TCP connection.
    Address(SocketAddr),
}

impl Peer {
    /// Its address, as IPv4 if it is IPv4-mapped.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Process(_) => None,
            Self::Address(address) => Some(address.ip().to_canonical()),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(Some(pid)) => write!(f, "process {pid}"),
            Self::Process(None) => f.write_str("a process in another PID namespace"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// A connection, whatever its socket.
pub type Stream = Pin<Box<dyn Duplex>>;

/// A stream for reading and writing.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

impl Listener {
    /// Binds the address. A socket file without a listener is replaced.
    ///
    /// # Errors
    /// The address is in use, the path is something other than a socket, or the system refuses.
    pub async fn bind(address: &ListenAddress, access: Access) -> anyhow::Result<Self> {
        let (socket, address) = match address {
            ListenAddress::Tcp(wanted) | ListenAddress::Tls(wanted) => {
                let listener = TcpListener::bind(wanted).await?;
                let found = listener.local_addr()?;
                let bound = match address {
                    ListenAddress::Tls(_) => ListenAddress::Tls(found),
                    _ => ListenAddress::Tcp(found),
                };
                (Socket::Tcp(listener), bound)
            }
            ListenAddress::Unix(unix) => {
                let listener = bind_unix(unix, access).await?;
                (Socket::Unix(listener), address.clone())
            }
        };
        Ok(Self { socket, address })
    }

    /// The address, with the actual port for port 0.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Enables TCP keepalive: a peer that is silent for `after`, in whole seconds, is probed, and is gone after as long
    /// again without an answer. It applies to connections accepted from now on; unix sockets do not need it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn keep_alive(&self, after: Duration) -> io::Result<()> {
        let Socket::Tcp(listener) = &self.socket else {
            return Ok(());
        };
        let after = after.max(Duration::from_secs(1));
        let between = (after / KEEPALIVE_PROBES).max(Duration::from_secs(1));
        // An accepted socket inherits the options of the listening one.
        sockopt::set_socket_keepalive(listener, true)?;
        sockopt::set_tcp_keepidle(listener, after)?;
        sockopt::set_tcp_keepintvl(listener, between)?;
        sockopt::set_tcp_keepcnt(listener, KEEPALIVE_PROBES)?;
        Ok(())
    }

    /// The next connection, and its peer. Cancel-safe.
    ///
    /// # Errors
    /// Out of file descriptors, or the peer left before it was accepted. The listener continues to work.
    pub async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Box::pin(stream), Peer::Address(peer)))
            }
            Socket::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = Peer::Process(stream.peer_cred()?.pid());
                Ok((Box::pin(stream), peer))
            }
        }
    }
}

async fn bind_unix(address: &UnixAddress, access: Access) -> anyhow::Result<UnixListener> {
    let path: &Path = &address.path;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
        Ok(meta) if !meta.file_type().is_socket() => bail!("the path exists and is no socket"),
        Ok(_) => match UnixStream::connect(path).await {
            Ok(_) => bail!("another program listens there"),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Err(error) => return Err(error).context("the socket there cannot be examined"),
        },
    }
    let listener = UnixListener::bind(path)?;
    let mode = address.mode.unwrap_or(match access {
        Access::User => 0o600,
        Access::Group => 0o660,
    });
    if address.gid.is_some() {
        chown(path, None, address.gid).context("the socket cannot be given to its group")?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

#[cfg(test)]
mod tests;
