//! The path from a look-up to the address set.

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id};
use tests::world::{Setup, World};

#[tokio::test]
async fn ipv4_and_ipv6_addresses_reach_the_rows_that_ovn_kubernetes_would_make() {
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10\nwww IN A 192.0.2.11\nwww IN AAAA 2001:db8::10",
        allow: &["www.example.com"],
        ..Setup::default()
    })
    .await;
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
