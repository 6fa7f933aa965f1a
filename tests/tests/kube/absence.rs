//! Removals in a cluster: an address family that ends, and objects that become unreadable.

use proto::api::DnsNameResolver;
use tests::{kube::ApiServer, wait::eventually};

use crate::{
    collectors::{Collector, Objects, allow},
    uninstall::take_crd,
};

const NAME: &str = "www.example.com.";

const OTHER: &str = "other.example.com.";

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
