//! The wall clock of the collector's host is changed while it runs.

use std::{fs, path::Path};

use proto::api::Family;
use tests::{
    programs::Program,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

const WILDCARD: &str = "*.example.com.";

/// The path of Debian's `libfaketime`; the loader fills in the architecture's folder.
const LIBRARY: &str = "/usr/$LIB/faketime/libfaketime.so.1";

/// Shifts the clock of the collector by this many seconds. The file is written atomically.
fn set_clock(world: &World, seconds: &str) {
    let (new, file) = (world.workdir.join("clock.new"), world.workdir.join("clock"));
    fs::write(&new, seconds).unwrap();
    fs::rename(new, file).unwrap();
}

/// Restarts the collector with a clock that can be set. The monotonic clock and file times are unaffected.
async fn with_a_clock(world: &mut World) {
    set_clock(world, "+0");
    world.collector.process().kill();
    let folder = world.workdir.path();
    let args = [
        "--store".to_owned(),
        world.store.address(),
        "--listen".to_owned(),
        format!("unix://{}", world.workdir.join("dnstap.sock").display()),
        "--resolver".to_owned(),
        world.coredns.address().to_string(),
    ];
    let environment = vec![
        ("LD_PRELOAD", LIBRARY.to_owned()),
        (
            "FAKETIME_TIMESTAMP_FILE",
            world.workdir.join("clock").display().to_string(),
        ),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("NO_FAKE_STAT", "1".to_owned()),
    ];
    world.collector = Program::start_with(folder, "collector", args.to_vec(), environment).await;
    world.collector.ready().await;
    world.coredns.restart().await;
}

#[tokio::test]
async fn a_clock_set_an_hour_ahead_or_back_removes_and_stops_nothing() {
    let found = ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"]
        .iter()
        .any(|arch| Path::new(&LIBRARY.replace("$LIB", arch)).exists());
    assert!(found, "libfaketime is missing: scripts/setup installs it");
    let mut world = World::start(Setup {
        zone: "www A 198.51.100.7\napi A 198.51.100.8\n",
        allow: &[NAME, WILDCARD],
        ..Setup::default()
    })
    .await;
    with_a_clock(&mut world).await;
    let www = ["198.51.100.7"];
    world.expect_set(NAME, Family::V4, &www).await;
    let history = world.monitor().await;

    for (gaps, (clock, new)) in (1_u8..).zip([("+3600", "api"), ("+0", "dns"), ("-3600", "ftp")]) {
        set_clock(&world, clock);
        let gaps = f64::from(gaps);
        world
            .collector
            .counts("egress_collector_clock_gaps_total", &[], gaps)
            .await;
        // New addresses arrive as before.
        world
            .set_zone(
                10 + gaps as u32,
                &format!("www A 198.51.100.7\n{new} A 198.51.100.9\n"),
            )
            .await;
        let name = format!("{new}.example.com.");
        world
            .expect_flow_through(WILDCARD, &name, Family::V4, "198.51.100.9")
            .await;
        world.expect_set(NAME, Family::V4, &www).await;
    }

    let departed = history.departures().await;
    let of_www = departed.iter().filter(|left| left.starts_with(NAME));
    assert_eq!(of_www.count(), 0, "{departed:?}");
    assert!(world.collector.process().ended().is_none());
}
