//! How the programs end.

use std::time::{Duration, Instant};

use proto::api::Family;
use rustix::process::Signal;
use tests::world::{Setup, World};

async fn world() -> World {
    World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["www.example.com"],
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn sigterm_and_sigint_end_both_programs_in_order_within_five_seconds() {
    let mut world = world().await;
    for signal in [Signal::TERM, Signal::INT] {
        for program in [&mut world.collector, &mut world.ovn_writer] {
            let asked = Instant::now();
            program.process().signal(signal);
            let status = program.process().wait().await;
            assert_eq!(status.code(), Some(0), "{signal:?}");
            assert!(asked.elapsed() < Duration::from_secs(5));
            program.restart().await;
            program.ready().await;
        }
    }
}

#[tokio::test]
async fn sigterm_ends_an_ovn_writer_whose_database_does_not_answer() {
    let mut world = world().await;
    world.northbound.process().signal(Signal::STOP);
    let status = world.ovn_writer.process().terminate().await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn what_was_observed_is_written_before_the_end() {
    let mut world = world().await;
    let name = "www.example.com.";
    world.look_up(name).await;
    world
        .collector
        .counts("collector_events_total", &["outcome=\"observed\""], 1.0)
        .await;
    let status = world.collector.process().terminate().await;
    assert_eq!(status.code(), Some(0));
    let entry = world.store.resolved(name, name).expect("an entry");
    assert_eq!(entry.resolved_addresses[0].ip, "192.0.2.10");
    world.expect_set(name, Family::V4, &["192.0.2.10"]).await;
}

#[tokio::test]
async fn the_socket_is_removed_at_the_end() {
    let mut world = world().await;
    world.collector.process().terminate().await;
    assert!(!world.dnstap_socket().exists());
}
