//! The addresses of a database: the active connection methods of ovsdb(7).

use std::{fmt, path::PathBuf, str::FromStr};

/// The port of `tcp:` and `ssl:` remotes without a port (IANA's `ovsdb`).
pub const DEFAULT_PORT: u16 = 6640;

/// One address of a database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Remote {
    /// `unix:PATH`: a local socket.
    Unix(PathBuf),
    /// `tcp:HOST[:PORT]`: plain TCP.
    Tcp(HostPort),
    /// `ssl:HOST[:PORT]`: TLS.
    Ssl(HostPort),
}

/// A host and a port: an IPv4 address, an IPv6 address in brackets, or a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostPort {
    /// An address without brackets, or a name. A name may have several addresses; they are tried in random order.
    pub host: String,
    /// 1 to 65,535.
    pub port: u16,
}

/// The longest path of a unix socket, in bytes (`sun_path` of unix(7), without its final zero).
const MAX_PATH: usize = 107;

/// The text is no remote.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RemoteError {
    /// The text is empty.
    #[error("an empty remote; expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT")]
    Empty,
    /// The method is unknown.
    #[error("{0:?} starts with none of unix:, tcp: and ssl:")]
    Method(String),
    /// The path of a socket is missing.
    #[error("{0:?} has no path")]
    NoPath(String),
    /// The path of the socket is longer than the system allows, with its length in bytes.
    #[error("the path of a unix socket has at most {MAX_PATH} bytes, and this one {0}")]
    PathTooLong(usize),
    /// The host is missing, or the brackets have no IPv6 address.
    #[error(
        "{0:?} has no usable host; expected an IPv4 address, an IPv6 address in brackets, or a name"
    )]
    Host(String),
    /// The port is no number from 1 to 65,535.
    #[error("{0:?} has no usable port")]
    Port(String),
}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let text = text.trim();
        let whole = || text.to_owned();
        match text.split_once(':') {
            _ if text.is_empty() => Err(RemoteError::Empty),
            Some(("unix", "")) => Err(RemoteError::NoPath(whole())),
            Some(("unix", path)) if path.len() > MAX_PATH => {
                Err(RemoteError::PathTooLong(path.len()))
            }
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => host_port(text, address).map(Self::Tcp),
            Some(("ssl", address)) => host_port(text, address).map(Self::Ssl),
            _ => Err(RemoteError::Method(whole())),
        }
    }
}

/// Parses the part after the method in `text`.
fn host_port(text: &str, address: &str) -> Result<HostPort, RemoteError> {
    let (host, port) = split_host(address).ok_or_else(|| RemoteError::Host(text.to_owned()))?;
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| RemoteError::Port(text.to_owned()))?,
    };
    let host = host.to_owned();
    Ok(HostPort { host, port })
}

/// The host without its brackets, and the port's text if there is one.
fn split_host(address: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = address.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return match rest {
            "" => Some((host, None)),
            _ => Some((host, Some(rest.strip_prefix(':')?))),
        };
    }
    let (host, port) = match address.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (address, None),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    (!host.is_empty() && host.bytes().all(plain)).then_some((host, port))
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Ssl(address) => write!(f, "ssl:{address}"),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// One or more remotes of the same database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Remotes(Vec<Remote>);

impl Remotes {
    /// The remotes in their original order; there is at least one.
    pub fn iter(&self) -> impl Iterator<Item = &Remote> {
        self.0.iter()
    }

    /// Whether there is more than one.
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Whether one of them uses TLS.
    pub fn need_tls(&self) -> bool {
        self.iter().any(|remote| matches!(remote, Remote::Ssl(_)))
    }
}

impl FromStr for Remotes {
    type Err = RemoteError;

    /// Parses a comma-separated list.
    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let remotes = text.split(',').map(str::parse);
        Ok(Self(remotes.collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> HostPort {
        let host = host.to_owned();
        HostPort { host, port }
    }

    fn tcp(host: &str, port: u16) -> Result<Remote, RemoteError> {
        Ok(Remote::Tcp(at(host, port)))
    }

    #[test]
    fn remote_is_parsed_as_ovsdb_writes_it() {
        assert_eq!(
            "unix:/run/ovn/ovnnb_db.sock".parse(),
            Ok(Remote::Unix("/run/ovn/ovnnb_db.sock".into()))
        );
        assert_eq!("tcp:127.0.0.1:6641".parse(), tcp("127.0.0.1", 6641));
        assert_eq!("tcp:[::1]:6641".parse(), tcp("::1", 6641));
        assert_eq!("tcp:[fd00::1]".parse(), tcp("fd00::1", 6640));
        assert_eq!("tcp:nb.example:6641".parse(), tcp("nb.example", 6641));
        assert_eq!("tcp:localhost".parse(), tcp("localhost", 6640));
        assert_eq!(
            "ssl:[fd00::1]:6641".parse(),
            Ok(Remote::Ssl(at("fd00::1", 6641)))
        );
    }

    #[test]
    fn remote_that_cannot_be_used_says_why() {
        let error = |text: &str| text.parse::<Remote>().unwrap_err();
        assert_eq!(error(""), RemoteError::Empty);
        assert_eq!(error("unix:"), RemoteError::NoPath("unix:".into()));
        let path = |length: usize| format!("unix:/{}", "x".repeat(length - 1));
        assert!(path(107).parse::<Remote>().is_ok());
        assert_eq!(error(&path(108)), RemoteError::PathTooLong(108));
        assert_eq!(error("ptcp:6641"), RemoteError::Method("ptcp:6641".into()));
        assert_eq!(
            error("/run/x.sock"),
            RemoteError::Method("/run/x.sock".into())
        );
        for host in [
            "tcp:",
            "tcp::6641",
            "tcp:[::1:6641",
            "tcp:[1.2.3.4]:1",
            "tcp:a b:1",
            "tcp:[::1]6641",
            "ssl:",
        ] {
            assert_eq!(error(host), RemoteError::Host(host.into()));
        }
        for port in ["tcp:h:", "tcp:h:0", "tcp:h:65536", "tcp:h:x", "tcp:fd00::1"] {
            assert_eq!(error(port), RemoteError::Port(port.into()));
        }
    }
}
