//! Each program in turn ends, in order or by `kill -9`, and starts again. Stored data must survive, no address may
//! leave its set meanwhile, and new answers must arrive again without help. CoreDNS redials a lost reader every 10
//! seconds.

use std::collections::BTreeMap;

use proto::api::Family;
use tests::{
    transaction_log,
    world::{Setup, World},
};

const ZONE: &str = "
www     IN A    192.0.2.10
www     IN AAAA 2001:db8::10
*.apps  IN A    192.0.2.30
late    IN A    192.0.2.40
";
const LATE: &str = "late.example.com.";

/// A world in which two names have been looked up, and one not yet.
async fn world() -> World {
    let world = World::start(Setup {
        zone: ZONE,
        allow: &["www.example.com", "*.apps.example.com", LATE],
        ..Setup::default()
    })
    .await;
    world.look_up("www.example.com.").await;
    world.look_up("one.apps.example.com.").await;
    expect_what_was_there(&world).await;
    world
}

async fn expect_what_was_there(world: &World) {
    world
        .expect_set("www.example.com.", Family::V4, &["192.0.2.10"])
        .await;
    world
        .expect_set("www.example.com.", Family::V6, &["2001:db8::10"])
        .await;
    world
        .expect_set("*.apps.example.com.", Family::V4, &["192.0.2.30"])
        .await;
}

async fn expect_flow_and_no_loss(world: &World) {
    world.expect_flow(LATE, Family::V4, "192.0.2.40").await;
    assert_eq!(transaction_log::departures(world.workdir.path()), [""; 0]);
    expect_what_was_there(world).await;
}

#[tokio::test]
async fn everything_is_killed_at_once_and_starts_again() {
    let mut world = world().await;
    let (before, files) = (rows(&world), stored(&world));
    for process in [
        world.coredns.process(),
        world.collector.process(),
        world.ovn_writer.process(),
        world.northbound.process(),
    ] {
        process.kill();
    }
    assert_eq!(stored(&world), files);
    world.northbound.restart().await;
    world.ovn_writer.restart().await;
    world.collector.restart().await;
    world.collector.ready().await;
    world.coredns.restart().await;
    expect_flow_and_no_loss(&world).await;
    assert_eq!(rows(&world), before, "a row was made anew");
}

/// The uuids of the rows, by the names of the address sets.
fn rows(world: &World) -> BTreeMap<String, String> {
    let rows = world.northbound.rows().expect("the database answers");
    rows.into_iter().map(|row| (row.name, row.uuid)).collect()
}

/// The addresses in the store, by object and looked-up name.
fn stored(world: &World) -> BTreeMap<(String, String), Vec<String>> {
    let mut stored = BTreeMap::new();
    for object in world.store.objects() {
        for entry in object.status.unwrap_or_default().resolved_names {
            let mut addresses: Vec<String> = entry
                .resolved_addresses
                .into_iter()
                .map(|address| address.ip.into())
                .collect();
            addresses.sort();
            stored.insert((object.spec.name.clone(), entry.dns_name), addresses);
        }
    }
    stored
}
