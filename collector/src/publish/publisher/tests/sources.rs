//! Names that several sources use: one state, and a status for each source.

use std::collections::BTreeMap;

use proto::api::DnsNameResolver;
use runtime::store::Event;

use super::{World, at, wanted};
use crate::{
    publish::{ManageObjects, SourcePolicy},
    rules::{Source, Wanted},
};

const WWW: &str = "www.example.com.";

/// A world in which EgressFirewalls keep an address for no time, and DNSResolvers for a minute.
struct Two {
    world: World,
}

impl Two {
    fn new() -> Self {
        let Self { mut world } = Self::unread();
        let synced = Event::Synced(Vec::new());
        world
            .publisher
            .apply_event(Source::DnsResolver, synced, at(0));
        Self { world }
    }

    /// The objects of DNSResolvers are not listed yet.
    fn unread() -> Self {
        let world = World::with(ManageObjects::Always, |config| {
            let resolvers = SourcePolicy::new(Source::DnsResolver, "resolvers");
            config.objects.sources.push(resolvers);
        });
        Self { world }
    }

    fn want(&mut self, egress_firewall: &[&str], dns_resolver: &[&str]) {
        let now = at(self.world.now);
        let publisher = &mut self.world.publisher;
        publisher.set_rules(wanted(egress_firewall, 0), now);
        publisher.set_rules_of(Source::DnsResolver, wanted(dns_resolver, 60), now);
        self.world.settle();
    }

    /// The addresses of each object, by its namespace.
    fn addresses(&self) -> BTreeMap<&str, String> {
        let objects = self.world.store.iter();
        objects
            .map(|(key, object)| (&*key.namespace, addresses(object)))
            .collect()
    }
}

fn addresses(object: &DnsNameResolver) -> String {
    let names = object.status.iter().flat_map(|it| &it.resolved_names);
    let addresses = names.flat_map(|it| &it.resolved_addresses);
    let addresses: Vec<_> = addresses.map(|it| it.ip.to_string()).collect();
    addresses.join(" ")
}

#[test]
fn each_source_has_object_and_loses_it_with_its_own_last_rule() {
    let mut two = Two::new();
    two.want(&[WWW], &[WWW]);
    two.world.observe(WWW, "1.1.1.1");
    two.world.settle();
    let both = BTreeMap::from([
        ("ovn", "1.1.1.1".to_owned()),
        ("resolvers", "1.1.1.1".to_owned()),
    ]);
    assert_eq!(two.addresses(), both);
    assert_eq!(two.world.publisher.names.len(), 1);
    two.want(&[], &[WWW]);
    two.world.settle_deletions();
    assert_eq!(two.addresses(), [("resolvers", String::new())].into());
    two.want(&[WWW], &[]);
    two.world.settle_deletions();
    assert_eq!(two.addresses(), [("ovn", String::new())].into());
    two.want(&[], &[]);
    two.world.settle_deletions();
    assert_eq!(two.addresses(), BTreeMap::new());
    assert!(two.world.publisher.names.is_empty());
}

#[test]
fn source_that_cannot_be_read_holds_up_no_other() {
    let Two { mut world } = Two::unread();
    let away = || Event::OutOfSync("its definition is missing".to_owned());
    assert!(!world.publisher.objects.are_known());
    world
        .publisher
        .apply_event(Source::DnsResolver, away(), at(0));
    assert!(world.publisher.objects.are_known());
    let failed = Wanted {
        has_failed: true,
        ..Wanted::default()
    };
    world.publisher.set_rules(wanted(&[WWW], 0), at(0));
    world
        .publisher
        .set_rules_of(Source::DnsResolver, failed, at(0));
    assert!(world.publisher.rules.are_known());
    world.settle();
    assert_eq!(world.store.len(), 1);
    // Objects of the source that cannot be read are neither made nor deleted.
    let mut two = Two::new();
    two.want(&[], &[WWW]);
    two.world
        .publisher
        .apply_event(Source::DnsResolver, away(), at(0));
    two.want(&[WWW], &[]);
    two.world.settle_deletions();
    let namespaces: Vec<_> = two.addresses().into_keys().collect();
    assert_eq!(namespaces, ["ovn", "resolvers"]);
}
