//! The address to listen on, as a URL.

use std::{fmt, net::SocketAddr, os::unix::ffi::OsStrExt, path::PathBuf, str::FromStr};

use anyhow::{Context, anyhow, bail, ensure};

/// The longest path of a unix socket, in bytes (`sun_path` of unix(7), without its final zero).
pub const MAX_SOCKET_PATH: usize = 107;

/// The address of a listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListenAddress {
    /// A unix socket.
    Unix(UnixAddress),
    /// An address and a port; port 0 picks a free one.
    Tcp(SocketAddr),
    /// Like `Tcp`, with TLS. A [`Listener`](super::Listener) binds it as `Tcp`; the caller of `accept` does the TLS.
    Tls(SocketAddr),
}

/// The path of a unix socket, and its access: `unix:///run/x.sock?mode=0660&gid=53`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnixAddress {
    /// The absolute path. It cannot contain a `?`.
    pub path: PathBuf,
    /// `mode`: the permissions of its file, at most 0777.
    pub mode: Option<u32>,
    /// `gid`: the group of its file.
    pub gid: Option<u32>,
}

impl UnixAddress {
    fn parameter(&mut self, text: &str) -> Option<()> {
        let (key, value) = text.split_once('=')?;
        let field = match key {
            "mode" => &mut self.mode,
            "gid" => &mut self.gid,
            _ => return None,
        };
        // The parser alone would accept a sign.
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        let radix = if key == "mode" { 8 } else { 10 };
        let number = u32::from_str_radix(value, radix)
            .ok()
            .filter(|_| is_number)?;
        *field = Some(number);
        (key != "mode" || number <= 0o777).then_some(())
    }
}

impl From<PathBuf> for UnixAddress {
    fn from(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }
}

impl FromStr for UnixAddress {
    type Err = anyhow::Error;

    /// Parses the part after the scheme.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        ensure!(
            path.starts_with('/'),
            "a unix socket needs an absolute path: unix:///run/collector.sock"
        );
        let mut address = Self::from(PathBuf::from(path));
        let length = address.path.as_os_str().as_bytes().len();
        ensure!(
            length <= MAX_SOCKET_PATH,
            "the path of a unix socket has at most {MAX_SOCKET_PATH} bytes, and this one {length}"
        );
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            address.parameter(parameter).with_context(|| {
                format!("`{parameter}` is no parameter of a unix socket: mode=0660 and gid=N are")
            })?;
        }
        Ok(address)
    }
}

impl fmt::Display for UnixAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.mode.map(|mode| format!("mode={mode:04o}"));
        let gid = self.gid.map(|gid| format!("gid={gid}"));
        let query: Vec<String> = mode.into_iter().chain(gid).collect();
        write!(f, "{}", self.path.display())?;
        if query.is_empty() {
            return Ok(());
        }
        write!(f, "?{}", query.join("&"))
    }
}

impl FromStr for ListenAddress {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let socket = |address: &str| {
            address.parse().map_err(|_| {
                anyhow!("tcp and tls need an IP address and a port: tcp://127.0.0.1:6000, tls://[::1]:6000")
            })
        };
        if let Some(address) = text.strip_prefix("unix://") {
            address.parse().map(Self::Unix)
        } else if let Some(address) = text.strip_prefix("tcp://") {
            socket(address).map(Self::Tcp)
        } else if let Some(address) = text.strip_prefix("tls://") {
            socket(address).map(Self::Tls)
        } else {
            bail!("an address starts with unix://, tcp:// or tls://")
        }
    }
}

impl ListenAddress {
    /// The address and port; `None` for a unix socket.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(address) | Self::Tls(address) => Some(*address),
        }
    }
}

/// Parses a [`ListenAddress`] that other hosts cannot reach, without TLS. A clap `value_parser`.
///
/// # Errors
/// The errors of [`ListenAddress`]; other hosts could reach it; TLS is not supported.
pub fn parse_local(text: &str) -> anyhow::Result<ListenAddress> {
    match text.parse()? {
        ListenAddress::Tls(_) => bail!("this listens on unix:// or tcp:// only"),
        ListenAddress::Tcp(address) if !address.ip().is_loopback() => bail!(
            "this listens on a unix socket or a loopback address only: whoever reaches it sees every tenant's names"
        ),
        address => Ok(address),
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(address) => write!(f, "unix://{address}"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Tls(address) => write!(f, "tls://{address}"),
        }
    }
}
