//! The policy-writer on a real API server. The tests write the statuses of names.

mod kinds;
mod rights;
mod world;

use serde_json::json;
use tests::wait::eventually;

use self::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_and_an_ip_map_follow_the_statuses_of_names() {
    let world = World::start(&[]).await;
    world
        .resolver(
            "partners",
            json!({"domainList": ["WWW.example.com", "*.example.org.", "bad_name"]}),
        )
        .await;
    world
        .answer("www.example.com.", &["192.0.2.2", "192.0.2.1"])
        .await;
    world
        .answer("*.example.org.", &["2001:db8::1", "192.0.2.1"])
        .await;
    world
        .has("partners", &["192.0.2.1", "192.0.2.2", "2001:db8::1"])
        .await;
    let policy = serde_json::to_value(world.policy("partners").await.unwrap()).unwrap();
    let to = json!([
        {"ipBlock": {"cidr": "192.0.2.1/32"}},
        {"ipBlock": {"cidr": "192.0.2.2/32"}},
        {"ipBlock": {"cidr": "2001:db8::1/128"}},
    ]);
    let expected = json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": to}]});
    assert_eq!(policy["spec"], expected);
    let owner = &policy["metadata"]["ownerReferences"][0];
    let resolver = world.read_resolver("partners").await;
    assert_eq!(owner["uid"], json!(resolver.metadata.uid));
    assert_eq!(
        (&owner["controller"], &owner["blockOwnerDeletion"]),
        (&json!(true), &json!(true))
    );
    let map = eventually("the IPMap", async || {
        world.map("partners").await.ok_or_else(String::new)
    })
    .await;
    let expected = json!({"domains": [
        {"name": "WWW.example.com", "ips": ["192.0.2.1/32", "192.0.2.2/32"]},
        {"name": "*.example.org.", "ips": ["192.0.2.1/32", "2001:db8::1/128"]},
        {"name": "bad_name", "ips": []},
    ]});
    assert_eq!(serde_json::to_value(map.data).unwrap(), expected);
    world.is_ready("partners").await;
    // No policy of the namespace lets pods reach DNS.
    let blocked = world.condition("partners", "DNSBlocked").await;
    assert_eq!(blocked.status, "True");
}
