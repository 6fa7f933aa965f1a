//! The summary of all names, in the publisher.

use super::{World, at, name};
use crate::publish::ManageObjects;
use names::{Failure, FamilyOutcome, LookupResult};
use proto::facts::FailingName;

fn fail(world: &mut World, asked: &str) {
    let failed = || FamilyOutcome::Failed(Failure::NXDOMAIN);
    let now = at(world.now);
    let result = LookupResult {
        name: name(asked),
        started: now,
        finished: now,
        is_unresponsive: false,
        v4: failed(),
        v6: failed(),
    };
    world.publisher.next_due(now);
    world.publisher.apply_lookup(result, now);
}

#[test]
fn view_has_every_name_with_what_is_known_of_it_and_what_fails() {
    let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
    world.want(&["www.example.com", "*.example.net", "dead.example.com"]);
    world.observe("www.example.com", "192.0.2.1");
    world.observe("www.example.com", "192.0.2.2");
    world.observe("a.example.net", "192.0.2.3");
    world.observe("b.example.net", "192.0.2.3");
    world.settle();
    fail(&mut world, "dead.example.com");
    fail(&mut world, "a.example.net");
    let view = world.publisher.view(at(world.now));
    assert!(view.leader);
    let [wildcard, dead, www] = view.names.as_slice() else {
        panic!("{view:?}");
    };
    assert_eq!(www.name, name("www.example.com"));
    assert_eq!((www.names, www.addresses, www.failing), (1, 2, 0));
    assert_eq!(www.objects.len(), 1);
    assert!(www.allowed && !www.denied);
    // At the first expiry, and a little later.
    let next = www.next_lookup.unwrap();
    assert!(next >= at(30_000) && next <= at(31_250), "{next:?}");

    assert_eq!(wildcard.name, name("*.example.net"));
    assert_eq!(
        (wildcard.names, wildcard.addresses, wildcard.failing),
        (2, 2, 1)
    );
    let failure = FailingName {
        name: name("a.example.net"),
        failures: 1,
        reason: Some("NXDOMAIN".to_owned()),
    };
    assert_eq!(wildcard.failures, [failure]);

    // It never had an address, so it has no condition `Degraded`.
    assert_eq!(
        (dead.addresses, dead.failing, dead.fruitless_lookups),
        (0, 0, 1)
    );
    assert_eq!(dead.next_lookup.unwrap().since(at(world.now)).as_secs(), 5);
}
