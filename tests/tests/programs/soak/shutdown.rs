//! The shutdown of programs with much to write.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::{
    dnstap::Sender,
    programs::Program,
    soak,
    wait::eventually_within,
    world::{Setup, World},
};

use super::{ADDRESSES, large_answer, large_name};

/// Hundreds of megabytes are written to a folder and a database.
const LONG: Duration = Duration::from_secs(300);

/// Checks that it ended in order, with any amount of work left, and that no task was aborted.
async fn expect_end(name: &str, program: &mut Program, asked: Instant) {
    let status = program.process().wait().await;
    let took = asked.elapsed();
    println!("{name}: ended after {} ms", took.as_millis());
    assert_eq!(status.code(), Some(0));
    let messages = program.messages();
    let aborted = messages.iter().find(|message| message["tasks"].is_string());
    assert_eq!(aborted, None);
    let limit = Duration::from_secs(5);
    assert!(!soak::is_long() || took < limit, "{name}: {took:?}");
}

#[tokio::test]
async fn sigterm_ends_both_programs_in_order_while_large_names_are_written() {
    // A namespace may have 20,000 addresses.
    let count = 19;
    let names: Vec<String> = (0..count).map(large_name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::start(Setup {
        allow: &names,
        collector: &["--status-write-bytes=1000000000"],
        ..Setup::default()
    })
    .await;
    // One more for the wildcard of the fences.
    world.expect_objects(names.len() + 1).await;
    let mut sender = Sender::open(&world.dnstap_socket()).await;
    // As many at once as the queue holds.
    for part in (0..count).collect::<Vec<_>>().chunks(100) {
        let frames = part
            .iter()
            .map(|i| large_answer(*i, i * ADDRESSES, ADDRESSES));
        sender
            .send(&frames.collect::<Vec<_>>().concat())
            .await
            .unwrap();
        let so_far = f64::from((part[0] + part.len() as u32) * ADDRESSES);
        world
            .collector
            .counts("egress_collector_addresses", &[], so_far)
            .await;
    }
    let written = f64::from(count * ADDRESSES);
    let inserted = "egress_ovn_writer_addresses_inserted_total";
    eventually_within(
        LONG,
        "all addresses are in the database",
        async || match world.ovn_writer.admin().metric(inserted, &[]).await {
            Ok(value) if value >= written => Ok(()),
            other => Err(format!("{other:?} of {written}")),
        },
    )
    .await;
    // One more address of each name: every status must be written again.
    let more = (0..count).map(|i| large_answer(i, count * ADDRESSES + i, 1));
    sender
        .send(&more.collect::<Vec<_>>().concat())
        .await
        .unwrap();
    let all = f64::from(count * (ADDRESSES + 1));
    world
        .collector
        .counts("egress_collector_addresses", &[], all)
        .await;
    let asked = Instant::now();
    for program in [&mut world.collector, &mut world.ovn_writer] {
        program.process().signal(Signal::TERM);
    }
    tokio::join!(
        expect_end("collector", &mut world.collector, asked),
        expect_end("ovn-writer", &mut world.ovn_writer, asked),
    );
}
