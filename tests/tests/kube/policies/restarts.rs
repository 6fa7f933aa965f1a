//! `kill -9`, and objects that come back from a backup.

use std::{
    net::IpAddr,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{WatchEvent, WatchParams};
use serde_json::json;
use tests::soak::or_long;
use tokio::time::timeout;

use super::world::{World, addresses_of, is_open};

/// A cluster in which the objects of the DNSResolver `a` have an address of each of two names.
async fn world_of_two_names() -> World {
    let world = World::start(&[]).await;
    world
        .resolver(
            "a",
            json!({"domainList": ["one.example.com", "two.example.com"]}),
        )
        .await;
    world.answer("one.example.com.", &["192.0.2.1"]).await;
    world.answer("two.example.com.", &["192.0.2.2"]).await;
    world.has("a", &["192.0.2.1", "192.0.2.2"]).await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_come_back_without_statuses_make_no_policy_smaller() {
    let mut world = world_of_two_names().await;
    let before = world.policy("a").await.unwrap().metadata.resource_version;
    world.restore_names().await;
    world.answer("other.example.com.", &["192.0.2.3"]).await;
    world
        .resolver("b", json!({"domainList": ["other.example.com"]}))
        .await;
    world.has("b", &["192.0.2.3"]).await;
    assert_eq!(
        world.policy("a").await.unwrap().metadata.resource_version,
        before
    );
    // Nor does a new process. The policy does not say which name had an address, so it keeps those of both.
    world.program.restart().await;
    world.answer("two.example.com.", &["192.0.2.4"]).await;
    world
        .allows("a", &["192.0.2.1", "192.0.2.2", "192.0.2.4"])
        .await;
    world.answer("one.example.com.", &["192.0.2.5"]).await;
    world.has("a", &["192.0.2.4", "192.0.2.5"]).await;
}

/// Each version of the policy, until the end.
async fn versions(world: &World, ended: &AtomicBool) -> Vec<NetworkPolicy> {
    let policies = world.api::<NetworkPolicy>();
    let params = WatchParams::default().fields("metadata.name=a");
    let mut version = world
        .policy("a")
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let mut versions = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let mut watch = pin!(policies.watch(&params, &version).await.unwrap());
        while let Ok(Some(event)) = timeout(Duration::from_secs(2), watch.next()).await {
            match event.unwrap() {
                WatchEvent::Added(policy) | WatchEvent::Modified(policy) => {
                    version = policy.metadata.resource_version.clone().unwrap();
                    versions.push(policy);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    versions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_is_killed_again_and_again_loses_no_current_address() {
    let mut world = world_of_two_names().await;
    let mut program = world.another(&[]).await;
    world.program.process().kill();
    let ended = AtomicBool::new(false);
    let rounds: u8 = or_long(8, 60);
    // Each round has one new address, and one leaves that four rounds had.
    let of_round = |round: u8| (round..round + 4).map(|last| format!("198.51.100.{last}"));
    let load = async {
        for round in 0..rounds {
            let kept: Vec<_> = of_round(round).collect();
            let texts: Vec<_> = kept.iter().map(String::as_str).collect();
            world.answer("one.example.com.", &texts).await;
            program.restart().await;
            world.has_at_least("a", &texts).await;
        }
        ended.store(true, Ordering::Relaxed);
    };
    let (seen, ()) = tokio::join!(versions(&world, &ended), load);
    assert!(!seen.iter().any(is_open));
    let two: IpAddr = "192.0.2.2".parse().unwrap();
    let number = |address: &IpAddr| {
        address
            .to_string()
            .strip_prefix("198.51.100.")?
            .parse::<u8>()
            .ok()
    };
    for policy in &seen {
        let addresses = addresses_of(policy);
        assert!(addresses.contains(&two));
        // An address leaves no earlier than the status of its round says.
        let numbers: Vec<_> = addresses.iter().filter_map(number).collect();
        let newest = numbers.iter().max().copied().unwrap_or(0);
        for last in newest.saturating_sub(3)..=newest {
            assert!(
                numbers.contains(&last),
                "{last} is missing in {addresses:?}"
            );
        }
    }
    let last: Vec<_> = of_round(rounds - 1)
        .chain(["192.0.2.2".to_owned()])
        .collect();
    let last: Vec<_> = last.iter().map(String::as_str).collect();
    world.has("a", &last).await;
}
