//! The path from a look-up to the address set.

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id};
use tests::world::{Setup, World};

const ZONE: &str = "
www     IN A     192.0.2.10
www     IN A     192.0.2.11
www     IN AAAA  2001:db8::10
chain   IN CNAME middle
middle  IN CNAME end
end     IN A     192.0.2.20
end     IN AAAA  2001:db8::20
*.apps  IN A     192.0.2.30
*.apps  IN AAAA  2001:db8::30
apps    IN A     192.0.2.31
shared  IN A     192.0.2.32
zero  0 IN A     192.0.2.40
other   IN A     192.0.2.50
";

async fn world(allow: &[&str]) -> World {
    World::start(Setup {
        zone: ZONE,
        allow,
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn ipv4_and_ipv6_addresses_reach_the_rows_that_ovn_kubernetes_would_make() {
    let world = world(&["www.example.com"]).await;
    let name = "www.example.com.";
    let [a, aaaa] = world.look_up(name).await;
    assert_eq!((a.addresses().len(), aaaa.addresses().len()), (2, 1));

    let v4 = world
        .expect_set(name, Family::V4, &["192.0.2.10", "192.0.2.11"])
        .await;
    let v6 = world.expect_set(name, Family::V6, &["2001:db8::10"]).await;
    assert_eq!(v4.name, "a4029995183407368296");
    assert_eq!(v6.name, "a4029997382430624718");
    let id = |family| address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family);
    assert_eq!(v4.external_ids["k8s.ovn.org/id"], id(Family::V4));
    assert_eq!(v6.external_ids["k8s.ovn.org/id"], id(Family::V6));
    for row in [&v4, &v6] {
        let owner = &row.external_ids["k8s.ovn.org/owner-controller"];
        assert_eq!(owner, DEFAULT_NETWORK_CONTROLLER);
    }

    let object = world.store.object(name).expect("an object of that name");
    assert_eq!(object.metadata.name.as_deref(), Some("dns-5dd68c7c99"));
    assert!(object.metadata.uid.is_some());
    let entry = world.store.resolved(name, name).expect("an entry");
    let mut found: Vec<(&str, i32)> = entry
        .resolved_addresses
        .iter()
        .map(|address| (address.ip.as_str(), address.ttl_seconds))
        .collect();
    found.sort_unstable();
    // The TTL, and the quarter of an hour for other programs that remove expired addresses.
    let wanted = [
        ("192.0.2.10", 1200),
        ("192.0.2.11", 1200),
        ("2001:db8::10", 1200),
    ];
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn a_wildcard_takes_exactly_one_label() {
    let world = world(&["*.apps.example.com"]).await;
    let set = "*.apps.example.com.";
    // The zone answers all of these; only the first two have exactly one label before the wildcard's.
    for name in [
        "one.apps.example.com.",
        "two.apps.example.com.",
        "apps.example.com.",
        "a.b.apps.example.com.",
    ] {
        let [a, _] = world.look_up(name).await;
        assert_eq!(a.addresses().len(), 1, "{name}");
    }
    world.settle().await;
    world.expect_set(set, Family::V4, &["192.0.2.30"]).await;
    world.expect_set(set, Family::V6, &["2001:db8::30"]).await;
    let object = world.store.object(set).expect("an object of the wildcard");
    let mut names: Vec<String> = object
        .status
        .unwrap()
        .resolved_names
        .into_iter()
        .map(|entry| entry.dns_name)
        .collect();
    names.sort();
    assert_eq!(names, ["one.apps.example.com.", "two.apps.example.com."]);
}

#[tokio::test]
async fn a_name_that_no_rule_names_leaves_no_trace() {
    let world = world(&["www.example.com"]).await;
    world.look_up("other.example.com.").await;
    world.settle().await;
    let mut names: Vec<String> = world
        .store
        .objects()
        .into_iter()
        .map(|object| object.spec.name)
        .collect();
    names.sort();
    assert_eq!(names, ["*.fence.test.", "www.example.com."]);
    world.expect_no_rows("other.example.com.").await;
}
