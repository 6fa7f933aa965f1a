//! Another client deletes an object and creates it again, without a status.

use std::{fs, path::PathBuf};

use proto::api::Family;
use tests::{
    soak,
    upstream::Scripted,
    world::{Setup, World},
};

use super::numbered_upstream;

const NAME: &str = "n7.up.test.";

const OBJECT: &str = "apiVersion: network.openshift.io/v1alpha1\nkind: DNSNameResolver\nmetadata: {name: dns-foreign}\nspec: {name: n7.up.test.}\n";

/// A world with foreign objects, one of which has its addresses; only pods send queries.
async fn world() -> (World, Scripted, PathBuf) {
    let upstream = numbered_upstream(300).await;
    let world = World::start(Setup {
        allow: &[NAME],
        upstream: Some(upstream.address),
        collector: &["--manage-objects", "never"],
        ..Setup::default()
    })
    .await;
    fs::create_dir_all(world.store.objects_folder()).unwrap();
    let file = world.store.objects_folder().join("dns-foreign.yaml");
    fs::write(&file, OBJECT).unwrap();
    world.look_up(NAME).await;
    expect_sets(&world).await;
    (world, upstream, file)
}

async fn expect_sets(world: &World) {
    world.expect_set(NAME, Family::V4, &["198.18.0.7"]).await;
    world.expect_set(NAME, Family::V6, &["2001:db8::7"]).await;
}

async fn expect_status(world: &World) {
    tests::wait::eventually("its addresses are back", async || {
        let entry = world.store.resolved(NAME, NAME).ok_or("no entry")?;
        let count = entry.resolved_addresses.len();
        (count == 2).then_some(()).ok_or_else(|| count.to_string())
    })
    .await;
}

#[tokio::test]
async fn an_object_that_is_replaced_at_once_gets_its_addresses_from_memory() {
    let (world, upstream, file) = world().await;
    let asked = upstream.count(|asked| asked.name() == NAME);
    for _ in 0..soak::or_long(10, 200) {
        fs::remove_file(&file).unwrap();
        fs::write(&file, OBJECT).unwrap();
        expect_status(&world).await;
    }
    expect_sets(&world).await;
    assert_eq!(upstream.count(|asked| asked.name() == NAME), asked);
}
