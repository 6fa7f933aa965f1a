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
    /// `255.255.255.255`; the rest of `240.0.0.0/4` is in private use here and there.
    Broadcast,
    /// The metadata and credential addresses of cloud providers that are not link-local.
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

/// Azure's host agent, Alibaba's and Oracle's metadata.
const CLOUD_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// Amazon's metadata and its credentials for pods, Google's metadata.
const CLOUD_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

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
    let [first, ..] = address.octets();
    if first == 0 {
        Err(Forbidden::Unspecified)
    } else if address.is_loopback() {
        Err(Forbidden::Loopback)
    } else if address.is_link_local() {
        Err(Forbidden::LinkLocal)
    } else if address.is_multicast() {
        Err(Forbidden::Multicast)
    } else if address.is_broadcast() {
        Err(Forbidden::Broadcast)
    } else if CLOUD_V4.contains(&address) {
        Err(Forbidden::CloudMetadata)
    } else {
        Ok(())
    }
}

fn check_v6(address: Ipv6Addr) -> Result<(), Forbidden> {
    if address.is_unspecified() {
        Err(Forbidden::Unspecified)
    } else if address.is_loopback() {
        Err(Forbidden::Loopback)
    } else if address.is_unicast_link_local() {
        Err(Forbidden::LinkLocal)
    } else if address.is_multicast() {
        Err(Forbidden::Multicast)
    } else if CLOUD_V6.contains(&address) {
        Err(Forbidden::CloudMetadata)
    } else {
        embedded_v4(address).map_or(Ok(()), check_v4)
    }
}

/// The IPv4 address that a translator or tunnel would reach through an IPv6 address, if it is inside it as [`check`] says.
pub fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => embedded_v4(v6),
    }
}

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
mod tests;
