//! Sockets to listen on: unix or TCP, by a URL.

use std::{
    fmt, fs,
    io::{self, ErrorKind},
    net::SocketAddr,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    pin::Pin,
    str::FromStr,
};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
};

/// The longest path of a unix socket, in bytes (`sun_path` of unix(7), less the zero at its end).
pub const MAX_SOCKET_PATH: usize = 107;

/// Where a listener is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListenAddress {
    /// The path of a unix socket.
    Unix(PathBuf),
    /// An address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
}

/// Why a text is no [`ListenAddress`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ListenAddressError {
    /// It starts with something else.
    #[error("an address starts with unix:// or tcp://")]
    Scheme,
    /// The path of the socket is relative, or there is none.
    #[error("a unix socket needs an absolute path: unix:///run/collector.sock")]
    Relative,
    /// The path is longer than the system takes, with its length in bytes.
    #[error("the path of a unix socket has at most {MAX_SOCKET_PATH} bytes, and this one {0}")]
    TooLong(usize),
    /// There is no IP address with a port.
    #[error("tcp needs an IP address and a port: tcp://127.0.0.1:6000, tcp://[::1]:6000")]
    Tcp,
    /// Other hosts could reach it.
    #[error(
        "this listens on a unix socket or a loopback address only: whoever reaches it sees every tenant's names"
    )]
    NotLocal,
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(ListenAddressError::Relative);
            }
            let path = PathBuf::from(path);
            match path.as_os_str().as_bytes().len() {
                ..=MAX_SOCKET_PATH => Ok(Self::Unix(path)),
                length => Err(ListenAddressError::TooLong(length)),
            }
        } else if let Some(address) = text.strip_prefix("tcp://") {
            let address = address.parse().map(Self::Tcp);
            address.map_err(|_| ListenAddressError::Tcp)
        } else {
            Err(ListenAddressError::Scheme)
        }
    }
}

/// A [`ListenAddress`] that no other host can reach. A clap `value_parser`.
///
/// # Errors
/// Those of [`ListenAddress`], and [`ListenAddressError::NotLocal`].
pub fn parse_local(text: &str) -> Result<ListenAddress, ListenAddressError> {
    match text.parse()? {
        ListenAddress::Tcp(address) if !address.ip().is_loopback() => {
            Err(ListenAddressError::NotLocal)
        }
        address => Ok(address),
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// Who may connect to a unix socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// The user of this process: mode 0600.
    User,
    /// Its group too: mode 0660.
    Group,
}

/// A bound socket. Dropped, it takes its file away.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: ListenAddress,
}

#[derive(Debug)]
enum Socket {
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
    Tcp(TcpListener),
}

/// A connection, whatever its socket.
pub type Stream = Pin<Box<dyn Duplex>>;

/// What can be read and written.
pub trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

impl Listener {
    /// Binds the address. A socket file that nobody listens on is replaced.
    ///
    /// # Errors
    /// The address is in use, the path is something other than a socket, or the system refuses.
    pub async fn bind(address: &ListenAddress, access: Access) -> anyhow::Result<Self> {
        let (socket, address) = match address {
            ListenAddress::Tcp(wanted) => {
                let listener = TcpListener::bind(wanted).await?;
                let bound = ListenAddress::Tcp(listener.local_addr()?);
                (Socket::Tcp(listener), bound)
            }
            ListenAddress::Unix(path) => {
                let listener = bind_unix(path, access).await?;
                let _file = SocketFile::new(path)?;
                (Socket::Unix { listener, _file }, address.clone())
            }
        };
        Ok(Self { socket, address })
    }

    /// The address, with the port that was found for port 0.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The next connection, and who it is from in a word. May be cancelled.
    ///
    /// # Errors
    /// Out of file descriptors, or the peer left before it was accepted: neither ends the listener.
    pub async fn accept(&self) -> io::Result<(Stream, String)> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Box::pin(stream), peer.to_string()))
            }
            Socket::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                let pid = stream.peer_cred().ok().and_then(|cred| cred.pid());
                let peer = pid.map_or_else(|| "unix".to_owned(), |pid| format!("pid {pid}"));
                Ok((Box::pin(stream), peer))
            }
        }
    }
}

async fn bind_unix(path: &Path, access: Access) -> anyhow::Result<UnixListener> {
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
    let mode = match access {
        Access::User => 0o600,
        Access::Group => 0o660,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

/// Removes the socket's file at the end, unless another program has put its own there.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            inode: fs::symlink_metadata(path)?.ino(),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            // Nothing is lost if it stays: the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
