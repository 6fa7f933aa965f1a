//! The combined writes of two collectors.

use std::net::{IpAddr, Ipv4Addr};

use super::{
    super::{answer, name},
    *,
};
use crate::{clients::tests::Pods, objects::WriteCost};

#[test]
fn a_standby_does_not_write_what_there_is_no_room_for() {
    const RATE: usize = 3_000;
    const SECONDS: usize = 120;
    let mut pair = Pair::with(|config| {
        config.objects.rates.bytes = RATE as f64;
        config.limits.lookups = false;
    });
    let tell = |pair: &mut Pair, first: usize, count: usize| {
        let mut observation = answer(WWW, "1.1.1.1", pair.leader.now);
        let ip = |i: usize| IpAddr::from((0x0b00_0000 + i as u32).to_be_bytes());
        observation.addresses = (first..first + count).map(|i| (ip(i), 86_400)).collect();
        observation.client = Some("10.0.0.1".parse().unwrap());
        pair.leader.controller.observe(&observation);
        pair.standby.observe(&observation);
    };
    // Each write takes the bytes of 20 s.
    tell(&mut pair, 0, 400);
    pair.run(3_000);
    let before = pair.stored;
    let mut bytes = 0;
    for turn in 0..SECONDS / 3 {
        tell(&mut pair, 400 + turn, 1);
        let before = pair.stored;
        pair.run(3_000);
        let size = pair.leader.controller.names.entries[&name(WWW)]
            .memory
            .size()
            .bytes();
        bytes += size * (pair.stored[0] + pair.stored[1] - before[0] - before[1]);
    }
    let writes = [0, 1].map(|i| pair.stored[i] - before[i]);
    // The savings, the debt, and one write of each collector.
    let most = (SECONDS + 120) * RATE + 2 * 90_000;
    assert!(bytes < most, "{writes:?}: {bytes} of {most}");
}

#[test]
fn a_standby_owes_no_more_than_was_written() {
    let mut pair = Pair::with(|config| {
        config.objects.rates.bytes = 100_000.0;
        config.limits.lookups = false;
    });
    // The leader writes 11 kB a second: an address comes, and the oldest of 35 goes.
    for i in 0..600 {
        let ip = Ipv4Addr::from(0x0b00_0000 + i);
        pair.tell(WWW, &ip.to_string(), BOTH);
        pair.leader.now += 1_000;
        pair.step();
    }
    pair.is_cut_off = true;
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.run(3_000);
    let www = pair.www();
    assert!(www.contains(" 1.1.1.1"), "{www}");
}

#[test]
fn a_write_of_a_standby_is_charged_to_the_namespace_whose_pods_asked() {
    let pods = Pods::of(&["evil/a", "victim/a"]);
    let mut pair = Pair::with(|config| {
        config.shared.clients = pods.clients.clone();
        config.objects.rates.bytes = 1_000.0;
        config.limits.lookups = false;
    });
    let now = pair.leader.now;
    let both = pods.numbers(&["evil", "victim"]);
    let mut wanted = wanted(&[WWW, WILDCARD, "*.example.net"], 0);
    wanted.name_mut(&name(WILDCARD)).namespaces = both.into();
    pair.leader.controller.want(&wanted.into(), at(now));
    let [evil, victim] = ["evil", "victim"].map(|it| pods.numbers(&[it]));
    let cost = |payers, bytes| WriteCost {
        payers,
        bytes,
        since: at(now),
    };
    let budget = &mut pair.leader.controller.objects.budget;
    budget.charge(&cost(&evil, 20_000), at(now));
    // The leader does not write it, since it is beyond the share. The standby does.
    pair.is_cut_off = true;
    let mut observation = answer("a.example.com", "203.0.113.1", now);
    observation.client = Some(pods.address("evil/a"));
    pair.leader.controller.observe(&observation);
    pair.standby.observe(&observation);
    pair.run(5_000);
    assert_eq!(pair.stored[1], 1);
    let budget = &pair.leader.controller.objects.budget;
    assert!(budget.waits_for_nothing(&cost(&victim, 0), at(pair.leader.now)));
}
