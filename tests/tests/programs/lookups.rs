//! The collector's own look-ups, which keep addresses current without queries of pods.

use proto::api::{DEGRADED, Family};
use tests::{
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

/// A world whose collector queries its CoreDNS, at short intervals.
async fn world(zone: &str) -> World {
    let allow = &["www.example.com", "*.apps.example.com"];
    let mut world = World::start(Setup {
        zone,
        allow,
        ..Setup::default()
    })
    .await;
    world
        .restart_asking(&["--min-ttl", "1s", "--grace", "1s"])
        .await;
    world
}

/// `Degraded` of the name's entry: status and reason.
fn degraded(world: &World) -> Option<(String, String)> {
    let entry = world.store.resolved(NAME, NAME)?;
    let condition = entry
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == DEGRADED)?;
    Some((condition.status, condition.reason))
}

async fn expect_degraded(world: &World, status: &str) {
    eventually("the condition is written", async || match degraded(world) {
        Some((found, _)) if found == status => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test]
async fn a_wanted_name_has_its_addresses_before_any_pod_asks() {
    let world =
        world("www 300 IN CNAME web\nweb 300 IN A 192.0.2.10\nweb 300 IN AAAA 2001:db8::10").await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world.expect_set(NAME, Family::V6, &["2001:db8::10"]).await;
    expect_degraded(&world, "False").await;
}

#[tokio::test]
async fn an_address_that_is_still_answered_stays_and_one_that_is_not_leaves() {
    let world = world("www 1 IN A 192.0.2.10").await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let history = world.monitor().await;
    world
        .collector
        .counts("egress_collector_lookups_total", &[], 6.0)
        .await;
    assert!(history.departures().await.is_empty());
    world.set_zone(2, "www 1 IN A 192.0.2.11").await;
    world.expect_set(NAME, Family::V4, &["192.0.2.11"]).await;
    assert_eq!(history.departures().await, [format!("{NAME} 192.0.2.10")]);
}

#[tokio::test]
async fn a_dead_upstream_empties_no_set_and_is_told() {
    let mut world = world("www 1 IN A 192.0.2.10").await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let history = world.monitor().await;
    world.coredns.process().kill();
    expect_degraded(&world, "True").await;
    let reason = degraded(&world).unwrap().1;
    assert!(
        ["Network", "Timeout"].contains(&reason.as_str()),
        "{reason}"
    );
    // Long enough for the address to expire many times.
    world
        .collector
        .counts("egress_collector_lookups_total", &["failed"], 7.0)
        .await;
    assert!(history.departures().await.is_empty());
    world.coredns.restart().await;
    expect_degraded(&world, "False").await;
    assert!(history.departures().await.is_empty());
    world.set_zone(2, "www 1 IN A 192.0.2.11").await;
    world.expect_set(NAME, Family::V4, &["192.0.2.11"]).await;
}
