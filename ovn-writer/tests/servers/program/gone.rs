//! Names that go, and stores that seem to lose them.

use std::{fs, time::Duration};

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family::V4, address_set_id, address_set_name};
use tests::{
    soak::is_long,
    wait::{eventually, eventually_within},
};

use super::World;

const W: &str = "www.example.com.";
const B: &str = "b.example.";

fn set(name: &str) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, name, V4))
}

async fn world() -> World {
    let objects: [(&str, &[&str]); 2] = [(W, &["10.0.0.1"]), (B, &["10.0.0.2"])];
    let world = World::start(&objects, &[]).await;
    world.database.expect(W, V4, &["10.0.0.1"]).await;
    world.database.expect(B, V4, &["10.0.0.2"]).await;
    world
}

mod soak {
    use super::*;

    #[tokio::test]
    async fn a_set_that_a_rule_names_is_emptied_and_kept_and_another_one_deleted_after_a_minute() {
        let world = world().await;
        let acl = world
            .database
            .northbound
            .create_acl("allow", 10000, &[&set(W)], false);
        let history = world.database.northbound_monitor().await;
        let deleted = tokio::time::Instant::now();
        world.store.remove_object(W);
        world.store.remove_object(B);
        // One more, as a list of nothing that was known is not believed.
        world.store.write_status("c.example.", &["10.0.0.3"]);
        world.database.expect(W, V4, &[]).await;
        world.database.expect(B, V4, &[]).await;
        let mut left = history.departures().await;
        left.sort();
        assert_eq!(left, ["b.example. 10.0.0.2", "www.example.com. 10.0.0.1"]);
        let updates = history.updates();
        let emptied = updates.iter().find(|update| {
            let mut rows = update.rows.values().flatten();
            rows.any(|row| row.is_of(W, V4) && row.addresses.is_empty())
        });
        let after = emptied.expect("it was emptied").at - deleted;
        assert!(after >= Duration::from_millis(4900), "{after:?}");
        if !is_long() {
            return;
        }
        let minutes = Duration::from_secs(120);
        eventually_within(minutes, "the other one is deleted", async || {
            let rows = world.database.northbound.sets(B, V4)?;
            rows.is_empty().then_some(()).ok_or(format!("{rows:?}"))
        })
        .await;
        world.database.expect(W, V4, &[]).await;
        // One that comes late gets its set.
        world
            .database
            .northbound
            .create_acl("drop", 1, &[&set(B)], false);
        world.database.expect(B, V4, &[]).await;
        world.database.northbound.remove_acl(&acl);
        eventually_within(minutes, "nothing names it any more", async || {
            let rows = world.database.northbound.sets(W, V4)?;
            rows.is_empty().then_some(()).ok_or(format!("{rows:?}"))
        })
        .await;
        world.database.expect(B, V4, &[]).await;
    }
}

#[tokio::test]
async fn an_object_that_comes_back_empty_within_five_seconds_takes_nothing_out() {
    let world = world().await;
    let history = world.database.northbound_monitor().await;
    world.store.remove_object(W);
    world.store.write_status(W, &[]);
    world.store.remove_object(W);
    world.store.write_status(W, &["10.0.0.1"]);
    // What was deleted later goes, so that what was deleted before has had its time.
    world.store.remove_object(B);
    world.database.expect(B, V4, &[]).await;
    assert_eq!(history.departures().await, ["b.example. 10.0.0.2"]);
    world.database.expect(W, V4, &["10.0.0.1"]).await;
}

#[tokio::test]
async fn a_folder_that_vanishes_empties_nothing() {
    let world = world().await;
    let history = world.database.northbound_monitor().await;
    let aside = world.store.path().with_extension("aside");
    let start = tokio::time::Instant::now();
    fs::rename(world.store.path(), &aside).unwrap();
    eventually("it says so", async || {
        match world.program.admin().ready().await {
            Err(text) if text.contains("store: ") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // It goes on repairing what others do, for longer than a removal waits.
    while start.elapsed() < Duration::from_secs(6) {
        let uuid = world.database.row(W, V4).uuid;
        world.nbctl(&["add", "Address_Set", &uuid, "addresses", "10.6.6.6"]);
        world.database.expect(W, V4, &["10.0.0.1"]).await;
        world.database.expect(B, V4, &["10.0.0.2"]).await;
    }
    fs::rename(aside, world.store.path()).unwrap();
    world.program.ready().await;
    world.store.write_status(B, &["10.0.0.3"]);
    world.database.expect(B, V4, &["10.0.0.3"]).await;
    let mut left = history.departures().await;
    left.retain(|left| left != "www.example.com. 10.6.6.6");
    assert_eq!(left, ["b.example. 10.0.0.2"]);
}

#[tokio::test]
async fn a_folder_that_comes_back_empty_empties_nothing() {
    for notices in [false, true] {
        let world = world().await;
        let history = world.database.northbound_monitor().await;
        let folder = world.store.objects_folder();
        let aside = folder.with_extension("aside");
        fs::rename(&folder, &aside).unwrap();
        if notices {
            world.says("store: ").await;
        }
        fs::create_dir(&folder).unwrap();
        world
            .says("none of the 2 objects that were known is in the store")
            .await;
        // It is at work, for longer than a removal waits.
        let start = tokio::time::Instant::now();
        while start.elapsed() < Duration::from_secs(6) {
            let uuid = world.database.row(W, V4).uuid;
            world.nbctl(&["add", "Address_Set", &uuid, "addresses", "10.6.6.6"]);
            world.database.expect(W, V4, &["10.0.0.1"]).await;
        }
        fs::remove_dir(&folder).unwrap();
        fs::rename(aside, folder).unwrap();
        world.program.ready().await;
        world.store.write_status(B, &["10.0.0.3"]);
        world.database.expect(B, V4, &["10.0.0.3"]).await;
        let mut left = history.departures().await;
        left.retain(|left| left != "www.example.com. 10.6.6.6");
        assert_eq!(left, ["b.example. 10.0.0.2"]);
    }
}

#[tokio::test]
async fn a_writer_for_the_wrong_namespace_removes_nothing() {
    let mut world = world().await;
    let history = world.database.northbound_monitor().await;
    world.program.process().kill();
    fs::create_dir_all(world.store.path().join("wrong/dnsnameresolvers")).unwrap();
    let remote = world.database.northbound.remote();
    let flags = ["--objects-namespace", "wrong"];
    let folder = world.database.workdir.path();
    let mut wrong = super::start(folder, &world.store, &remote, &flags).await;
    wrong.ready().await;
    // It is at work, and empties the sets of its own object in its time.
    let object = world.store.objects_folder().join("dns-b-example-end.yaml");
    let own = world
        .store
        .path()
        .join("wrong/dnsnameresolvers/dns-fence.yaml");
    let text = fs::read_to_string(object)
        .unwrap()
        .replace(B, "fence.example.");
    fs::write(&own, text).unwrap();
    world
        .database
        .expect("fence.example.", V4, &["10.0.0.2"])
        .await;
    fs::remove_file(own).unwrap();
    world.database.expect("fence.example.", V4, &[]).await;
    assert_eq!(wrong.process().terminate().await.code(), Some(0));
    assert_eq!(history.departures().await, ["fence.example. 10.0.0.2"]);
    world.database.expect(W, V4, &["10.0.0.1"]).await;
}
