//! `DNSNameResolver` objects in the collector's form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proto::api::{
    DnsNameResolver, DnsNameResolverSpec, DnsNameResolverStatus, ResolvedAddress, ResolvedName,
};

/// The `n`th of 2^24 IPv4 addresses, unsorted: the collector keeps addresses in the order in which they were seen.
pub(crate) fn v4(n: usize) -> IpAddr {
    let scattered = u32::try_from(n).unwrap().wrapping_mul(0x9e_3779) & 0xff_ffff;
    Ipv4Addr::from_bits(0x0b00_0000 + scattered).into()
}

/// The `n`th of 2^24 IPv6 addresses, unsorted.
pub(crate) fn v6(n: usize) -> IpAddr {
    let scattered = u128::try_from(n).unwrap().wrapping_mul(0x9e_3779) & 0xff_ffff;
    Ipv6Addr::from_bits(0x2600_1f18_24e6_b900_0000_0000_0000_0000 + scattered).into()
}

pub(crate) fn dns_name(object: &str) -> String {
    format!("{object}.team.example.com.")
}

pub(crate) fn object(name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> DnsNameResolver {
    let sample: ResolvedAddress = serde_json::from_value(serde_json::json!({
        "ip": "", "ttlSeconds": 30, "lastLookupTime": "2026-01-31T12:00:00Z",
    }))
    .unwrap();
    let resolved = |address: IpAddr| ResolvedAddress {
        ip: address.to_string().into(),
        ..sample.clone()
    };
    let dns_name = dns_name(name);
    let mut object = DnsNameResolver::new(
        name,
        DnsNameResolverSpec {
            name: dns_name.clone(),
        },
    );
    object.metadata.namespace = Some("ovn-kubernetes".to_owned());
    object.metadata.uid = Some("4f1c0a57-2f39-4a0e-a7a5-8a1d0d8f2f11".to_owned());
    object.status = Some(DnsNameResolverStatus {
        resolved_names: vec![ResolvedName {
            conditions: Vec::new(),
            dns_name,
            resolved_addresses: addresses.into_iter().map(resolved).collect(),
            resolution_failures: 0,
        }],
    });
    object
}
