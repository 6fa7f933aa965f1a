//! The DNS servers to query: the flag `--resolver`, and the file that lists them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
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

/// The port of a DNS server (RFC 1035 section 4.2).
const DNS_PORT: u16 = 53;

const EMPTY: &str =
    "the value is empty: give kube, resolv.conf, none, or servers such as 10.0.0.10:53,[fd00::1]";

/// The resolver configuration of the host or the pod.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The interval of reading the file. It is often a bind mount, whose replacement raises no file
/// system event.
const INTERVAL: Duration = Duration::from_secs(5);

/// The most octets read of the file.
const MAX_SIZE: u64 = 64 << 10;

/// The servers to query now, in a [`watch`] channel; their order has no meaning.
pub type Servers = Arc<[SocketAddr]>;

/// The value of `--resolver`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ResolverSpec {
    /// `kube`: the pods behind the cluster's DNS service.
    Kube,
    /// `resolv.conf`: the name servers of `/etc/resolv.conf`.
    ResolvConf,
    /// `10.0.0.10:53,[fd00::1]`: at least one, without duplicates; the default port is 53.
    Servers(Vec<SocketAddr>),
    /// `none`: no look-ups.
    None,
}

impl FromStr for ResolverSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "kube" => Ok(Self::Kube),
            "resolv.conf" => Ok(Self::ResolvConf),
            "none" => Ok(Self::None),
            "" => Err(EMPTY.to_owned()),
            list => {
                let mut servers = Vec::new();
                for element in list.split(',') {
                    let server = parse_server(element.trim())?;
                    if !servers.contains(&server) {
                        servers.push(server);
                    }
                }
                Ok(Self::Servers(servers))
            }
        }
    }
}

/// IPv6 needs brackets: `fd00::1:53` is itself an address.
fn parse_server(text: &str) -> Result<SocketAddr, String> {
    let with_port = || format!("{text}:{DNS_PORT}").parse();
    let server: SocketAddr = text.parse().or_else(|_| with_port()).map_err(|_| {
        format!(
            "`{text}` is not an IP address with an optional port: 10.0.0.10, 10.0.0.10:53, [fd00::1], [fd00::1]:53"
        )
    })?;
    if server.port() == 0 || !is_host(server.ip()) {
        return Err(format!(
            "`{text}` cannot be a DNS server: the address must be one host's, and the port 1 to 65535"
        ));
    }
    Ok(server)
}

/// Whether one host can have the address.
fn is_host(address: IpAddr) -> bool {
    !address.is_unspecified()
        && !address.is_multicast()
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// The `nameserver` lines of a file (resolv.conf(5)), followed as it changes.
#[derive(Debug)]
pub struct ResolvConf {
    path: PathBuf,
    interval: Duration,
    /// The content at the last reading, or why reading failed: the same is not logged twice.
    seen: Option<Result<Vec<u8>, String>>,
}

impl ResolvConf {
    /// The file of the host or the pod.
    pub fn of_host() -> Self {
        Self {
            path: RESOLV_CONF.into(),
            interval: INTERVAL,
            seen: None,
        }
    }

    /// Sends the list, and again whenever it changes, until `shutdown`. If the file cannot be read
    /// or names no server, it warns and leaves the list as it is.
    ///
    /// # Errors
    /// None.
    pub async fn run(
        mut self,
        servers: watch::Sender<Servers>,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first list is sent even if it is empty, since look-ups wait for it.
        self.read(&servers).await;
        servers.send_modify(|_| ());
        while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            self.read(&servers).await;
        }
        Ok(())
    }

    async fn read(&mut self, servers: &watch::Sender<Servers>) {
        let read = content(&self.path).await.map_err(|error| error.to_string());
        if self.seen.as_ref() == Some(&read) {
            return;
        }
        let path = self.path.display();
        match &read {
            Err(error) => {
                warn!(%path, error, "cannot read the file of DNS servers: look-ups keep using the last list")
            }
            Ok(content) => {
                let (found, malformed) = parse(&String::from_utf8_lossy(content));
                for (line, error) in malformed {
                    warn!(%path, line, error, "skipping a line of the file of DNS servers");
                }
                if found.is_empty() {
                    warn!(%path, "the file names no DNS server: look-ups keep using the last list; add a `nameserver` line");
                } else {
                    let found: Servers = found.into();
                    if send_if_changed(servers, Arc::clone(&found)) {
                        info!(%path, servers = ?found, "look-ups query these DNS servers");
                    }
                }
            }
        }
        self.seen = Some(read);
    }
}

/// The servers that the file of the host or the pod names now.
///
/// # Errors
/// The file cannot be read.
pub async fn servers_of_host() -> io::Result<Vec<SocketAddr>> {
    let content = content(Path::new(RESOLV_CONF)).await?;
    let (servers, _malformed) = parse(&String::from_utf8_lossy(&content));
    Ok(servers)
}

async fn content(path: &Path) -> io::Result<Vec<u8>> {
    let file = tokio::fs::File::open(path).await?;
    let mut content = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut content).await?;
    Ok(content)
}

/// The servers of a resolv.conf(5) without duplicates, and the errors of malformed lines by line
/// number.
fn parse(text: &str) -> (Vec<SocketAddr>, Vec<(usize, String)>) {
    let (mut servers, mut malformed) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        // A comment starts the line (resolv.conf(5)), or, as glibc reads it, follows the address.
        let mut words = line
            .split_ascii_whitespace()
            .take_while(|word| !word.starts_with(['#', ';']));
        if words.next() != Some("nameserver") {
            continue;
        }
        match parse_nameserver(words.next()) {
            Ok(server) if servers.contains(&server) => {}
            Ok(server) => servers.push(server),
            Err(error) => malformed.push((number, error)),
        }
    }
    (servers, malformed)
}

fn parse_nameserver(word: Option<&str>) -> Result<SocketAddr, String> {
    let text = word.ok_or("`nameserver` without an address")?;
    // With a numeric scope (`fe80::1%2`) it parses as a socket address only.
    let address = match text.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, DNS_PORT),
        Err(_) => format!("[{text}]:{DNS_PORT}")
            .parse()
            .map_err(|_| format!("`{text}` is not an IP address"))?,
    };
    if !is_host(address.ip()) {
        return Err(format!("`{text}` cannot be a DNS server's address"));
    }
    Ok(address)
}

#[cfg(test)]
mod tests;
