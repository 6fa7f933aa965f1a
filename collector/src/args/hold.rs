//! The URL of the forwarder.

use std::{net::SocketAddr, str::FromStr};

use anyhow::{Context, bail};
use runtime::UsageError;

use crate::lookup::{ResolverSpec, servers_of_host};

const SCHEME: &str = "udp+tcp://";

/// Where the forwarder listens, and which servers it asks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HoldUrl {
    /// The address for UDP and TCP.
    pub listen: SocketAddr,
    /// `upstream`; empty for those of /etc/resolv.conf.
    upstreams: Vec<SocketAddr>,
}

impl HoldUrl {
    /// The servers that it asks.
    ///
    /// # Errors
    /// They are those of /etc/resolv.conf, which names none or cannot be read.
    pub async fn upstreams(&self) -> anyhow::Result<Vec<SocketAddr>> {
        if !self.upstreams.is_empty() {
            return Ok(self.upstreams.clone());
        }
        let found = servers_of_host().await.context("/etc/resolv.conf")?;
        if found.is_empty() {
            let problem = "--hold-listen: /etc/resolv.conf names no server: name one by ?upstream=";
            return Err(UsageError(problem.to_owned()).into());
        }
        Ok(found)
    }
}

impl FromStr for HoldUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let listen = address.strip_prefix(SCHEME).and_then(|it| it.parse().ok());
        let listen = listen.with_context(|| format!("give {SCHEME}ADDRESS:PORT"))?;
        let upstreams = match query.split_once('=') {
            None if query.is_empty() => Vec::new(),
            Some(("upstream", servers)) => match servers.parse() {
                Ok(ResolverSpec::Servers(servers)) => servers,
                Ok(_) => bail!("`upstream` is a list of servers such as 192.0.2.53,[2001:db8::53]"),
                Err(error) => bail!(error),
            },
            _ => bail!("the only parameter is `upstream`"),
        };
        Ok(Self { listen, upstreams })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn servers_behind_the_url_are_the_upstreams() {
        let url: HoldUrl = "udp+tcp://[::]:5300?upstream=192.0.2.53,[2001:db8::1]:54"
            .parse()
            .unwrap();
        assert_eq!(url.listen, "[::]:5300".parse().unwrap());
        let upstreams = ["192.0.2.53:53", "[2001:db8::1]:54"].map(|it| it.parse().unwrap());
        assert_eq!(url.upstreams().await.unwrap(), upstreams);
        let plain: HoldUrl = "udp+tcp://127.0.0.1:5300".parse().unwrap();
        assert_eq!(plain.upstreams, []);
    }

    #[test]
    fn other_scheme_or_parameter_is_refused() {
        for text in [
            "127.0.0.1:53",
            "tcp://127.0.0.1:53",
            "udp+tcp://localhost:53",
            "udp+tcp://127.0.0.1:53?upstream=",
            "udp+tcp://127.0.0.1:53?upstream=kube",
            "udp+tcp://127.0.0.1:53?slack=1ms",
        ] {
            assert!(text.parse::<HoldUrl>().is_err(), "{text}");
        }
    }
}
