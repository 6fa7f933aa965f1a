//! The shutdown of the programs.

use proto::api::Family;
use rustix::process::Signal;
use tests::{
    dnstap::Sender,
    wait::eventually,
    world::{Setup, World},
};

#[tokio::test]
async fn what_was_observed_is_written_before_the_end() {
    let mut world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["www.example.com"],
        ..Setup::default()
    })
    .await;
    let name = "www.example.com.";
    world.look_up(name).await;
    world
        .collector
        .counts(
            "egress_collector_events_total",
            &["outcome=\"observed\""],
            1.0,
        )
        .await;
    let status = world.collector.process().terminate().await;
    assert_eq!(status.code(), Some(0));
    let entry = world.store.resolved(name, name).expect("an entry");
    assert_eq!(entry.resolved_addresses[0].ip, "192.0.2.10");
    world.expect_set(name, Family::V4, &["192.0.2.10"]).await;
}

#[tokio::test]
async fn a_collector_with_a_delay_says_that_it_ends_and_reads_on() {
    let mut world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["www.example.com"],
        collector: &["--shutdown-delay", "10m"],
        ..Setup::default()
    })
    .await;
    world.collector.process().signal(Signal::TERM);
    let admin = world.collector.admin();
    eventually("it says that it ends", async || match admin.ready().await {
        Err(said) if said.contains("running: the program is shutting down") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    world.look_up("www.example.com.").await;
    world
        .expect_set("www.example.com.", Family::V4, &["192.0.2.10"])
        .await;
    // A stream that opens now is served like any other.
    let _late = Sender::open(&world.dnstap_socket()).await;
    // A second signal ends the delay.
    let status = world.collector.process().terminate().await;
    assert_eq!(status.code(), Some(143));
}
