//! The time from the start until the database was read and matches the store.

use std::time::Duration;

use tests::times::Times;

use crate::{
    Bench,
    objects::{object, v4, v6},
    surroundings::dump,
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
    let (writer, start, end) = RunningWriter::start(&server.remote(), objects(), signals);
    println!(
        "{:<28}{:>10.1} ms",
        "writer, of an empty database",
        ms(end - start)
    );
    writer.stop();
    let made = signals.transactions();
    let (mut dumps, mut syncs) = (Times::default(), Times::default());
    for _ in 0..rounds {
        dumps.push(dump(&server, "Address_Set"));
        let (writer, start, end) = RunningWriter::start(&server.remote(), objects(), signals);
        syncs.push(end - start);
        writer.stop();
    }
    assert_eq!(signals.transactions(), made, "there was nothing left to do");
    println!(
        "{:<28}{:>10.1} ms",
        "ovsdb-client dump",
        dumps.median() / 1e3
    );
    println!("{:<28}{:>10.1} ms", "writer", syncs.median() / 1e3);
    let ratio = syncs.median() / dumps.median();
    bench
        .verdicts
        .judge("first sync to ovsdb-client dump", ratio, 2.0);
}

/// Half of them are IPv4, half IPv6.
fn addresses(name: usize) -> impl Iterator<Item = std::net::IpAddr> {
    let numbers = name * EACH..(name + 1) * EACH;
    numbers.map(|n| if n % 2 == 0 { v4(n) } else { v6(n) })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
