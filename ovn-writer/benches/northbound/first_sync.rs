//! The time from the start until the database was read and matches the store.

use std::{fs::File, process::Command, time::Instant};

use crate::{
    Bench,
    figures::Times,
    objects::{object, v4, v6},
    writer::{RunningWriter, Server},
};

const NAMES: usize = 10_000;
const EACH: usize = 10;
const ROUNDS: usize = 7;

pub(crate) fn run(bench: &mut Bench) {
    let rounds = bench.rounds(ROUNDS);
    let signals = &bench.signals;
    println!("first sync: {NAMES} names of {EACH} addresses, {rounds} times");
    let server = Server::start();
    let objects = || {
        (0..NAMES)
            .map(|name| object(&format!("set{name}"), addresses(name)))
            .collect::<Vec<_>>()
    };
    // The first writer creates the rows.
    let (writer, ..) = RunningWriter::start(&server.remote(), objects(), signals);
    writer.stop();
    let made = signals.transactions();
    let (mut dumps, mut syncs) = (Times::default(), Times::default());
    for _ in 0..rounds {
        let output = File::create(server.workdir.join("dump")).unwrap();
        let start = Instant::now();
        let status = Command::new("ovsdb-client")
            .args(["dump", &server.remote(), "OVN_Northbound", "Address_Set"])
            .stdout(output)
            .status()
            .unwrap();
        assert!(status.success());
        dumps.push(start.elapsed());
        let (writer, start, end) = RunningWriter::start(&server.remote(), objects(), signals);
        syncs.push(end - start);
        writer.stop();
    }
    assert_eq!(signals.transactions(), made, "there was nothing left to do");
    let [dump, sync] = [&mut dumps, &mut syncs].map(|times| times.quantile(0.5));
    println!("  {sync:.0} us, ovsdb-client dump {dump:.0} us");
    bench
        .verdicts
        .judge("first sync to ovsdb-client dump", sync / dump, 2.0);
}

/// Half of them are IPv4, half IPv6.
fn addresses(name: usize) -> impl Iterator<Item = std::net::IpAddr> {
    let numbers = name * EACH..(name + 1) * EACH;
    numbers.map(|n| if n % 2 == 0 { v4(n) } else { v6(n) })
}
