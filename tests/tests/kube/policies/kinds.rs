//! IPMaps alone, and Calico's NetworkSets in both of its groups.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use proto::api::{CrdNetworkSet, NetworkSet};
use serde_json::json;
use tests::wait::eventually;

use super::world::World;

pub(super) async fn define(world: &World, file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/calico")
        .join(file);
    let text = std::fs::read_to_string(file).unwrap();
    world
        .server
        .define(&serde_saphyr::from_str(&text).unwrap())
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_set_is_made_in_the_group_that_is_served() {
    let mut world = World::start(&["--networkset-label-prefix", "egress.example.com/"]).await;
    let spec = json!({"domainList": ["www.example.com"], "generateType": "CalicoNetworkSet"});
    world.resolver("a", spec).await;
    world
        .answer("www.example.com.", &["192.0.2.1", "2001:db8::1"])
        .await;
    let condition = world.becomes("a", "Written", "False").await;
    assert_eq!(condition.reason, "NotServed");
    define(&world, "networksets.crd.projectcalico.org.yaml").await;
    world.program.restart().await;
    let set = eventually("a set", async || {
        let set: Option<CrdNetworkSet> = world.read("a").await;
        set.filter(|set| set.spec.nets.len() == 2)
            .ok_or_else(String::new)
    })
    .await;
    assert_eq!(set.spec.nets, ["192.0.2.1/32", "2001:db8::1/128"]);
    let labels = serde_json::to_value(set.metadata.labels).unwrap();
    assert_eq!(labels, json!({"egress.example.com/set": "partners"}));
    assert!(world.policy("a").await.is_none());
    world.is_ready("a").await;

    define(&world, "networksets.projectcalico.org.yaml").await;
    world.program.restart().await;
    let set = eventually("a set of version 3", async || {
        let set: Option<NetworkSet> = world.read("a").await;
        set.ok_or_else(String::new)
    })
    .await;
    assert_eq!(set.spec.nets.len(), 2);
    world.fail("www.example.com.", "NXDOMAIN").await;
    eventually("the set is empty", async || {
        let set: NetworkSet = world.read("a").await.unwrap();
        if set.spec.nets.is_empty() {
            Ok(())
        } else {
            Err(format!("{:?}", set.spec))
        }
    })
    .await;
    world.is_ready("a").await;

    // The better group is gone while the program runs.
    let definitions: Api<CustomResourceDefinition> = Api::all(world.server.client().await);
    let params = DeleteParams::default();
    let deleted = definitions.delete("networksets.projectcalico.org", &params);
    deleted.await.unwrap();
    world.answer("www.example.com.", &["192.0.2.7"]).await;
    eventually("the set of the other group", async || {
        let set: CrdNetworkSet = world.read("a").await.unwrap();
        let is_right = set.spec.nets == ["192.0.2.7/32"];
        is_right
            .then_some(())
            .ok_or_else(|| format!("{:?}", set.spec))
    })
    .await;
    world.is_ready("a").await;
}
