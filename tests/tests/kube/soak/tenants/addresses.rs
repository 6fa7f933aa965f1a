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

fn is_left_out(object: &DnsNameResolver) -> bool {
    let names = object
        .status
        .iter()
        .flat_map(|status| &status.resolved_names);
    let mut conditions = names.flat_map(|name| &name.conditions);
    conditions.any(|condition| condition.reason == "LimitExceeded")
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
    let collector = &cluster.collector;
    let over = names.len() - OF_A_NAMESPACE / OF_A_NAME as usize;
    collector
        .program
        .counts("egress_collector_names_left_out", &[], over as f64)
        .await;
    let (all, stored) = eventually("each name has its addresses or is left out", async || {
        let all = cluster.objects.api.list(&Default::default()).await;
        let all = all.map_err(|error| error.to_string())?.items;
        let stored: usize = all.iter().map(addresses).sum();
        let settled = all.iter().filter(|it| addresses(it) > 0 || is_left_out(it));
        let settled = settled.count();
        let words = format!("{settled} of {}, {stored} addresses", names.len());
        (settled == names.len() && stored <= OF_A_NAMESPACE)
            .then_some((all, stored))
            .ok_or(words)
    })
    .await;
    // There is room for names of others.
    cluster.flows(&team[0], ONE.wildcard, &ONE.name(1)).await;
    let left_out = all.iter().filter(|it| is_left_out(it)).count();
    let written = cluster.server.stored_bytes().await - before;
    println!(
        "{count} names of {OF_A_NAME} addresses: {stored} addresses in statuses, {left_out} names left out, etcd grew by {:.1} MB",
        written / 1e6
    );
    cluster.tells("greedy", "LimitExceeded").await;
}
