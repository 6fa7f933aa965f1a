//! Names with the maximum number of addresses.

use std::net::Ipv4Addr;

use hickory_proto::op::ResponseCode;
use proto::api::DnsNameResolver;
use tests::{
    or_skip,
    soak::or_long,
    upstream::{Asked, Say, Speech},
    wait::eventually,
};

use super::{Cluster, allow, zones::ONE};

/// Addresses of a name, and of a namespace.
const OF_A_NAME: u32 = 1_000;
const OF_A_NAMESPACE: usize = 20_000;

/// `n7.many.test.` has a thousand addresses, which need TCP.
fn many(asked: &Asked) -> Vec<Say> {
    let name = asked.name();
    let number = name
        .strip_prefix('n')
        .and_then(|name| name.split('.').next());
    match number.and_then(|number| number.parse::<u32>().ok()) {
        Some(_) if asked.is_v4() && !asked.tcp => {
            asked.reply(ResponseCode::NoError).say_truncated()
        }
        Some(number) if asked.is_v4() => {
            let first = Ipv4Addr::new(12, 0, 0, 0).to_bits() + number * OF_A_NAME;
            let addresses = (first..first + OF_A_NAME).map(|bits| Ipv4Addr::from_bits(bits).into());
            asked.ips(&addresses.collect::<Vec<_>>(), 3_600).say()
        }
        _ => asked.reply(ResponseCode::NoError).say(),
    }
}

fn addresses(object: &DnsNameResolver) -> usize {
    let names = object
        .status
        .iter()
        .flat_map(|status| &status.resolved_names);
    names.map(|name| name.resolved_addresses.len()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_egress_firewall_of_large_names_takes_no_more_than_its_share() {
    let count = or_long(40, 800);
    let mut cluster = or_skip!(Cluster::start(many, &[]).await);
    let team = cluster.tenant("team", allow(&[ONE.wildcard]), 1).await;
    let before = cluster.server.stored_bytes().await;
    let names: Vec<String> = (0..count)
        .map(|number| format!("n{number}.many.test."))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    cluster.tenant("greedy", allow(&names), 0).await;
    let stored = eventually(
        "the namespace has as many addresses as it may",
        async || {
            let all = cluster.objects.api.list(&Default::default()).await;
            let all = all.map_err(|error| error.to_string())?.items;
            let stored: usize = all.iter().map(addresses).sum();
            (stored >= OF_A_NAMESPACE)
                .then_some(stored)
                .ok_or_else(|| format!("{stored} addresses"))
        },
    )
    .await;
    // The last answer before the cap may have had a thousand.
    let most = OF_A_NAMESPACE + OF_A_NAME as usize;
    assert!(stored <= most, "{stored}");
    // There is room for names of others.
    cluster.flows(&team[0], ONE.wildcard, &ONE.name(1)).await;
    let written = cluster.server.stored_bytes().await - before;
    println!(
        "{count} names of {OF_A_NAME} addresses: {stored} addresses in statuses, etcd grew by {:.1} MB",
        written / 1e6
    );
    let left_out = "egress_collector_addresses_left_out_total";
    assert!(cluster.collector.metric(left_out, &[]).await > 0.0);
    cluster.tells("greedy", "LimitExceeded").await;
}
