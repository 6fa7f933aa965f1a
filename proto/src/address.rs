//! Canonical addresses, and checks for addresses that no DNS answer may open.

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
    /// `255.255.255.255`. The rest of `240.0.0.0/4` is allowed: some networks use it privately.
    Broadcast,
    /// The metadata and credential addresses of cloud providers that are not link-local.
    CloudMetadata,
}

impl Forbidden {
    /// The value for metric labels and log lines.
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

/// The words of [`Forbidden::as_str`] and further ones, as a slice.
#[macro_export]
macro_rules! forbidden_and {
    ($($more:literal),+ $(,)?) => {
        &[
            "unspecified",
            "loopback",
            "link-local",
            "multicast",
            "broadcast",
            "cloud-metadata",
            $($more),+
        ]
    };
}

/// Every reason for which the collector refuses an address of an answer: [`Forbidden::as_str`], `deny-answer` for what the
/// administrator denies, and what belongs to the cluster.
pub const GUARDS: &[&str] = forbidden_and![
    "deny-answer",
    "api-server",
    "service-cidr",
    "pod-cidr",
    "user-defined-network",
    "node",
];

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

/// The canonical form of an address. An IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) becomes the IPv4 address.
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Whether a DNS answer may open the address, and each IPv4 address that it embeds ([`embedded`]).
///
/// # Errors
/// The reason why it may not.
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
        embedded_v4(address)
            .into_iter()
            .flatten()
            .try_for_each(check_v4)
    }
}

/// The IPv4 addresses that a translator or tunnel would reach through an IPv6 address:
///
/// - IPv4-mapped `::ffff:0:0/96` and IPv4-compatible `::/96` (RFC 4291 section 2.5.5), IPv4-translated `::ffff:0:0:0/96` (RFC 2765
///   section 2.1);
/// - NAT64: `64:ff9b::/96` (RFC 6052 section 2.1), and `64:ff9b:1::/48` (RFC 8215) as if its prefix were one of 96 bits;
/// - 6to4 `2002::/16` (RFC 3056 section 2);
/// - Teredo `2001::/32`, its server and its client (RFC 4380 section 4);
/// - ISATAP, interface identifiers `0:5efe:` and `200:5efe:`, behind any prefix, also that of 6to4 (RFC 5214 section 6.1).
pub fn embedded(address: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
    let inside = match address {
        IpAddr::V4(_) => [None; 3],
        IpAddr::V6(v6) => embedded_v4(v6),
    };
    inside.into_iter().flatten()
}

fn embedded_v4(address: Ipv6Addr) -> [Option<Ipv4Addr>; 3] {
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    let isatap = match address.segments() {
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(v4(high, low)),
        _ => None,
    };
    let [first, second] = match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0x2002, high, low, ..] => [Some(v4(high, low)), None],
        [0x2001, 0, high, low, _, _, a, b] => [Some(v4(high, low)), Some(v4(!a, !b))],
        _ => [None; 2],
    };
    [first, second, isatap]
}

#[cfg(test)]
mod tests;
