//! Names of several sources in a folder: an object for each source, in its own namespace.

use std::fs;

use tests::{
    store::Store,
    wait::eventually,
    world::{Setup, World},
};

const WWW: &str = "www.example.com.";

/// Without look-ups of its own, the collector lets addresses leave by their times.
const BOTH: [&str; 12] = [
    "--resolver",
    "none",
    "--min-ttl",
    "1s",
    "--grace",
    "1s",
    "--rules",
    "egressfirewall,dnsresolver",
    "--dnsresolver-objects-namespace",
    "resolvers",
    "--retain",
    "1h",
];

/// Writes a DNSResolver of the namespace `team`.
fn resolve(store: &Store, names: &[&str]) {
    let folder = store.path().join("team/dnsresolvers");
    fs::create_dir_all(&folder).unwrap();
    let names: Vec<String> = names.iter().map(|name| format!("  - {name:?}\n")).collect();
    let text = format!(
        "apiVersion: dns.k8s.delta10.nl/v1alpha1\nkind: DNSResolver\nmetadata:\n  name: whitelist\n  namespace: team\nspec:\n  domainList:\n{}",
        names.concat()
    );
    fs::write(folder.join("whitelist.yaml"), text).unwrap();
}

/// The objects of names in DNSResolvers, each with its text.
fn of_resolvers(store: &Store) -> Vec<String> {
    let folder = store.path().join("resolvers/dnsnameresolvers");
    let files = fs::read_dir(folder).into_iter().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
    texts
        .filter(|text| text.contains("DNSNameResolver"))
        .collect()
}

/// Looks the name up until its object has the address. `None`: until there is no object.
async fn expect_of_resolvers(world: &World, name: &str, address: Option<&str>) {
    eventually(&format!("{name} = {address:?}"), async || {
        world.look_up(name).await;
        let objects = of_resolvers(&world.store);
        let object = objects.iter().find(|text| text.contains(name));
        let is_right = match (address, object) {
            (None, object) => object.is_none(),
            (Some(address), object) => object.is_some_and(|text| text.contains(address)),
        };
        is_right.then_some(()).ok_or_else(|| format!("{objects:?}"))
    })
    .await;
}

#[tokio::test]
async fn a_name_of_both_sources_has_an_object_for_each() {
    let world = World::start(Setup {
        zone: "www 1 IN A 192.0.2.1\nMixed IN A 192.0.2.2\n",
        allow: &[WWW],
        collector: &BOTH,
        ..Setup::default()
    })
    .await;
    resolve(&world.store, &["WWW.example.com", "mixed.EXAMPLE.com."]);
    expect_of_resolvers(&world, WWW, Some("192.0.2.1")).await;
    expect_of_resolvers(&world, "mixed.example.com.", Some("192.0.2.2")).await;
    world
        .expect_flow(WWW, proto::api::Family::V4, "192.0.2.1")
        .await;
    // Only the EgressFirewall's name has an object and a set for ovn-kubernetes.
    assert!(world.store.object("mixed.example.com.").is_none());
    let (_, ready) = world.collector.admin().get("/readyz").await.unwrap();
    assert!(ready.contains("dns-resolvers: ok"), "{ready}");
}
