//! Changes of EgressFirewalls, objects and rows.

use proto::api::Family;
use tests::{
    wait::eventually,
    world::{Setup, World},
};

const ZONE: &str = "
www   IN A 192.0.2.10
late  IN A 192.0.2.11
";

/// Foreign rules refer to the sets, and stay when an EgressFirewall is removed.
async fn world() -> World {
    let world = World::start(Setup {
        zone: ZONE,
        allow: &["www.example.com"],
        ..Setup::default()
    })
    .await;
    let names = ["www.example.com.", "late.example.com."].map(str::to_owned);
    world.northbound.create_acls(&names, false);
    world
}

async fn an_object(world: &World, name: &str) {
    eventually(&format!("an object of {name}"), async || {
        world
            .store
            .object(name)
            .ok_or_else(|| "there is none".to_owned())
    })
    .await;
}

#[tokio::test]
async fn two_egress_firewalls_share_a_name() {
    let world = world().await;
    let name = "www.example.com.";
    world.store.allow("second", &["WWW.example.com."]);
    world.look_up(name).await;
    world.expect_set(name, Family::V4, &["192.0.2.10"]).await;
    let objects = world.store.objects();
    assert_eq!(
        objects
            .iter()
            .filter(|object| object.spec.name == name)
            .count(),
        1
    );
    let history = world.monitor().await;

    world.store.remove_egress_firewall("team");
    world.settle().await;
    world.expect_set(name, Family::V4, &["192.0.2.10"]).await;
    assert_eq!(history.departures().await, [""; 0]);
}

#[tokio::test]
async fn a_rule_that_comes_back_goes_on_with_its_addresses() {
    let world = world().await;
    let name = "www.example.com.";
    world.look_up(name).await;
    world.expect_set(name, Family::V4, &["192.0.2.10"]).await;
    let history = world.monitor().await;
    world.store.remove_egress_firewall("team");
    world.settle().await;
    world.store.allow("team", &[name]);
    an_object(&world, name).await;
    world.expect_flow(name, Family::V4, "192.0.2.10").await;
    assert_eq!(history.departures().await, [""; 0]);
}
