//! Addresses leave once they are no longer answered, and others stay.

use proto::api::Family;
use tests::world::{Setup, World};

async fn world(zone: &str) -> World {
    World::start(Setup {
        zone,
        allow: &["www.example.com", "*.apps.example.com"],
        collector: &["--min-ttl", "1s", "--grace", "2s"],
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn an_address_leaves_when_its_time_and_the_grace_are_over() {
    let world = world("www 1 IN A 192.0.2.10\nwww 300 IN AAAA 2001:db8::10").await;
    let name = "www.example.com.";
    let history = world.monitor().await;
    world.look_up(name).await;
    history.seen(name, Family::V4, "192.0.2.10").await;
    world.expect_set(name, Family::V6, &["2001:db8::10"]).await;
    world.expect_set(name, Family::V4, &[]).await;
    // The families are independent.
    world.expect_set(name, Family::V6, &["2001:db8::10"]).await;
    let entry = world.store.resolved(name, name).unwrap();
    assert_eq!(entry.resolved_addresses.len(), 1);
}

#[tokio::test]
async fn an_address_that_changes_is_replaced() {
    let world = world("www 1 IN A 192.0.2.10").await;
    let name = "www.example.com.";
    let history = world.monitor().await;
    world.expect_flow(name, Family::V4, "192.0.2.10").await;
    world.set_zone(2, "www 300 IN A 192.0.2.11").await;
    world.look_up(name).await;
    world.expect_set(name, Family::V4, &["192.0.2.11"]).await;
    assert_eq!(history.departures().await, [format!("{name} 192.0.2.10")]);
}

#[tokio::test]
async fn an_address_that_is_answered_again_and_again_stays() {
    let world = world("www 1 IN A 192.0.2.10\n*.apps 1 IN A 192.0.2.30").await;
    let history = world.monitor().await;
    let name = "www.example.com.";
    world.expect_flow(name, Family::V4, "192.0.2.10").await;
    // The set of the other name comes and goes three times; this one is looked up all the time.
    for round in 0..3 {
        let other = format!("n{round}.apps.example.com.");
        world.look_up(&other).await;
        tests::wait::eventually("the other name's address goes", async || {
            world.look_up(name).await;
            let departed = history.departures().await;
            let gone = departed
                .iter()
                .filter(|left| left.starts_with("*.apps"))
                .count();
            (gone > round)
                .then_some(())
                .ok_or_else(|| format!("{departed:?}"))
        })
        .await;
    }
    let departed = history.departures().await;
    assert!(
        !departed.iter().any(|left| left.starts_with(name)),
        "{departed:?}"
    );
}

#[tokio::test]
async fn an_entry_of_a_wildcard_goes_with_its_last_address() {
    let world = world("one.apps 1 IN A 192.0.2.30\ntwo.apps 300 IN A 192.0.2.31").await;
    let set = "*.apps.example.com.";
    world.look_up("one.apps.example.com.").await;
    world.look_up("two.apps.example.com.").await;
    world
        .expect_flow_through(set, "two.apps.example.com.", Family::V4, "192.0.2.31")
        .await;
    world.expect_set(set, Family::V4, &["192.0.2.31"]).await;
    let gone = world.store.resolved(set, "one.apps.example.com.");
    assert!(gone.is_none_or(|entry| entry.resolved_addresses.is_empty()));
}
