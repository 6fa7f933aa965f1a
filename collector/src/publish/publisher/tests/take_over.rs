//! The state that a new leader keeps and discards.

use runtime::store::Event;

use crate::publish::publisher::{
    Publisher,
    tests::{
        answer, at,
        standby::{BOTH, Pair, WILDCARD, WWW},
        wanted,
    },
};
use crate::rules::Source;

/// The Lease changes hands after an hour of look-ups by the old leader, and one client floods the
/// new one.
#[test]
fn flood_after_a_take_over_throws_no_honest_name_out() {
    let mut pair = Pair::with(|config| config.limits.names_per_wildcard = 20);
    let ask = |pair: &mut Pair, asked: &str, client: &str| {
        let mut observation = answer(asked, "1.1.1.1", pair.leader.now);
        observation.client = Some(client.parse().unwrap());
        pair.leader.publisher.apply_answer(&observation);
        pair.standby.apply_answer(&observation);
    };
    for i in 0..19 {
        ask(
            &mut pair,
            &format!("honest{i}.example.net"),
            &format!("10.0.0.{i}"),
        );
    }
    for _ in 0..3600 {
        pair.run(10);
        pair.leader.now += 990;
        pair.look_up(&["1.1.1.1"]);
    }
    let now = at(pair.leader.now);
    pair.leader.publisher.set_leads(false, now);
    pair.standby.set_leads(true, now);
    for i in 0..1000 {
        ask(&mut pair, &format!("flood{i}.example.net"), "10.0.0.99");
    }
    let names = known(&mut pair.standby, "*.example.net.");
    let honest = names.iter().filter(|it| it.starts_with("honest")).count();
    assert_eq!(honest, 19, "{names:?}");
}

/// A new leader has the times of a status, which may be ten minutes old, and removes no address by
/// them.
#[test]
fn address_leaves_after_take_over_look_up_and_ttl() {
    let mut pair = Pair::new();
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.settle();
    let start = pair.leader.now;
    // Kept alive by look-ups of the leader that the status does not show.
    while pair.leader.now < start + 300_000 {
        pair.run(100);
        pair.look_up(&["1.1.1.1"]);
    }
    let mut taken = at(pair.leader.now);
    pair.leader.publisher.set_leads(false, taken);
    pair.standby.set_leads(true, taken);
    std::mem::swap(&mut pair.leader.publisher, &mut pair.standby);
    // Its server has another address now.
    pair.leader.now += 10;
    pair.look_up(&["2.2.2.2"]);
    loop {
        pair.run(100);
        pair.look_up(&["2.2.2.2"]);
        if !pair.www().contains("1.1.1.1") {
            break;
        }
        taken = at(pair.leader.now);
    }
    let lasted = taken.since(at(start + 300_000));
    assert!((34_000..60_000).contains(&lasted.as_millis()), "{lasted:?}");
}

/// The known names under a wildcard.
fn known(publisher: &mut Publisher, spec: &str) -> Vec<String> {
    let entry = publisher
        .names
        .get(&crate::publish::publisher::tests::name(spec))
        .unwrap();
    let names = entry.list().names();
    names.map(|it| it.as_str().to_owned()).collect()
}

#[test]
fn while_a_dns_server_is_not_heard_no_name_is_forgotten_as_idle() {
    for is_missing in [true, false] {
        let mut pair = Pair::new();
        let coverage = crate::flush::coverage::StreamCoverage {
            is_missing,
            ..Default::default()
        };
        let now = at(pair.leader.now);
        pair.leader.publisher.set_coverage(coverage, now);
        pair.tell("a.example.net", "1.1.1.1", BOTH);
        for _ in 0..25 * 360 {
            pair.leader.now += 9_000;
            pair.run(1_000);
            pair.look_up(&["1.1.1.1"]);
        }
        let found = known(&mut pair.leader.publisher, "*.example.net.");
        assert_eq!(found.len(), usize::from(is_missing), "{found:?}");
    }
}

/// A client queries every five minutes for two days, while the collectors are killed in turns and
/// the other one leads.
#[test]
fn name_of_a_client_survives_kills_of_each_collector() {
    let mut pair = Pair::new();
    let config = pair.leader.config.clone();
    let mut chance = fastrand::Rng::with_seed(7);
    let (asked, names) = ("a.example.net", [WWW, WILDCARD, "*.example.net"]);
    pair.tell(asked, "1.1.1.1", BOTH);
    pair.run(3_000);
    let end = pair.leader.now + 48 * 3_600_000;
    while pair.leader.now < end {
        for _ in 0..30 {
            pair.leader.now += 9_900;
            pair.run(100);
            pair.look_up(&["1.1.1.1"]);
            let all = pair.leader.addresses();
            let has_it = |it: &String| it.starts_with("*.example.net.") && it.contains("1.1.1.1");
            assert!(all.iter().any(has_it), "{}: {all:?}", pair.leader.now);
        }
        pair.tell(asked, "1.1.1.1", BOTH);
        if chance.u8(..10) > 0 {
            continue;
        }
        let mut fresh = Publisher::new(config.clone());
        let now = at(pair.leader.now);
        let objects = pair.leader.store.values().cloned().collect();
        fresh.apply_event(Source::EgressFirewall, Event::Synced(objects), now);
        fresh.set_rules(wanted(&names, 0), now);
        if chance.bool() {
            // The leader is killed: the standby leads after some seconds, and a new process is the
            // standby.
            pair.leader.publisher = std::mem::replace(&mut pair.standby, fresh);
            pair.leader.now += 14_000;
            pair.leader.publisher.set_leads(true, at(pair.leader.now));
        } else {
            pair.standby = fresh;
        }
    }
}
