//! The DNS servers to ask, and where the list of them comes from.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use runtime::changes::send_if_changed;
use tokio::{
    io::AsyncReadExt,
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::spec::{DNS_PORT, ResolverSpec, is_host};

/// The file that says whom the host, or the pod, asks.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// How often the file is read. It is often a bind mount, whose replacement no file system event tells.
const INTERVAL: Duration = Duration::from_secs(5);

/// More of the file is not read, in octets.
const MAX_SIZE: u64 = 64 << 10;

/// A DNS server.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Server {
    /// Its address and port.
    pub address: SocketAddr,
    /// Whether it is only asked over TCP, never over UDP.
    pub tcp_only: bool,
}

impl Server {
    /// A server that is asked over UDP, and over TCP where the answer does not fit.
    pub fn udp(address: SocketAddr) -> Self {
        Self {
            address,
            tcp_only: false,
        }
    }
}

/// The servers that may be asked now. Whoever knows them sends them into a [`watch`] channel; their order means nothing.
pub type Servers = Arc<[Server]>;

/// A list of servers that needs no Kubernetes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ServerSource {
    /// Always these.
    Fixed(Servers),
    /// The `nameserver` lines of a file (resolv.conf(5)), as it is at the time.
    ResolvConf {
        /// The file.
        path: PathBuf,
        /// Whether the servers are asked over TCP alone, whatever the file's options say.
        tcp_only: bool,
        /// How often the file is read.
        interval: Duration,
    },
}

impl ServerSource {
    /// Where the servers of a `--resolver` come from; nothing for those that another task has to find (`kube`), and for
    /// `none`.
    pub fn of(spec: &ResolverSpec) -> Option<Self> {
        let file = |tcp_only| Self::ResolvConf {
            path: RESOLV_CONF.into(),
            tcp_only,
            interval: INTERVAL,
        };
        match spec {
            ResolverSpec::Kube | ResolverSpec::None => None,
            ResolverSpec::ResolvConf => Some(file(false)),
            ResolverSpec::ResolvConfTcp => Some(file(true)),
            ResolverSpec::Servers(servers) => Some(Self::Fixed(
                servers.iter().copied().map(Server::udp).collect(),
            )),
        }
    }

    /// Sends the list, and again whenever it changes, until `shutdown`. A file that cannot be read, or names no server,
    /// leaves the list as it is, with a warning.
    ///
    /// # Errors
    /// None.
    pub async fn run(
        self,
        servers: watch::Sender<Servers>,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        match self {
            Self::Fixed(fixed) => {
                servers.send_replace(fixed);
                shutdown.cancelled().await;
            }
            Self::ResolvConf {
                path,
                tcp_only,
                interval: every,
            } => {
                let mut file = ResolvConf {
                    path,
                    tcp_only,
                    seen: None,
                };
                let mut ticks = interval(every);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                // Also if there is none: who waits for the list shall know.
                file.read(&servers).await;
                servers.send_modify(|_| ());
                while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
                    file.read(&servers).await;
                }
            }
        }
        Ok(())
    }
}

/// The file that is read again and again.
struct ResolvConf {
    path: PathBuf,
    tcp_only: bool,
    /// What was there at the last reading, or why it could not be read: nothing is said twice.
    seen: Option<Result<Vec<u8>, String>>,
}

impl ResolvConf {
    async fn read(&mut self, servers: &watch::Sender<Servers>) {
        let read = self.content().await.map_err(|error| error.to_string());
        if self.seen.as_ref() == Some(&read) {
            return;
        }
        let path = self.path.display();
        match &read {
            Err(error) => warn!(%path, error, "the DNS servers cannot be read, those known stay"),
            Ok(content) => {
                let (found, malformed) = parse(&String::from_utf8_lossy(content), self.tcp_only);
                for (line, error) in malformed {
                    warn!(%path, line, error, "line skipped");
                }
                if found.is_empty() {
                    warn!(%path, "no DNS server is named, those known stay");
                } else {
                    let found: Servers = found.into();
                    if send_if_changed(servers, Arc::clone(&found)) {
                        info!(%path, servers = ?found, "DNS servers");
                    }
                }
            }
        }
        self.seen = Some(read);
    }

    async fn content(&self) -> std::io::Result<Vec<u8>> {
        let file = tokio::fs::File::open(&self.path).await?;
        let mut content = Vec::new();
        file.take(MAX_SIZE).read_to_end(&mut content).await?;
        Ok(content)
    }
}

/// The servers of a resolv.conf(5), each once, and its malformed lines by number, counted from 1, with what is wrong.
fn parse(text: &str, tcp_only: bool) -> (Vec<Server>, Vec<(usize, String)>) {
    let (mut addresses, mut malformed) = (Vec::new(), Vec::new());
    let mut use_tcp = tcp_only;
    for (number, line) in (1..).zip(text.lines()) {
        // A comment starts the line (resolv.conf(5)), or, as glibc reads it, follows the address.
        let mut words = line
            .split_ascii_whitespace()
            .take_while(|word| !word.starts_with(['#', ';']));
        match words.next() {
            Some("nameserver") => match parse_nameserver(words.next()) {
                Ok(address) if addresses.contains(&address) => {}
                Ok(address) => addresses.push(address),
                Err(error) => malformed.push((number, error)),
            },
            // The last `options` line need not repeat what an earlier one said: options add up.
            Some("options") => use_tcp |= words.any(|word| word == "use-vc"),
            _ => {}
        }
    }
    let servers = addresses.into_iter().map(|address| Server {
        address,
        tcp_only: use_tcp,
    });
    (servers.collect(), malformed)
}

fn parse_nameserver(word: Option<&str>) -> Result<SocketAddr, String> {
    let text = word.ok_or("`nameserver` without an address")?;
    // With a numeric scope (`fe80::1%2`) it is a socket address, but no IP address.
    let address = match text.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, DNS_PORT),
        Err(_) => format!("[{text}]:{DNS_PORT}")
            .parse()
            .map_err(|_| format!("`{text}` is no IP address"))?,
    };
    if !is_host(address.ip()) {
        return Err(format!("`{text}` can be no DNS server"));
    }
    Ok(address)
}

#[cfg(test)]
mod tests;
