//! What must hold for long, with CoreDNS before an upstream that changes, fails and keeps silent. Each of these has a long
//! version, see [`tests::soak`].

mod burst;
mod completeness;
mod dead;
mod foreign;
mod restarted;
mod rotating;
mod wildcard;

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use hickory_proto::op::ResponseCode;
use tests::upstream::{Asked, Say, Scripted, Speech};

/// A number that no other name or answer has, as an address: of 198.18.0.0/15, the network for benchmarks (RFC 2544), or of
/// 2001:db8::/32.
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

/// A script: `n17.up.test` has address 17 of its family, and the name of a zone that exists no data.
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
fn numbered_name(number: u32) -> String {
    format!("n{number}.up.test.")
}

/// The median and the largest, printed.
fn print_delays(what: &str, mut delays: Vec<Duration>) -> Duration {
    delays.sort_unstable();
    let (median, max) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    println!(
        "{what}: median {} ms, max {} ms, of {}",
        median.as_millis(),
        max.as_millis(),
        delays.len()
    );
    max
}
