//! Removals in a cluster: an address family that ends, and objects that become unreadable.

use proto::api::{DEGRADED, DnsNameResolver, ResolvedName};
use tests::{kube::ApiServer, wait::eventually};

use crate::{
    collectors::{Collector, NEVER, Objects, allow},
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
        Self { server, collector }
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
