//! A standby beside a leader that leaves names out.

use std::net::IpAddr;

use crate::clients::{Clients, tests::Pods};
use crate::controller::tests::{
    answer, at, name,
    standby::{Pair, WILDCARD, WWW},
    wanted,
};

/// The standby knows no pods, so it does not know which namespaces are charged for a name.
fn pair(pods: &Pods) -> Pair {
    let mut pair = Pair::with(|config| {
        config.shared.clients = pods.clients.clone();
        config.namespace_limits.each.addresses = 20;
    });
    pair.standby.names.shared.clients = Clients::default();
    pair.standby.shares.shared.clients = Clients::default();
    let mut wanted = wanted(&[WWW, WILDCARD, "*.example.net"], 0);
    let numbers = pods.numbers(&["team"]);
    wanted.order = [(numbers[0], [name(WILDCARD)].into())].into();
    wanted.name_mut(&name(WILDCARD)).namespaces = numbers.into();
    pair.leader
        .controller
        .want(&wanted.into(), at(pair.leader.now));
    pair
}

#[test]
fn a_standby_soon_stops_adding_the_names_that_the_leader_leaves_out() {
    let pods = Pods::of(&["team/a"]);
    let mut pair = pair(&pods);
    for label in 0..120_u32 {
        let ip = IpAddr::from((0x0b00_0000 + label).to_be_bytes());
        let asked = format!("n{label}.example.com");
        let mut observation = answer(&asked, "1.1.1.1", pair.leader.now);
        observation.addresses = [(ip, 3600)].into_iter().collect();
        observation.client = Some(pods.address("team/a"));
        pair.leader.controller.observe(&observation);
        pair.standby.observe(&observation);
        pair.run(500);
    }
    pair.run(10_000);
    let added = pair.stored[1];
    assert!((1..=20).contains(&added), "{added} writes of the standby");
    let statuses = pair.leader.store.values().flat_map(|it| &it.status);
    let names = statuses.flat_map(|it| &it.resolved_names);
    let stored: usize = names.map(|it| it.resolved_addresses.len()).sum();
    assert!((15..=20).contains(&stored), "{stored} addresses");
}
