//! Objects of kube-OVN: several of one name, made and deleted by kube-ovn-publisher.

use proto::api::{DnsNameResolver, DnsNameResolverSpec};
use runtime::store::{Event, ObjectKey};

use super::{World, at, name, wanted};
use crate::{
    publish::{ManageObjects, ObjectPolicy, SourcePolicy},
    rules::Source,
};

const WWW: &str = "www.example.com.";

/// The addresses that kube-ovn-publisher reads, in their order: `getResolvedAddressesFromDNSNameResolver`
/// in `pkg/publisher/dns_name_resolver.go` of kubeovn/kube-ovn at
/// 1533681d7a6b3dbdd7e8870fa70f0dc6aa49a82a.
fn read(object: &DnsNameResolver) -> Vec<String> {
    let names = object.status.iter().flat_map(|it| &it.resolved_names);
    let without_failures = names.filter(|name| name.resolution_failures <= 0);
    let addresses = without_failures.flat_map(|name| &name.resolved_addresses);
    let valid = addresses.filter(|it| it.ip.parse::<std::net::IpAddr>().is_ok());
    valid.map(|it| it.ip.to_string()).collect()
}

fn world() -> World {
    let mut world = World::with(ManageObjects::Never, |config| {
        config.objects = ObjectPolicy {
            sources: vec![SourcePolicy {
                manage: ManageObjects::Never,
                ..SourcePolicy::new(Source::KubeOvn, "")
            }],
            ..ObjectPolicy::default()
        };
        config.limits.lookups = true;
    });
    let synced = Event::Synced(Vec::new());
    world.publisher.apply_event(Source::KubeOvn, synced, at(0));
    world
}

impl World {
    /// kube-ovn-publisher makes an object.
    fn make(&mut self, object: &str, spec: &str) -> ObjectKey {
        let spec = DnsNameResolverSpec {
            name: spec.to_owned(),
        };
        let mut object = DnsNameResolver::new(object, spec);
        object.metadata.namespace = Some(String::new());
        let made = self.put(object);
        self.tell(&made);
        ObjectKey::of(&made)
    }

    fn tell(&mut self, object: &DnsNameResolver) {
        let event = Event::Applied(object.clone());
        self.publisher
            .apply_event(Source::KubeOvn, event, at(self.now));
    }

    fn use_by(&mut self, names: &[&str], policy: &str) {
        let namespaces = &self.config.shared.namespaces;
        let tenant = namespaces.number(&format!("policy {policy}"));
        let mut of_source = wanted(names, 0);
        for of in names {
            of_source.name_mut(&name(of)).namespaces = [tenant].into();
        }
        let order: Vec<_> = names.iter().map(|of| name(of)).collect();
        of_source.names_of_namespaces.insert(tenant, order.into());
        let now = at(self.now);
        self.publisher.set_rules_of(Source::KubeOvn, of_source, now);
    }
}

#[test]
fn all_objects_of_a_name_are_written_together_and_none_is_made() {
    let mut world = world();
    world.use_by(&[WWW, "other.example.com."], "web");
    let keys = ["anp-a-1", "anp-b-1", "anp-c-1"].map(|it| world.make(it, WWW));
    world.settle();
    world.observe(WWW, "1.1.1.1");
    world.publisher.advance(at(world.now));
    let writes = world.publisher.writes(at(world.now));
    assert_eq!(writes.len(), 3, "at the same time");
    world.store_all(&writes);
    for key in &keys {
        assert_eq!(read(&world.store[key]), ["1.1.1.1"]);
    }
    assert_eq!(world.store[&keys[0]].status, world.store[&keys[1]].status);
    world.now += 1_000;
    world.settle();
    assert_eq!(world.store.len(), 3, "the other name has no object");
    // The end of the rules deletes none.
    world.use_by(&[], "web");
    world.settle_deletions();
    assert_eq!(world.store.len(), 3);
}
