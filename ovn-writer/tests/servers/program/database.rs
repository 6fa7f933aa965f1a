//! Changes of whole databases while the program follows them.

use std::{fs, process::Command};

use proto::api::Family::V4;

use super::World;
use crate::server::{run, schema};

const W: &str = "www.example.com.";

#[tokio::test]
async fn a_database_restored_from_a_backup_gets_the_current_statuses() {
    let mut world = World::start(&[(W, &["10.0.0.1"])], &[]).await;
    world.database.expect(W, V4, &["10.0.0.1"]).await;
    let folder = world.database.workdir.path().to_owned();
    let backup = run(Command::new("ovsdb-client").args([
        "backup",
        &world.database.northbound.remote(),
        "OVN_Northbound",
    ]))
    .unwrap();
    world.store.write_status(W, &["10.0.0.2"]);
    world.store.write_status("new.example.", &["10.0.0.4"]);
    world.database.expect(W, V4, &["10.0.0.2"]).await;
    world
        .database
        .expect("new.example.", V4, &["10.0.0.4"])
        .await;

    // Restored while the server is down, and under the connection.
    world.database.northbound.process().kill();
    fs::write(folder.join("nb.db"), &backup).unwrap();
    world.database.northbound.restart().await;
    expect_now(&world).await;
    let file = folder.join("backup");
    fs::write(&file, &backup).unwrap();
    run(Command::new("ovsdb-client")
        .args(["restore", &world.database.northbound.remote()])
        .stdin(fs::File::open(file).unwrap()))
    .unwrap();
    expect_now(&world).await;
    world.store.write_status(W, &["10.0.0.5"]);
    world.database.expect(W, V4, &["10.0.0.5"]).await;
    world.program.ready().await;
}

async fn expect_now(world: &World) {
    world.database.expect(W, V4, &["10.0.0.2"]).await;
    world
        .database
        .expect("new.example.", V4, &["10.0.0.4"])
        .await;
}

#[tokio::test]
async fn a_database_that_is_compacted_and_converted_is_followed_on() {
    let world = World::start(&[(W, &["10.0.0.1"])], &[]).await;
    world.database.expect(W, V4, &["10.0.0.1"]).await;
    let uuid = world.database.row(W, V4).uuid;
    for round in 0..3 {
        world.database.control(&["ovsdb-server/compact"]);
        let address = format!("10.1.0.{round}");
        world.store.write_status(W, &[&address]);
        world.database.expect(W, V4, &[&address]).await;
    }
    for round in 0..3 {
        let schema = schema(world.database.workdir.path(), |schema| {
            schema["version"] = format!("99.{round}.0").into();
            let columns = &mut schema["tables"]["Address_Set"]["columns"];
            columns[format!("colour{round}")] = serde_json::json!({"type": "string"});
        });
        run(Command::new("ovsdb-client")
            .args(["convert", &world.database.northbound.remote()])
            .arg(schema))
        .unwrap();
        let address = format!("10.2.0.{round}");
        world.store.write_status(W, &[&address]);
        world.database.expect(W, V4, &[&address]).await;
    }
    assert_eq!(world.database.row(W, V4).uuid, uuid, "the row is the same");
    world.program.ready().await;
}
