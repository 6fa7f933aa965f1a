//! A server that hangs.

use proto::api::Family::V4;
use runtime::store::Event;
use rustix::process::Signal;
use tests::wait::{PATIENCE, eventually};
use tokio::time::timeout;

use crate::harness::{Database, RunningWriter, object};

const W: &str = "www.example.com.";

#[tokio::test(flavor = "multi_thread")]
async fn writer_ends_while_the_server_hangs() {
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
