//! Kinds that cannot be read or written: without their definition, and without a right.

use k8s_openapi::{
    api::rbac::v1::ClusterRole,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use proto::api::{CrdNetworkSet, IpMap};
use serde_json::json;
use tests::{chart::POLICY_WRITER, kube::deploy, wait::eventually};

use super::{kinds::define, rights::install, world::World};

const IP_MAPS: &str = "ipmaps.dns.k8s.delta10.nl";

/// Waits until the condition `Written` is false for this reason, and its message has the words.
async fn is_not_written(world: &World, name: &str, reason: &str, words: &str) {
    eventually(&format!("{name} is not written: {reason}"), async || {
        let condition = world.condition(name, "Written").await;
        let is_it = condition.reason == reason && condition.message.contains(words);
        is_it.then_some(()).ok_or_else(|| format!("{condition:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_definition_of_ip_maps_policies_are_written() {
    let mut world = World::start(&[]).await;
    world
        .resolver("a", json!({"domainList": ["www.example.com"]}))
        .await;
    world.answer("www.example.com.", &["192.0.2.1"]).await;
    world.has("a", &["192.0.2.1"]).await;

    // It is removed while the program runs.
    let client = world.server.client().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let params = DeleteParams::default();
    definitions.delete(IP_MAPS, &params).await.unwrap();
    eventually("the definition is gone", async || {
        let maps = world.api::<IpMap>().list(&ListParams::default()).await;
        let is_there = definitions.get_opt(IP_MAPS).await.unwrap().is_some();
        match maps {
            Err(_) if !is_there => Ok(()),
            _ => Err("it is served".to_owned()),
        }
    })
    .await;
    world.answer("www.example.com.", &["192.0.2.2"]).await;
    world.allows("a", &["192.0.2.2"]).await;
    is_not_written(&world, "a", "Refused", "IPMap").await;

    // It is away at the start.
    world.program.restart().await;
    world.answer("www.example.com.", &["192.0.2.3"]).await;
    world.allows("a", &["192.0.2.3"]).await;
    is_not_written(&world, "a", "KindUnreadable", "IPMap").await;

    world
        .server
        .create(&deploy(&format!("chart/files/crds/{IP_MAPS}.yaml")))
        .await;
    eventually("it is served", async || {
        let maps = world.api::<IpMap>().list(&ListParams::default()).await;
        maps.map(drop).map_err(|error| error.to_string())
    })
    .await;
    world.has("a", &["192.0.2.3"]).await;
    world.is_ready("a").await;
}

/// Replaces the rules of the account's ClusterRole.
async fn set_role(world: &World, role: &ClusterRole) {
    let roles: Api<ClusterRole> = Api::all(world.server.client().await);
    let mut now = roles.get(POLICY_WRITER).await.unwrap();
    now.rules.clone_from(&role.rules);
    let params = PostParams::default();
    roles.replace(POLICY_WRITER, &params, &now).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_stops_one_kind_alone() {
    let mut world = World::start(&[]).await;
    world.program.process().kill();
    define(&world, "networksets.crd.projectcalico.org.yaml").await;
    let mut program = install(&world).await;
    let roles: Api<ClusterRole> = Api::all(world.server.client().await);
    let whole = roles.get(POLICY_WRITER).await.unwrap();
    let without = |resource: &str| {
        let mut role = whole.clone();
        let rules = role.rules.as_mut().unwrap();
        let has = |it: &Option<Vec<String>>| it.iter().flatten().any(|it| it == resource);
        rules.retain(|rule| !has(&rule.resources));
        assert!(rules.len() < whole.rules.as_ref().unwrap().len());
        role
    };
    let list = json!({"domainList": ["www.example.com"]});
    let set = json!({"domainList": ["www.example.com"], "generateType": "CalicoNetworkSet"});
    world.resolver("a", list).await;
    world.resolver("b", set).await;
    world.answer("www.example.com.", &["192.0.2.1"]).await;
    world.has("a", &["192.0.2.1"]).await;
    world.is_ready("b").await;
    for (last, resource, kind) in [
        (2, "networksets", "NetworkSet"),
        (3, "ipmaps", "IPMap"),
        (4, "networkpolicies", "NetworkPolicy"),
    ] {
        program.process().terminate().await;
        set_role(&world, &without(resource)).await;
        program.restart().await;
        let address = format!("192.0.2.{last}");
        world.answer("www.example.com.", &[&address]).await;
        let name = if kind == "NetworkPolicy" { "a" } else { "b" };
        is_not_written(&world, name, "KindUnreadable", kind).await;
        // The other kinds have the new address.
        if kind != "NetworkPolicy" {
            world.allows("a", &[&address]).await;
        }
        if kind != "NetworkSet" {
            eventually("the set", async || {
                let set: CrdNetworkSet = world.read("b").await.unwrap();
                let is_right = set.spec.nets == [format!("{address}/32")];
                is_right
                    .then_some(())
                    .ok_or_else(|| format!("{:?}", set.spec))
            })
            .await;
        }
        set_role(&world, &whole).await;
        world.has("a", &[&address]).await;
        world.is_ready("a").await;
        world.is_ready("b").await;
    }
    // An owner reference that blocks the deletion of its DNSResolver needs a right of its own.
    set_role(&world, &without("dnsresolvers/finalizers")).await;
    let list = json!({"domainList": ["www.example.com"]});
    world.resolver("c", list).await;
    is_not_written(&world, "c", "Refused", "blockOwnerDeletion").await;
    set_role(&world, &whole).await;
    world.has("c", &["192.0.2.4"]).await;
    world.is_ready("c").await;
}
