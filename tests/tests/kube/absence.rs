//! Removals in a cluster: rules that end, an address family that ends, and objects that become unreadable.

use std::pin::pin;

use futures_util::{Stream, StreamExt};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
};
use proto::api::{DEGRADED, DnsNameResolver, EgressFirewall, NO_RULE, ResolvedName};
use tests::{
    kube::ApiServer,
    wait::{PATIENCE, eventually},
};
use tokio::time::timeout;

use crate::{
    collectors::{Collector, NEVER, Objects, allow, egress_firewall},
    history::History,
    uninstall::take_crd,
};

const NAME: &str = "www.example.com.";

const OTHER: &str = "other.example.com.";

/// This many look-ups in a row without an address of a family close it.
const ROUNDS: usize = 5;

/// A separate cluster, so that other tests' EgressFirewalls do not vanish at the same time.
struct World {
    server: ApiServer,
    /// The namespace of the EgressFirewall.
    team: String,
    objects: Objects,
    collector: Collector,
}

impl World {
    /// With an EgressFirewall that allows both names, whose objects have addresses.
    async fn start() -> Self {
        let server = ApiServer::start().await;
        let namespace = server.namespace().await;
        let objects = Objects::of(&server, &namespace).await;
        let collector = Collector::start(&server.kubeconfig(), &namespace, &[]).await;
        let team = server.namespace().await;
        for (name, ip) in [(NAME, "192.0.2.1"), (OTHER, "192.0.2.2")] {
            collector.nameserver.set(name, &[ip], 600);
        }
        allow(&server, &team, &[NAME, OTHER]).await;
        objects.expect(NAME, &["192.0.2.1"]).await;
        objects.expect(OTHER, &["192.0.2.2"]).await;
        Self {
            server,
            team,
            objects,
            collector,
        }
    }

    async fn firewalls(&self) -> Api<EgressFirewall> {
        Api::namespaced(self.server.client().await, &self.team)
    }

    /// The events of the objects from now on.
    async fn watch(&self) -> impl Stream<Item = kube::Result<WatchEvent<DnsNameResolver>>> + use<> {
        let api = self.objects.api.clone();
        let now = api.list(&ListParams::default()).await.unwrap();
        let version = now.metadata.resource_version.unwrap();
        let stream = api.watch(&WatchParams::default(), &version).await;
        stream.unwrap()
    }
}

/// The only entry of the status.
fn entry(object: &DnsNameResolver) -> Option<&ResolvedName> {
    match object.status.as_ref()?.resolved_names.as_slice() {
        [entry] => Some(entry),
        _ => None,
    }
}

/// Status and reason of the condition `Degraded`.
fn degraded(entry: &ResolvedName) -> Option<(&str, &str)> {
    let condition = entry.conditions.iter().find(|it| it.type_ == DEGRADED)?;
    Some((&condition.status, &condition.reason))
}

fn says_no_rule(object: &DnsNameResolver) -> bool {
    entry(object).is_some_and(|entry| {
        entry.dns_name == object.spec.name
            && entry.resolved_addresses.is_empty()
            && degraded(entry) == Some(("True", NO_RULE))
    })
}

/// Waits until the object of the name is deleted. Its last change before that must say that it has no rule.
async fn expect_no_rule_then_deleted(
    events: impl Stream<Item = kube::Result<WatchEvent<DnsNameResolver>>>,
    name: &str,
) {
    let mut events = pin!(events);
    let mut last_change = None;
    let deleted = async {
        while let Some(event) = events.next().await {
            match event.unwrap() {
                WatchEvent::Modified(object) if object.spec.name == name => {
                    last_change = Some(object);
                }
                WatchEvent::Deleted(object) if object.spec.name == name => return object,
                WatchEvent::Error(status) => panic!("{status:?}"),
                _ => {}
            }
        }
        panic!("the watch ended");
    };
    let Ok(deleted) = timeout(PATIENCE, deleted).await else {
        panic!("{name} was not deleted; its last change: {last_change:?}");
    };
    let last_change = last_change.expect("a change before the deletion");
    assert!(says_no_rule(&last_change), "{last_change:?}");
    assert_eq!(deleted.uid(), last_change.uid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_whose_name_an_edit_drops_says_no_rule_and_goes() {
    let world = World::start().await;
    let events = world.watch().await;
    let firewalls = world.firewalls().await;
    let mut edited = egress_firewall(&[OTHER]);
    let known = firewalls.get("default").await.unwrap();
    edited.metadata.resource_version = known.resource_version();
    let params = PostParams::default();
    let replaced = firewalls.replace("default", &params, &edited).await;
    replaced.unwrap();
    expect_no_rule_then_deleted(events, NAME).await;
    world.objects.expect(OTHER, &["192.0.2.2"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_whose_egress_firewall_goes_say_no_rule_and_go() {
    let world = World::start().await;
    let [first, second] = [world.watch().await, world.watch().await];
    let params = DeleteParams::default();
    let deleted = world.firewalls().await.delete("default", &params).await;
    deleted.unwrap();
    tokio::join!(
        expect_no_rule_then_deleted(first, NAME),
        expect_no_rule_then_deleted(second, OTHER),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_family_leaves_after_five_look_ups_and_the_other_stays() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let objects = Objects::of(&server, &namespace).await;
    objects.make("a", NAME).await;
    let collector = Collector::start(&server.kubeconfig(), &namespace, &NEVER).await;
    let (v4, v6) = ("192.0.2.1", "2001:db8::1");
    collector.nameserver.set(NAME, &[v4, v6], 2);
    objects.expect(NAME, &[v4, v6]).await;
    let history = History::of(&server, &namespace).await;
    // AAAA is NOERROR without an address from now on.
    collector.nameserver.set(NAME, &[v4], 2);
    let asked = collector.nameserver.asked_for_v6(NAME);
    objects.expect(NAME, &[v4]).await;
    let rounds = collector.nameserver.asked_for_v6(NAME) - asked;
    assert!(rounds >= ROUNDS, "{rounds}");
    // The object has an address, so it reports no fault.
    let object = objects.api.get("a").await.unwrap();
    let entry = entry(&object).unwrap();
    let is_degraded = degraded(entry).map(|(status, _)| status);
    assert_eq!(is_degraded, Some("False"), "{entry:?}");
    let departures = history.departures_of(NAME).await;
    let gone: Vec<_> = departures.iter().map(|it| it.ip.as_str()).collect();
    assert_eq!(gone, [v6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_whose_objects_cannot_be_read_any_more_is_ready_and_says_so() {
    let World {
        server, collector, ..
    } = World::start().await;
    take_crd::<DnsNameResolver>(&server).await;
    let admin = collector.program.admin();
    let line = eventually("/readyz says that they cannot be read", async || {
        let (code, body) = admin.get("/readyz").await.map_err(|it| it.to_string())?;
        let of_objects = |line: &&str| line.starts_with("dns-name-resolvers: ok, but");
        match body.lines().find(of_objects) {
            Some(line) if code == 200 => Ok(line.to_owned()),
            _ => Err(format!("{code} {body}")),
        }
    })
    .await;
    assert!(!line.contains("Status {"), "{line}");
}
