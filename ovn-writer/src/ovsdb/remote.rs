//! Where a database is served: the connection methods of ovsdb(7), and the order in which they are tried.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

/// The port of `tcp:` remotes that name none (IANA's `ovsdb`).
pub const DEFAULT_PORT: u16 = 6640;

/// One place where a database is served.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Remote {
    /// `unix:PATH`: a local socket.
    Unix(PathBuf),
    /// `tcp:HOST[:PORT]`: an IPv4 address, an IPv6 address in brackets, or a name.
    Tcp {
        /// An address without brackets, or a name.
        host: String,
        /// 1 to 65,535.
        port: u16,
    },
}

/// Why a text is no remote.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RemoteError {
    /// There is nothing in it.
    #[error("an empty remote; expected unix:PATH or tcp:HOST:PORT")]
    Empty,
    /// It starts with another method.
    #[error("{0:?} starts with neither unix: nor tcp:")]
    Method(String),
    /// `ssl:` is a method of OVSDB that this client does not have.
    #[error("{0:?}: ssl: is not supported yet; use unix: or tcp:")]
    Ssl(String),
    /// The path of a socket is missing.
    #[error("{0:?} has no path")]
    NoPath(String),
    /// The host is missing, or brackets hold no IPv6 address.
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
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => {
                let (host, port) = split_host(address).ok_or_else(|| RemoteError::Host(whole()))?;
                let port = match port {
                    None => DEFAULT_PORT,
                    Some(port) => port
                        .parse()
                        .ok()
                        .filter(|port| *port != 0)
                        .ok_or_else(|| RemoteError::Port(whole()))?,
                };
                Ok(Self::Tcp {
                    host: host.to_owned(),
                    port,
                })
            }
            Some(("ssl", _)) => Err(RemoteError::Ssl(whole())),
            _ => Err(RemoteError::Method(whole())),
        }
    }
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
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

/// One or more remotes of the same database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Remotes {
    first: Remote,
    others: Vec<Remote>,
}

impl Remotes {
    /// The remotes in the order in which they were written; there is at least one.
    pub fn iter(&self) -> impl Iterator<Item = &Remote> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl FromStr for Remotes {
    type Err = RemoteError;

    /// Reads a list with commas between the remotes.
    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let mut remotes = text.split(',').map(str::parse);
        let first = remotes.next().unwrap_or(Err(RemoteError::Empty))?;
        Ok(Self {
            first,
            others: remotes.collect::<Result<_, _>>()?,
        })
    }
}

impl From<Remote> for Remotes {
    fn from(first: Remote) -> Self {
        Self {
            first,
            others: Vec::new(),
        }
    }
}

impl fmt::Display for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.others
            .iter()
            .try_for_each(|remote| write!(f, ",{remote}"))
    }
}

/// How long to wait between attempts: twice as long each round, with jitter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Backoff {
    /// Before the second round.
    pub initial: Duration,
    /// At most, jitter apart.
    pub max: Duration,
}

impl Default for Backoff {
    /// 100 ms to 3 s.
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(100),
            max: Duration::from_secs(3),
        }
    }
}

/// The order of attempts: every round tries each remote once, in an order that differs from client to client, and the rounds
/// come at growing intervals.
#[derive(Clone, Debug)]
pub(super) struct Attempts {
    remotes: Remotes,
    backoff: Backoff,
    /// What is left of this round.
    left: Vec<Remote>,
    /// Rounds that were begun.
    rounds: u32,
}

impl Attempts {
    pub(super) fn new(remotes: &Remotes, backoff: Backoff) -> Self {
        Self {
            remotes: remotes.clone(),
            backoff,
            left: Vec::new(),
            rounds: 0,
        }
    }

    /// Where to go next, and how long to wait before.
    pub(super) fn next(&mut self) -> (Remote, Duration) {
        if let Some(remote) = self.left.pop() {
            return (remote, Duration::ZERO);
        }
        self.left = self.remotes.iter().cloned().collect();
        fastrand::shuffle(&mut self.left);
        let delay = self.delay();
        self.rounds = self.rounds.saturating_add(1);
        (
            self.left
                .pop()
                .unwrap_or_else(|| self.remotes.first.clone()),
            delay,
        )
    }

