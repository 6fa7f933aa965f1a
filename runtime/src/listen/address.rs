//! The address to listen on, as a URL.

use std::{
    fmt::{self, Write},
    net::SocketAddr,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    str::FromStr,
};

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

/// The path of a unix socket, and its access rules: `unix:///run/x.sock?mode=0660&gid=53&peer-uid=0`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnixAddress {
    /// The absolute path. It cannot contain a `?`.
    pub path: PathBuf,
    /// `mode`: the permissions of its file, at most 0777.
    pub mode: Option<u32>,
    /// `uid`: the owner of its file.
    pub uid: Option<u32>,
    /// `gid`: the group of its file.
    pub gid: Option<u32>,
    /// `peer-uid`, repeatable: the users whose processes may connect, by the kernel's data (SO_PEERCRED of unix(7)).
    pub peer_uids: Vec<u32>,
    /// `peer-gid`, repeatable: a process may connect if one of these is its group.
    pub peer_gids: Vec<u32>,
}

impl UnixAddress {
    /// Whether a process of this user and group may connect. Any may, unless the URL restricts them.
    pub fn admits(&self, uid: u32, gid: u32) -> bool {
        (self.peer_uids.is_empty() && self.peer_gids.is_empty())
            || self.peer_uids.contains(&uid)
            || self.peer_gids.contains(&gid)
    }

    fn parameter(&mut self, text: &str) -> Option<()> {
        let (key, value) = text.split_once('=')?;
        // `parse` alone would accept a sign.
        if !value.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = || value.parse().ok();
        match key {
            "mode" => {
                let mode = u32::from_str_radix(value, 8).ok();
                self.mode = Some(mode.filter(|mode| *mode <= 0o777)?);
            }
            "uid" => self.uid = Some(number()?),
            "gid" => self.gid = Some(number()?),
            "peer-uid" => self.peer_uids.push(number()?),
            "peer-gid" => self.peer_gids.push(number()?),
            _ => return None,
        }
        Some(())
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
                format!("`{parameter}` is no parameter of a unix socket: mode=0660, uid=N, gid=N, peer-uid=N and peer-gid=N are")
            })?;
        }
        Ok(address)
    }
}

impl fmt::Display for UnixAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut query = String::new();
        let all = |key, numbers: &[u32]| {
            let numbers = numbers.iter();
            numbers.fold(String::new(), |text, number| {
                text + &format!("&{key}={number}")
            })
        };
        if let Some(mode) = self.mode {
            write!(query, "&mode={mode:04o}")?;
        }
        query += &all("uid", self.uid.as_slice());
        query += &all("gid", self.gid.as_slice());
        query += &all("peer-uid", &self.peer_uids);
        query += &all("peer-gid", &self.peer_gids);
        f.write_str(&self.path.to_string_lossy())?;
        match query.strip_prefix('&') {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
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
