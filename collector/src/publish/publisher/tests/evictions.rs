//! Counting and reporting evictions, in the publisher.

use runtime::kube_events::{Report, Reporter};

use super::{World, at, name, wanted};
use crate::{publish::ManageObjects, rules::notices::Notice};

const NAME: &str = "www.example.com.";

fn reports(world: &mut World) -> Vec<Report> {
    let reporter = Reporter::default();
    world.publisher.report_evictions(&reporter);
    reporter.take()
}

#[test]
fn evictions_are_reported_once_there_is_an_object() {
    let mut world = World::with(ManageObjects::Auto, |config| {
        config.limits.addresses_per_name = 2;
        config.limits.names_per_wildcard = 2;
    });
    let mut notices = world.config.shared.notices.subscribe();
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
    assert!(notices.try_recv().is_err(), "no rule denies it");
    let mut denying = wanted(&[NAME, "*.example.org"], 0);
    denying.name_mut(&name(NAME)).retention.denied = true;
    world.publisher.set_rules(denying, at(0));
    world.settle();
    world.observe(NAME, "192.0.2.5");
    for asked in ["a.example.org", "b.example.org", "c.example.org"] {
        world.observe(asked, "192.0.2.1");
    }
    world.settle();
    let reported = reports(&mut world);
    let mut reasons: Vec<_> = reported.iter().map(|it| it.reason).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["AddressesEvicted", "NamesEvicted"]);
    let notice = notices.try_recv();
    assert_eq!(notice, Ok(Notice::DeniedLeftOut(name(NAME))));
}