    /// The connection was good: the next attempt is made at once.
    pub(super) fn succeeded(&mut self) {
        self.rounds = 0;
    }

    fn delay(&self) -> Duration {
        let Some(doublings) = self.rounds.checked_sub(1) else {
            return Duration::ZERO;
        };
        let full = self
            .backoff
            .initial
            .saturating_mul(1 << doublings.min(20))
            .min(self.backoff.max);
        // Half of it at least, so that many clients of a server that comes back do not all come in one moment.
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Result<Remote, RemoteError> {
        Ok(Remote::Tcp {
            host: host.into(),
            port,
        })
    }

    #[test]
    fn remotes_are_read_as_ovsdb_writes_them() {
        assert_eq!(
            "unix:/run/ovn/ovnnb_db.sock".parse(),
            Ok(Remote::Unix("/run/ovn/ovnnb_db.sock".into()))
        );
        assert_eq!("tcp:127.0.0.1:6641".parse(), tcp("127.0.0.1", 6641));
        assert_eq!("tcp:[::1]:6641".parse(), tcp("::1", 6641));
        assert_eq!("tcp:[fd00::1]".parse(), tcp("fd00::1", 6640));
        assert_eq!("tcp:nb.example:6641".parse(), tcp("nb.example", 6641));
        assert_eq!("tcp:localhost".parse(), tcp("localhost", 6640));
    }

    #[test]
    fn a_remote_that_cannot_be_used_says_why() {
        let error = |text: &str| text.parse::<Remote>().unwrap_err();
        assert_eq!(error(""), RemoteError::Empty);
        assert_eq!(error("unix:"), RemoteError::NoPath("unix:".into()));
        assert_eq!(
            error("ssl:10.0.0.1:6641"),
            RemoteError::Ssl("ssl:10.0.0.1:6641".into())
        );
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
        ] {
            assert_eq!(error(host), RemoteError::Host(host.into()));
        }
        for port in ["tcp:h:", "tcp:h:0", "tcp:h:65536", "tcp:h:x", "tcp:fd00::1"] {
            assert_eq!(error(port), RemoteError::Port(port.into()));
        }
    }

    #[test]
    fn a_list_is_written_as_it_was_read() {
        let text = "unix:/a,tcp:[::1]:6641,tcp:h:1";
        assert_eq!(text.parse::<Remotes>().unwrap().to_string(), text);
        assert_eq!("tcp:h:1,".parse::<Remotes>(), Err(RemoteError::Empty));
    }

    #[test]
    fn every_remote_is_tried_before_any_is_waited_for() {
        let remotes: Remotes = "tcp:a:1,tcp:b:1,tcp:c:1".parse().unwrap();
        let mut attempts = Attempts::new(&remotes, Backoff::default());
        let round: Vec<_> = (0..3).map(|_| attempts.next()).collect();
        assert!(round.iter().all(|(_, delay)| delay.is_zero()));
        let mut tried: Vec<_> = round
            .into_iter()
            .map(|(remote, _)| remote.to_string())
            .collect();
        tried.sort();
        assert_eq!(tried, ["tcp:a:1", "tcp:b:1", "tcp:c:1"]);
        assert!(!attempts.next().1.is_zero());
        assert!(attempts.next().1.is_zero());
    }

    #[test]
    fn waits_grow_to_the_limit_and_start_over_after_success() {
        let remotes: Remotes = "unix:/a".parse().unwrap();
        let backoff = Backoff {
            initial: Duration::from_millis(100),
            max: Duration::from_secs(3),
        };
        let mut attempts = Attempts::new(&remotes, backoff);
        let waits: Vec<_> = (0..200).map(|_| attempts.next().1).collect();
        for (index, wait) in waits.iter().enumerate().skip(1) {
            let full =
                Duration::from_millis(100 << (index - 1).min(10)).min(Duration::from_secs(3));
            assert!(*wait >= full / 2 && *wait <= full, "{index}: {wait:?}");
        }
        attempts.succeeded();
        assert!(attempts.next().1.is_zero());
    }
}
