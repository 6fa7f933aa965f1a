//! The shutdown of the programs.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use proto::api::Family;
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};
use tests::{
    dnstap::Sender,
    soak::judge,
    wait::eventually,
    world::{Setup, World},
};

async fn world() -> World {
    World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["www.example.com"],
        ..Setup::default()
    })
    .await
}

mod soak {
    use super::*;

    #[tokio::test]
    async fn sigterm_and_sigint_end_both_programs_in_order_within_five_seconds() {
        let mut world = world().await;
        for signal in [Signal::TERM, Signal::INT] {
            for program in [&mut world.collector, &mut world.ovn_writer] {
                let asked = Instant::now();
                program.process().signal(signal);
                let status = program.process().wait().await;
                assert_eq!(status.code(), Some(0), "{signal:?}");
                judge("the end", asked.elapsed(), Duration::from_secs(5));
                program.restart().await;
                program.ready().await;
            }
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

/// What is in the files that a folder's writers prepare before they take its lock.
fn prepared(store: &Path) -> Vec<String> {
    let objects = store.join("ovn-kubernetes/dnsnameresolvers");
    let files = fs::read_dir(objects).into_iter().flatten().flatten();
    let files = files.filter(|file| file.file_name().as_encoded_bytes().ends_with(b".tmp"));
    // A file that is gone again was written.
    files
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .collect()
}

#[tokio::test]
async fn a_second_signal_ends_at_once_with_its_own_status() {
    let mut world = world().await;
    for (name, second, expected) in [
        ("first.example.com", Signal::TERM, 143),
        ("second.example.com", Signal::INT, 130),
    ] {
        // A held lock of the folder delays the last writes.
        // The collector may not have made it yet.
        let path = world.store.path().join(".lock");
        let lock = File::options().append(true).create(true).open(path);
        let lock = lock.unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        world.store.allow("late", &[name]);
        eventually("a write waits for the lock", async || {
            let files = prepared(world.store.path());
            let waits = files.iter().any(|file| file.contains(name));
            waits.then_some(()).ok_or_else(|| format!("{files:?}"))
        })
        .await;
        let process = world.collector.process();
        process.signal(Signal::TERM);
        eventually("it is shutting down", async || {
            let log = process.log();
            log.contains("shutting down").then_some(()).ok_or(log)
        })
        .await;
        process.signal(second);
        // The writes still wait.
        let status = process.wait().await;
        assert_eq!(status.code(), Some(expected));
        drop(lock);
        world.store.remove_egress_firewall("late");
        world.collector.restart().await;
        world.collector.ready().await;
    }
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
