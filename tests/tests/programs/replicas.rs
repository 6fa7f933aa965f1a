//! Two collectors on one store: one looks names up and writes.

use proto::api::Family;
use tests::{
    programs::Program,
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

/// The socket of the second collector.
const SOCKET: &str = "second.sock";

async fn second(world: &World) -> Program {
    world.another_collector(SOCKET, &[]).await
}

async fn expect_leading(program: &Program, leading: f64) {
    eventually("the lead", async || {
        match program.admin().metric("egress_replica_leading", &[]).await {
            Ok(found) if found == leading => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_replica_takes_over_when_the_leader_is_killed_and_nothing_leaves() {
    let mut world = World::start(Setup {
        zone: "www 1 IN A 192.0.2.10",
        allow: &["www.example.com"],
        collector: &["--min-ttl", "300s"],
        ..Setup::default()
    })
    .await;
    expect_leading(&world.collector, 1.0).await;
    let replica = second(&world).await;
    expect_leading(&replica, 0.0).await;
    world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let asked = replica
        .admin()
        .metric("egress_collector_lookups_total", &[])
        .await
        .unwrap();
    assert!(asked == 0.0, "who follows looks nothing up: {asked}");

    let history = world.monitor().await;
    world.collector.process().kill();
    expect_leading(&replica, 1.0).await;
    replica
        .counts("egress_collector_lookups_total", &[], 1.0)
        .await;
    assert!(history.departures().await.is_empty());
    // It now creates objects.
    world.store.allow("team", &["late.example.com"]);
    eventually("an object of the new name", async || {
        let object = world.store.object("late.example.com.");
        object.map(drop).ok_or_else(|| "there is none".to_owned())
    })
    .await;
}

#[tokio::test]
async fn with_two_dnstap_lines_a_collector_that_is_away_is_no_blackout() {
    const WILDCARD: &str = "*.apps.example.com.";
    let mut world = World::start(Setup {
        zone: "*.apps 300 IN A 192.0.2.30",
        allow: &[WILDCARD],
        ..Setup::default()
    })
    .await;
    let replica = second(&world).await;
    world.stream_to(SOCKET).await;
    for collector in [&world.collector, &replica] {
        collector
            .counts("egress_collector_connections", &[], 1.0)
            .await;
    }

    world.collector.process().kill();
    // Names under a wildcard are known from dnstap only; this one is queried once.
    world.look_up("one.apps.example.com.").await;
    world
        .expect_set(WILDCARD, Family::V4, &["192.0.2.30"])
        .await;
}
