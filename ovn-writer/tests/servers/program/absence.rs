//! Absent objects, with the whole program and its own delays.

use std::fs;

use super::{World, start};
use crate::harness::Database;
use proto::api::Family::V4;

const W: &str = "www.example.com.";
const B: &str = "b.example.";

#[tokio::test]
async fn with_all_programs_killed_and_the_folder_gone_no_set_in_use_loses_an_address() {
    let database = Database::start().await;
    let names = [W, B].map(str::to_owned);
    database.northbound.create_acls(&names, false);
    let objects: [(&str, &[&str]); 2] = [(W, &["10.0.0.1"]), (B, &["10.0.0.2"])];
    let mut world = World::on(database, &objects, &[]).await;
    world.database.expect(W, V4, &["10.0.0.1"]).await;
    world.database.expect(B, V4, &["10.0.0.2"]).await;
    world.program.process().kill();
    world.database.northbound.process().kill();
    fs::remove_dir_all(world.store.objects_folder()).unwrap();
    fs::create_dir_all(world.store.objects_folder()).unwrap();
    world.database.northbound.restart().await;
    let folder = world.database.workdir.path().to_owned();
    let remote = world.database.northbound.remote();
    world.program = start(&folder, &world.store, &remote, &[]).await;
    world.program.ready().await;
    // It writes what the store has.
    world.store.write_status("new.example.", &["10.0.0.3"]);
    world
        .database
        .expect("new.example.", V4, &["10.0.0.3"])
        .await;
    world.database.expect(W, V4, &["10.0.0.1"]).await;
    world.database.expect(B, V4, &["10.0.0.2"]).await;
    assert_eq!(world.database.closings(), [""; 0]);
    world
        .shows("egress_ovn_writer_absent_names", &[], 2.0)
        .await;
}
