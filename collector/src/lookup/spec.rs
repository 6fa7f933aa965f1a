//! The flag with the servers to query: `--resolver`.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

/// The port of a DNS server (RFC 1035 section 4.2).
pub(super) const DNS_PORT: u16 = 53;

const EMPTY: &str = "the value is empty: give kube, resolv.conf, resolv.conf-tcp, none, or servers such as 10.0.0.10:53,[fd00::1]";

/// The value of `--resolver`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ResolverSpec {
    /// `kube`: the pods behind the cluster's DNS service.
    Kube,
    /// `resolv.conf`: the name servers of `/etc/resolv.conf`.
    ResolvConf,
    /// `resolv.conf-tcp`: the same, over TCP only.
    ResolvConfTcp,
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
            "resolv.conf-tcp" => Ok(Self::ResolvConfTcp),
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
pub(super) fn is_host(address: IpAddr) -> bool {
    !address.is_unspecified()
        && !address.is_multicast()
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolver_is_a_word_or_a_list_of_servers() {
        let spec = |text: &str| text.parse::<ResolverSpec>().unwrap();
        assert_eq!(spec("kube"), ResolverSpec::Kube);
        assert_eq!(spec("resolv.conf"), ResolverSpec::ResolvConf);
        assert_eq!(spec("resolv.conf-tcp"), ResolverSpec::ResolvConfTcp);
        assert_eq!(spec("none"), ResolverSpec::None);
        for (text, expected) in [
            ("10.0.0.10", &["10.0.0.10:53"][..]),
            (
                "10.0.0.10:5353, [fd00::1],[fd00::1]:53,10.0.0.10:5353",
                &["10.0.0.10:5353", "[fd00::1]:53"],
            ),
            ("[fe80::1%2]", &["[fe80::1%2]:53"]),
        ] {
            let servers = expected.iter().map(|it| it.parse().unwrap()).collect();
            assert_eq!(spec(text), ResolverSpec::Servers(servers));
        }
    }

    #[test]
    fn what_is_no_server_is_refused_by_name() {
        let error = |text: &str| text.parse::<ResolverSpec>().unwrap_err();
        assert_eq!(error(""), EMPTY);
        for text in [
            "dns.example",
            "fd00::1",
            "10.0.0",
            "10.0.0.1:x",
            "[10.0.0.1]",
            "KUBE",
        ] {
            let error = error(text);
            assert!(
                error.starts_with(&format!("`{text}` is not an IP")),
                "{error}"
            );
        }
        for text in [
            "0.0.0.0",
            "[::]:53",
            "10.0.0.1:0",
            "224.0.0.1",
            "[ff02::1]",
            "255.255.255.255",
        ] {
            let error = error(text);
            assert!(error.starts_with(&format!("`{text}` cannot be")), "{error}");
        }
        assert!(error("10.0.0.1,,10.0.0.2").starts_with("`` is not an IP"));
    }
}
