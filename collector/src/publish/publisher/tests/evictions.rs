//! Counting and reporting evictions, in the publisher.

use runtime::kube_events::{Report, Reporter};

use super::{World, at, name, wanted};
use crate::{publish::ManageObjects, rules::notices::Notice};

const NAME: &str = "www.example.com.";

fn small() -> World {
    World::with(ManageObjects::Auto, |config| {
        config.limits.addresses_per_name = 2;
        config.limits.names_per_wildcard = 2;
    })
}

fn reports(world: &mut World) -> Vec<Report> {
    let reporter = Reporter::default();
    world.publisher.report_evictions(&reporter);
    reporter.take()
}

#[test]
fn evictions_are_reported_once_there_is_an_object() {
    let mut world = small();
    world.want(&[NAME]);
    for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        world.observe(NAME, ip);
    }
    assert_eq!(reports(&mut world), []);
    world.settle();
    let reported = reports(&mut world);
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].reason, "AddressesEvicted");
    assert_eq!(reported[0].about.kind.as_deref(), Some("DNSNameResolver"));
    let object = world.store.values().next().unwrap();
    assert_eq!(reported[0].about.name, object.metadata.name);
    assert!(reported[0].note.starts_with(NAME), "{}", reported[0].note);
    assert_eq!(reports(&mut world), []);
    // The note stays the same, so the Event is not written again.
    world.observe(NAME, "192.0.2.4");
    assert_eq!(reports(&mut world), reported);
    assert_eq!(world.publisher.names.evictions().addresses, 2);
}

#[test]
fn names_that_a_full_wildcard_loses_are_told_of_on_its_object() {
    let mut world = small();
    world.want(&["*.example.com."]);
    world.settle();
    for name in ["a.example.com.", "b.example.com.", "c.example.com."] {
        world.observe(name, "192.0.2.1");
    }
    world.settle();
    let told = reports(&mut world);
    let reasons: Vec<_> = told.iter().map(|told| told.reason).collect();
    assert_eq!(reasons, ["NamesEvicted"]);
    assert_eq!(world.publisher.names.evictions().names, 1);
}

#[test]
fn what_is_untold_of_name_that_is_no_longer_wanted_is_forgotten() {
    let mut world = small();
    world.want(&[NAME]);
    for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        world.observe(NAME, ip);
    }
    world.want(&[]);
    world.settle_deletions();
    assert_eq!(reports(&mut world), []);
    assert!(world.publisher.evictions.unreported.is_empty());
}

#[test]
fn only_evictions_of_a_denied_name_are_reported_to_the_rules() {
    for denied in [true, false] {
        let mut world = World::with(ManageObjects::Auto, |config| {
            config.limits.addresses_per_name = 2;
        });
        let mut reported = world.config.shared.notices.subscribe();
        let mut wanted = wanted(&[NAME], 0);
        wanted.name_mut(&name(NAME)).retention.denied = denied;
        world.publisher.set_rules(wanted, at(0));
        for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            world.observe(NAME, ip);
        }
        world.settle();
        assert_eq!(reports(&mut world).len(), 1);
        let expected = Notice::DeniedLeftOut(name(NAME));
        assert_eq!(reported.try_recv().ok(), denied.then_some(expected));
    }
}
