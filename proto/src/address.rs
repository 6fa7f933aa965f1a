//! Canonical addresses, and the guards against addresses that no DNS answer may open.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is never programmed, whatever the rule says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Forbidden {
    /// `0.0.0.0/8` and `::`.
    Unspecified,
    /// `127.0.0.0/8` and `::1`.
    Loopback,
    /// `169.254.0.0/16` and `fe80::/10`.
    LinkLocal,
    /// `224.0.0.0/4` and `ff00::/8`.
    Multicast,
    /// `255.255.255.255` and the reserved `240.0.0.0/4` that it ends.
    Broadcast,
    /// The metadata and agent addresses of cloud providers that are not link-local.
    CloudMetadata,
}

impl Forbidden {
    /// A word for metric labels and log lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::CloudMetadata => "cloud-metadata",
        }
    }
}

/// The one spelling of an address: an IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) becomes the IPv4 address.
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Whether the address, or the IPv4 address inside it (IPv4-mapped, IPv4-compatible, NAT64 `64:ff9b::/96` of RFC 6052,
/// 6to4 of RFC 3056), is one that a DNS answer must never open.
///
/// # Errors
/// The reason.
pub fn check(address: IpAddr) -> Result<(), Forbidden> {
    match address {
        IpAddr::V4(v4) => check_v4(v4),
        IpAddr::V6(v6) => check_v6(v6),
    }
}

fn check_v4(address: Ipv4Addr) -> Result<(), Forbidden> {
    const CLOUD: [Ipv4Addr; 3] = [
        Ipv4Addr::new(168, 63, 129, 16),
        Ipv4Addr::new(100, 100, 100, 200),
        Ipv4Addr::new(192, 0, 0, 192),
    ];
    let [first, ..] = address.octets();
    if first == 0 {
        Err(Forbidden::Unspecified)
    } else if address.is_loopback() {
        Err(Forbidden::Loopback)
    } else if address.is_link_local() {
        Err(Forbidden::LinkLocal)
    } else if address.is_multicast() {
        Err(Forbidden::Multicast)
    } else if first >= 240 {
        Err(Forbidden::Broadcast)
    } else if CLOUD.contains(&address) {
        Err(Forbidden::CloudMetadata)
    } else {
        Ok(())
    }
}

fn check_v6(address: Ipv6Addr) -> Result<(), Forbidden> {
    const AWS: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    if address.is_unspecified() {
        Err(Forbidden::Unspecified)
    } else if address.is_loopback() {
        Err(Forbidden::Loopback)
    } else if address.is_unicast_link_local() {
        Err(Forbidden::LinkLocal)
    } else if address.is_multicast() {
        Err(Forbidden::Multicast)
    } else if address == AWS {
        Err(Forbidden::CloudMetadata)
    } else {
        embedded_v4(address).map_or(Ok(()), check_v4)
    }
}

/// The IPv4 address that a translator or tunnel would reach through this IPv6 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = |s: [u16; 8]| {
        let [.., g, h] = s;
        let ([a, b], [c, d]) = (g.to_be_bytes(), h.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Some(low(segments)),
        [0x2002, high, low, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> Option<&'static str> {
        check(text.parse().unwrap()).err().map(Forbidden::as_str)
    }

    #[test]
    fn dangerous_addresses_are_forbidden_in_every_disguise() {
        for (text, expected) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("127.0.0.53", "loopback"),
            ("169.254.169.254", "link-local"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("168.63.129.16", "cloud-metadata"),
            ("100.100.100.200", "cloud-metadata"),
            ("192.0.0.192", "cloud-metadata"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("fe80::1", "link-local"),
            ("ff02::1", "multicast"),
            ("fd00:ec2::254", "cloud-metadata"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::127.0.0.1", "loopback"),
            ("64:ff9b::7f00:1", "loopback"),
            ("2002:a9fe:a9fe::1", "link-local"),
        ] {
            assert_eq!(reason(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn ordinary_and_private_addresses_are_allowed() {
        for text in [
            "93.184.216.34",
            "10.0.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "2606:2800::1",
            "fd00::1",
            "64:ff9b::101:101",
        ] {
            assert_eq!(reason(text), None, "{text}");
        }
    }

    #[test]
    fn a_mapped_address_is_spelt_as_ipv4() {
        assert_eq!(
            canonical("::ffff:1.2.3.4".parse().unwrap()).to_string(),
            "1.2.3.4"
        );
        assert_eq!(
            canonical("2001:DB8::1".parse().unwrap()).to_string(),
            "2001:db8::1"
        );
    }
}
