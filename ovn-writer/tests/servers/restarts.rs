//! Servers that die, hang and change under the connection.

use std::{fs, process::Command};

use proto::api::Family::V4;
use runtime::store::Event;
use rustix::process::Signal;
use tests::wait::{PATIENCE, eventually};
use tokio::time::timeout;

use crate::{
    harness::{Database, RunningWriter, object},
    server::{run, schema},
};

const W: &str = "www.example.com.";

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_lost_is_filled_again() {
    let mut database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    database.northbound.process().kill();
    fs::remove_file(database.workdir.join("nb.db")).unwrap();
    database.northbound = tests::northbound::Northbound::start(database.workdir.path()).await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_may_change_under_the_connection() {
    let database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    let schema = schema(database.workdir.path(), |schema| {
        schema["version"] = "99.0.0".into();
        schema["tables"]["Address_Set"]["columns"]["colour"] =
            serde_json::json!({"type": "string"});
    });
    run(Command::new("ovsdb-client")
        .args(["convert", &database.northbound.remote()])
        .arg(schema))
    .unwrap();
    writer.applied(W, &["10.0.0.2"]).await;
    database.expect(W, V4, &["10.0.0.2"]).await;
    writer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_waits_for_a_server_that_hangs_but_not_for_ever() {
    let mut database = Database::start().await;
    let writer = RunningWriter::start(&database.northbound.remote());
    writer
        .store(Event::Synced(vec![object(W, &["10.0.0.1"])]))
        .await;
    database.expect(W, V4, &["10.0.0.1"]).await;
    database.northbound.process().signal(Signal::STOP);
    writer.applied(W, &["10.0.0.2"]).await;
    // The server still hangs when this returns.
    let stopped = timeout(PATIENCE, writer.stop()).await;
    stopped.expect("the writer ends");
    database.northbound.process().signal(Signal::CONT);
    eventually("the server answers again", async || {
        database.northbound.rows()
    })
    .await;
}
