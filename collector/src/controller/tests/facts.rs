//! The details of one name or one address, in the controller.

use runtime::inspect::Subject;

use super::{World, answer, at, name};
use crate::{
    event_history::EventKind,
    failure::Failure,
    lookup::{FamilyOutcome, LookupResult},
    objects::{Facts, ManageObjects},
    observation::Provenance,
};

const WWW: &str = "www.example.com";

fn of_name(world: &World, text: &str) -> Facts {
    world
        .controller
        .inspect()
        .facts(&Subject::Name(name(text)), at(world.now))
}

#[test]
fn a_name_has_its_addresses_and_those_that_a_wildcard_knows_of_it() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW, "*.example.com"]);
    world.observe(WWW, "192.0.2.1");
    world.observe("mail.example.com", "192.0.2.2");
    let facts = of_name(&world, WWW);
    let [exact, wildcard] = facts.names.as_slice() else {
        panic!("{facts:?}");
    };
    for (found, spec) in [(exact, WWW), (wildcard, "*.example.com")] {
        assert_eq!(found.name, name(spec));
        let [(address, in_object)] = found.addresses.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(address.ip.to_string(), "192.0.2.1");
        assert!(!in_object);
    }
    world.settle();
    assert!(of_name(&world, WWW).names[0].addresses[0].1);
    let all = of_name(&world, "*.example.com");
    assert_eq!(all.names[0].addresses.len(), 2);
    assert_eq!(of_name(&world, "www.example.org").names, []);
}

#[test]
fn an_address_is_where_it_was_seen_last_and_a_status_only_repeats_that() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW]);
    let seen = |millis, source| crate::observation::Observation {
        source,
        ..answer(WWW, "192.0.2.1", millis)
    };
    let source = |world: &World| of_name(world, WWW).names[0].addresses[0].0.source;
    world.controller.observe(&seen(0, Provenance::peer(7)));
    world.settle();
    assert_eq!(source(&world), Provenance::peer(7));
    world.now = 1_000;
    world.controller.observe(&seen(1_000, Provenance::LOOKUP));
    assert_eq!(source(&world), Provenance::LOOKUP);
    world.controller.observe(&seen(500, Provenance::peer(7)));
    assert_eq!(source(&world), Provenance::LOOKUP);
}

#[test]
fn an_address_is_found_under_each_name_and_a_refusing_guard_is_named() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&[WWW, "*.example.net"]);
    for asked in [WWW, "a.example.net", "b.example.net"] {
        world.observe(asked, "192.0.2.1");
    }
    let of_address = |text: &str| {
        let subject = Subject::Address(text.parse().unwrap());
        world.controller.inspect().facts(&subject, at(world.now))
    };
    let facts = of_address("192.0.2.1");
    let found: Vec<_> = facts
        .names
        .iter()
        .map(|it| (it.name.as_str(), it.addresses.len()))
        .collect();
    assert_eq!(found, [("*.example.net.", 2), ("www.example.com.", 1)]);
    assert_eq!((facts.more_names, facts.guarded), (0, None));
    let loopback = of_address("127.0.0.1");
    assert_eq!(
        (loopback.names.len(), loopback.guarded),
        (0, Some("loopback"))
    );
}

#[test]
fn what_expires_is_thrown_out_or_fails_is_noted() {
    let mut world = World::with(ManageObjects::Auto, |config| {
        config.limits.addresses_per_name = 1;
    });
    let recent = world.recent.clone();
    let noted = || {
        let notes = recent.of_name(&name(WWW)).into_iter();
        let mut notes: Vec<_> = notes
            .map(|it| (it.address.map(|ip| ip.to_string()), it.what))
            .collect();
        notes.sort_by_key(|(address, _)| address.clone());
        notes
    };
    world.want(&[WWW]);
    world.observe(WWW, "192.0.2.1");
    world.now = 1_000;
    world.observe(WWW, "192.0.2.2");
    let evicted = (Some("192.0.2.1".to_owned()), EventKind::Evicted);
    assert_eq!(noted(), std::slice::from_ref(&evicted));
    let facts = of_name(&world, WWW);
    let goes = facts.names[0].addresses[0].0.goes;
    world.settle();
    world.controller.tick(goes);
    let expired = (Some("192.0.2.2".to_owned()), EventKind::Expired);
    assert_eq!(noted(), [evicted.clone(), expired.clone()]);
    let failed = || FamilyOutcome::Failed(Failure::Timeout);
    let mut round = LookupResult {
        name: name(WWW),
        started: goes,
        finished: goes,
        v4: failed(),
        v6: failed(),
    };
    world.controller.round(&round, goes);
    let failed = (None, EventKind::LookupFailed(Failure::Timeout));
    assert_eq!(noted(), [failed, evicted.clone(), expired.clone()]);
    (round.v4, round.v6) = (FamilyOutcome::NoData, FamilyOutcome::NoData);
    world.controller.round(&round, goes);
    assert_eq!(noted(), [(None, EventKind::NoAddress), evicted, expired]);
}
