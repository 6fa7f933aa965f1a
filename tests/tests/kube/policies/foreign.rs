//! Objects that other accounts make and change.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use proto::api::{DnsResolver, IpMap};
use serde_json::{Value, json};
use tests::wait::eventually;

use super::world::World;

const HAND_MADE: &str = "198.51.100.1/32";

fn policy(name: &str, metadata: Value, egress: Value) -> NetworkPolicy {
    let mut object = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress},
    });
    object["metadata"]["name"] = json!(name);
    serde_json::from_value(object).unwrap()
}

/// The metadata of an object whose controller is the DNSResolver, as anybody may write them.
async fn forged(world: &World, name: &str) -> Value {
    let uid = world.read_resolver(name).await.metadata.uid;
    json!({"ownerReferences": [{
        "apiVersion": "dns.k8s.delta10.nl/v1alpha1", "kind": "DNSResolver", "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }]})
}

fn map(name: &str, metadata: Value, ips: &[&str]) -> IpMap {
    let mut object = json!({
        "apiVersion": "dns.k8s.delta10.nl/v1alpha1",
        "kind": "IPMap",
        "metadata": metadata,
        "data": {"domains": [{"name": "www.example.com", "ips": ips}]},
    });
    object["metadata"]["name"] = json!(name);
    serde_json::from_value(object).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_made_policy_of_the_same_name_stays() {
    let world = World::start(&[]).await;
    let made = policy(
        "a",
        json!({}),
        json!([{"to": [{"ipBlock": {"cidr": HAND_MADE}}]}]),
    );
    let made = world
        .api()
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    world
        .resolver("a", json!({"domainList": ["www.example.com"]}))
        .await;
    world.answer("www.example.com.", &["192.0.2.1"]).await;
    let condition = world.becomes("a", "NameTaken", "True").await;
    assert!(
        condition.message.ends_with("NetworkPolicy"),
        "{condition:?}"
    );
    let map = eventually("the IPMap", async || {
        world.map("a").await.ok_or_else(String::new)
    })
    .await;
    assert_eq!(map.data.unwrap().domains[0].ips, ["192.0.2.1/32"]);
    let stays = world.policy("a").await.unwrap();
    assert_eq!(
        stays.metadata.resource_version,
        made.metadata.resource_version
    );
    assert!(!world.read_resolver("a").await.status.unwrap().ready);

    let policies = world.api::<NetworkPolicy>();
    policies
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    world.has("a", &["192.0.2.1"]).await;
    world.becomes("a", "NameTaken", "False").await;
    world.is_ready("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_of_a_tenants_ip_map_reaches_a_policy() {
    let mut world = World::start(&[]).await;
    world.program.process().kill();
    world
        .resolver(
            "a",
            json!({"domainList": ["www.example.com", "silent.example.com"]}),
        )
        .await;
    // A forged owner, and even the mark of the policy-writer.
    let mut metadata = forged(&world, "a").await;
    let mark = "dnsnameresolver.network.openshift.io/written-by";
    metadata["annotations"] = json!({mark: "policy-writer"});
    let maps = world.api::<IpMap>();
    let forged = map("a", metadata, &["203.0.113.66/32"]);
    maps.create(&PostParams::default(), &forged).await.unwrap();
    world.answer("www.example.com.", &["192.0.2.1"]).await;
    world.program.restart().await;
    world.has("a", &["192.0.2.1"]).await;
    for last in 67..70 {
        let ips = [format!("203.0.113.{last}/32")];
        let patch =
            Patch::Merge(json!({"data": {"domains": [{"name": "www.example.com", "ips": ips}]}}));
        maps.patch("a", &PatchParams::default(), &patch)
            .await
            .unwrap();
        eventually("the IPMap is put right", async || {
            let data = world.map("a").await.unwrap().data.unwrap();
            let ips = data.domains[0].ips.clone();
            if ips == ["192.0.2.1/32"] {
                Ok(())
            } else {
                Err(format!("{ips:?}"))
            }
        })
        .await;
        world.has("a", &["192.0.2.1"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_and_deletions_by_others_are_put_right() {
    let world = World::start(&[]).await;
    world
        .resolver("a", json!({"domainList": ["www.example.com"]}))
        .await;
    world.answer("www.example.com.", &["192.0.2.1"]).await;
    world.has("a", &["192.0.2.1"]).await;
    let policies = world.api::<NetworkPolicy>();
    let open = Patch::Merge(json!({"spec": {"egress": [{}]}}));
    policies
        .patch("a", &PatchParams::default(), &open)
        .await
        .unwrap();
    world.has("a", &["192.0.2.1"]).await;
    policies
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    world.has("a", &["192.0.2.1"]).await;
    // Annotations and finalizers of other programs stay.
    let annotated = Patch::Merge(json!({"metadata": {
        "annotations": {"example.com/note": "x"},
        "finalizers": ["example.com/network-plugin"],
        "labels": {"other": "y"},
    }}));
    policies
        .patch("a", &PatchParams::default(), &annotated)
        .await
        .unwrap();
    eventually("the labels are put right", async || {
        let metadata = world.policy("a").await.unwrap().metadata;
        let labels = metadata.labels.unwrap_or_default();
        let has_note = metadata
            .annotations
            .unwrap()
            .contains_key("example.com/note");
        let finalizers = metadata.finalizers.unwrap_or_default();
        let has_finalizer = finalizers == ["example.com/network-plugin"];
        if !labels.contains_key("other") && has_note && has_finalizer {
            Ok(())
        } else {
            Err(format!("{labels:?} {finalizers:?}"))
        }
    })
    .await;
    world
        .program
        .counts("egress_policy_writer_foreign_changes_total", &[], 3.0)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_operators_objects_are_taken_over_while_it_still_writes() {
    let mut world = World::start(&[]).await;
    world.program.process().kill();
    world
        .resolver("a", json!({"domainList": ["www.example.com"]}))
        .await;
    world
        .resolver("open", json!({"domainList": ["www.example.com"]}))
        .await;
    world.answer("www.example.com.", &["192.0.2.1"]).await;
    let metadata = forged(&world, "a").await;
    let old = |ips: &[&str]| {
        let to: Vec<_> = ips
            .iter()
            .map(|cidr| json!({"ipBlock": {"cidr": cidr}}))
            .collect();
        json!([{"to": to}])
    };
    let policies = world.api::<NetworkPolicy>();
    let maps = world.api::<IpMap>();
    let params = PostParams::default();
    let kept = &["192.0.2.50/32", "169.254.169.254/32"];
    policies
        .create(&params, &policy("a", metadata.clone(), old(kept)))
        .await
        .unwrap();
    maps.create(&params, &map("a", metadata, kept))
        .await
        .unwrap();
    // The operator writes this when no name resolves: everything is open.
    let metadata = forged(&world, "open").await;
    policies
        .create(&params, &policy("open", metadata, json!([{}])))
        .await
        .unwrap();

    let _next = world.another(&[]).await;
    world.has("a", &["192.0.2.1"]).await;
    world.has("open", &["192.0.2.1"]).await;
    // It replaces whole specs from its own memory, and keeps annotations.
    for _ in 0..3 {
        let patch = Patch::Merge(json!({"spec": {"egress": old(&["192.0.2.60/32"])}}));
        policies
            .patch("a", &PatchParams::default(), &patch)
            .await
            .unwrap();
        let patch = Patch::Merge(json!({"spec": {"egress": [{}]}}));
        policies
            .patch("open", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    world.has("a", &["192.0.2.1"]).await;
    world.has("open", &["192.0.2.1"]).await;
    let resolvers = world.api::<DnsResolver>();
    assert!(resolvers.get("a").await.is_ok());
}
