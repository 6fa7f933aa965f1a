//! `kill -9`, and objects that come back from a backup.

use serde_json::json;

use super::world::World;

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
