//! Long-term requirements. Each of these has a long version, see [`tests::soak`].

mod first;
mod tenants;

use std::{
    net::{IpAddr, Ipv4Addr},
    ops::Range,
};

use hickory_proto::op::ResponseCode;
use proto::api::Family;
use tests::{
    upstream::{Asked, Say, Scripted, Speech},
    wait::eventually,
    world::World,
};

/// A unique number as an address: of 198.18.0.0/15, the network for benchmarks (RFC 2544), or of 2001:db8::/32.
fn address(number: u32, v6: bool) -> IpAddr {
    assert!(number < 1 << 17);
    if v6 {
        return format!("2001:db8::{:x}:{:x}", number >> 16, number & 0xffff)
            .parse()
            .unwrap();
    }
    Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + number).into()
}

/// The number in a name such as `n17.up.test.`.
fn number(name: &str) -> Option<u32> {
    let label = name.split('.').next()?;
    label.get(1..)?.parse().ok()
}

/// A script: `n17.up.test` has address 17 of its family, and the name of the zone itself has no data.
fn numbered(ttl: u32) -> impl Fn(&Asked) -> Vec<Say> + Send + Sync {
    move |asked| match number(&asked.name()) {
        Some(number) if asked.is_v4() || asked.is_v6() => {
            asked.ips(&[address(number, asked.is_v6())], ttl).say()
        }
        _ => asked.reply(ResponseCode::NoError).say(),
    }
}

/// An upstream whose names have the addresses of their numbers, with this TTL in seconds.
async fn numbered_upstream(ttl: u32) -> Scripted {
    Scripted::start(numbered(ttl)).await
}

/// `n17.up.test.`
///
/// Names seen at the same moment, as in one flush of CoreDNS, are evicted in the order of their texts: that of their
/// numbers.
fn numbered_name(number: u32) -> String {
    format!("n{number:05}.up.test.")
}

/// Waits until all these names of [`numbered_upstream`] have their addresses in the set of this rule.
async fn all_are_in(world: &World, rule: &str, numbers: Range<u32>) {
    eventually("all names are in the set", async || {
        let rows = world.northbound.sets(rule, Family::V4)?;
        let has = |i: &u32| {
            let address = address(*i, false).to_string();
            rows.iter().any(|row| row.addresses.contains(&address))
        };
        let missing: Vec<u32> = numbers.clone().filter(|i| !has(i)).collect();
        let whole = missing.is_empty().then_some(());
        whole.ok_or_else(|| format!("{missing:?} are missing"))
    })
    .await;
}
