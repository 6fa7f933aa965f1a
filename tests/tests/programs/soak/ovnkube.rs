//! ovn-kubernetes with its resolver flag beside the ovn-writer: both write the same sets.

use std::time::Duration;

use proto::api::Family;
use tests::{
    ovnkube::{Follow, OvnKube, set_name},
    soak,
    wait::{eventually, eventually_within},
    world::{Setup, World},
};

use super::{address, numbered_name, numbered_upstream};

const WILDCARD: &str = "*.up.test.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_columns_at_each_status_difference_lose_nothing_and_make_no_storm() {
    let names: u32 = soak::or_long(20, 150);
    let upstream = numbered_upstream(300).await;
    let mut world = World::start(Setup {
        allow: &[WILDCARD],
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    // ovn-kubernetes already manages the database when the ovn-writer starts.
    world.ovn_writer.process().kill();
    for row in world.northbound.rows().unwrap() {
        let destroy = ["destroy", "Address_Set", &row.uuid];
        world.northbound.nbctl(&destroy).unwrap();
    }
    // It sees a status after the collector has written the next two or three: each of its writes removes the latest
    // addresses.
    let behind = Follow::Late(Duration::from_millis(2500));
    let ovnkube = OvnKube::start(&[world.workdir.path()], &world.store, behind);
    ovnkube.settled().await;
    world.ovn_writer.restart().await;
    world.ovn_writer.ready().await;
    let history = world.monitor().await;

    for i in 0..names {
        let name = numbered_name(i);
        world.look_up(&name).await;
        eventually("it is in the status", async || {
            let entry = world.store.resolved(WILDCARD, &name);
            entry.map(drop).ok_or_else(|| "it is not".to_owned())
        })
        .await;
        if i == names / 2 {
            // Its clean-up deletes a set that a rule names, and its later updates fail.
            let args = ["destroy", "Address_Set", &set_name(WILDCARD, Family::V4)];
            world.northbound.nbctl(&args).unwrap();
        }
    }
    let patience = Duration::from_secs(120);
    ovnkube.settled().await;
    for family in Family::ALL {
        eventually_within(patience, "all addresses are in the set", async || {
            let rows = world.northbound.sets(WILDCARD, family)?;
            let has = |i: &u32| {
                let address = address(*i, family == Family::V6).to_string();
                rows.iter().any(|row| row.addresses.contains(&address))
            };
            let missing: Vec<u32> = (0..names).filter(|i| !has(i)).collect();
            let whole = missing.is_empty() && rows.len() == 1;
            whole
                .then_some(())
                .ok_or_else(|| format!("{} rows, {missing:?} are missing", rows.len()))
        })
        .await;
    }
    let made = world.northbound.sets(WILDCARD, Family::V4).unwrap();
    let mark = made[0].external_ids.get("ovn-writer/created");
    assert!(mark.is_some(), "{made:?}");
    eventually("all is as the store says", async || {
        let metric = world
            .ovn_writer
            .admin()
            .metric("egress_ovn_writer_in_sync", &[]);
        let is_same = metric.await.map_err(|error| error.to_string())? > 0.0;
        is_same.then_some(()).ok_or_else(|| "it is not".to_owned())
    })
    .await;
    // Each status may have caused one of its changes and one of ours per family.
    let (statuses, theirs) = (ovnkube.statuses(), ovnkube.writes());
    let changes = history.updates().len();
    println!("{names} answers, {statuses} statuses: {changes} changes, {theirs} of them theirs");
    assert!(theirs > 0, "they never differed");
    let answers = usize::try_from(names).unwrap();
    assert!(
        changes <= 2 * theirs + 2 * answers + 10,
        "{changes} changes for {theirs} of theirs"
    );
}
