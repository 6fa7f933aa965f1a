//! Removed and unreadable EgressFirewalls.

use std::fs;

use proto::api::Family;
use tests::{
    programs::Program,
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

const TENANTS: usize = 12;

fn tenant(i: usize) -> (String, String) {
    (format!("tenant-{i}"), format!("t{i}.example.com."))
}

/// A world in which many namespaces have a name each, besides that of the namespace `team`.
async fn world() -> World {
    let zone = (0..TENANTS).map(|i| format!("t{i} IN A 192.0.2.{}\n", 100 + i));
    let zone: String = zone.chain(["www IN A 192.0.2.10\n".to_owned()]).collect();
    let world = World::start(Setup {
        zone: &zone,
        allow: &[NAME],
        ..Setup::default()
    })
    .await;
    for (namespace, name) in (0..TENANTS).map(tenant) {
        world.store.allow(&namespace, &[&name]);
    }
    for (i, (_, name)) in (0..TENANTS).map(tenant).enumerate() {
        let address = format!("192.0.2.{}", 100 + i);
        world.expect_flow(&name, Family::V4, &address).await;
    }
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world
}

/// Waits until the program is ready with this text in `/readyz`.
async fn expect_words(program: &Program, words: &str) {
    eventually(&format!("/readyz says {words:?}"), async || {
        match program.admin().get("/readyz").await {
            Ok((200, body)) if body.contains(words) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn many_egress_firewalls_that_go_and_return_take_nothing_with_them() {
    let world = world().await;
    let history = world.monitor().await;
    for (namespace, _) in (0..TENANTS).map(tenant) {
        world.store.remove_egress_firewall(&namespace);
    }
    // The names are still looked up.
    world.set_zone(2, "t0 IN A 192.0.2.99").await;
    let (_, first) = tenant(0);
    world.expect_flow(&first, Family::V4, "192.0.2.99").await;
    for (namespace, name) in (0..TENANTS).map(tenant) {
        assert!(world.store.object(&name).is_some(), "{name}");
        world.store.allow(&namespace, &[&name]);
    }
    world.settle().await;
    let departures = history.departures().await;
    assert!(
        departures.iter().all(|it| it.contains("192.0.2.100")),
        "{departures:?}"
    );
}

#[tokio::test]
async fn an_egress_firewall_that_cannot_be_read_is_reported_and_holds_up_no_other() {
    let world = world().await;
    let history = world.monitor().await;
    let file = world.store.egress_firewall("new");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "apiVersion: k8s.ovn.org/v1\nspec: [half").unwrap();
    expect_words(
        &world.collector,
        "egress-firewalls: ok, but 1 cannot be read",
    )
    .await;
    world.store.allow("late", &["t0.example.com"]);
    fs::remove_file(&file).unwrap();
    expect_words(&world.collector, "egress-firewalls: ok\n").await;
    assert_eq!(history.departures().await, [""; 0]);
}
