//! The policy-writer on a real API server. The tests write the statuses of names, but in `whole_way`, where the collector does.

mod kinds;
mod restarts;
mod rights;
mod whole_way;
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

    // Every address gone, and back.
    world.fail("www.example.com.", "NXDOMAIN").await;
    world.fail("*.example.org.", "NXDOMAIN").await;
    world.has("partners", &[]).await;
    let spec = world.policy("partners").await.unwrap().spec.unwrap();
    // The server leaves an empty list out: nothing is allowed.
    assert!(spec.egress.unwrap_or_default().is_empty());
    assert_eq!(spec.policy_types.unwrap(), ["Egress"]);
    world.answer("www.example.com.", &["192.0.2.9"]).await;
    world.has("partners", &["192.0.2.9"]).await;

    // Nothing is written while nothing changes: an answer only renews times.
    world.is_ready("partners").await;
    world.becomes("partners", "Resolved", "True").await;
    let before = world.versions("partners").await;
    for _ in 0..5 {
        world.answer("www.example.com.", &["192.0.2.9"]).await;
    }
    world
        .resolver("later", json!({"domainList": ["www.example.com"]}))
        .await;
    world.has("later", &["192.0.2.9"]).await;
    assert_eq!(world.versions("partners").await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_answer_a_policy_refuses_everything() {
    let world = World::start(&["--dns-pods=kube-system/k8s-app=kube-dns"]).await;
    world
        .resolver("a", json!({"domainList": ["www.example.com"]}))
        .await;
    world.has("a", &[]).await;
    let spec = world.policy("a").await.unwrap().spec.unwrap();
    // DNS is the only exception, and has peers and ports.
    let rules = spec.egress.unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(
        (
            rules[0].to.as_ref().unwrap().len(),
            rules[0].ports.as_ref().unwrap().len()
        ),
        (1, 2)
    );
    let condition = world.condition("a", "Resolved").await;
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str()),
        ("False", "NoDNSNameResolver")
    );
    assert_eq!(world.condition("a", "DNSBlocked").await.status, "False");
    assert!(!world.read_resolver("a").await.status.unwrap().ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_replicas_one_writes_and_the_other_takes_over() {
    let mut world = World::start(&["--leader-elect"]).await;
    let other = world.another(&["--leader-elect"]).await;
    world
        .resolver("a", json!({"domainList": ["www.example.com"]}))
        .await;
    world.answer("www.example.com.", &["192.0.2.1"]).await;
    world.has("a", &["192.0.2.1"]).await;
    world.program.process().kill();
    world.answer("www.example.com.", &["192.0.2.2"]).await;
    world.has("a", &["192.0.2.2"]).await;
    other.counts("egress_replica_leading", &[], 1.0).await;
}
