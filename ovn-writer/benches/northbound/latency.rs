//! One new address of a set: the time from the object's event on the watch to the acknowledged transaction.

use std::{
    net::IpAddr,
    thread::sleep,
    time::{Duration, Instant},
};

use proto::api::Family;

use crate::{
    Bench,
    figures::Times,
    libovsdb::{Libovsdb, event},
    objects::{dns_name, object, v4},
    writer::{RunningWriter, Server},
};

const SIZES: [usize; 3] = [10, 1_000, 10_000];
const ROUNDS: usize = 1_000;

/// A pause, so that a change is finished before the next is measured.
const PAUSE: Duration = Duration::from_micros(500);

pub(crate) fn run(bench: &mut Bench) {
    let rounds = bench.rounds(ROUNDS);
    let signals = &bench.signals;
    println!("latency: one new address of a set, {rounds} times");
    let server = Server::start();
    let name = |size| format!("set{size}");
    let store = SIZES.map(|size| object(&name(size), (0..size).map(v4)));
    let (writer, ..) = RunningWriter::start(&server.remote(), store.to_vec(), signals);
    for (size, plain) in SIZES.into_iter().zip(store) {
        let mut libovsdb = Libovsdb::start(&server.remote());
        let set = format!("libovsdb{size}");
        let base: Vec<IpAddr> = (0..size).map(v4).collect();
        let less = event(&set, &base);
        libovsdb.apply(&less);
        let (mut theirs, mut ours) = (Times::default(), Times::default());
        for round in 0..rounds {
            let new = v4(size + round);
            // Made here, so that copies of thousands of addresses do not fill the caches before the measurement.
            let more = event(&set, &[&base[..], &[new]].concat());
            let (mut applied, back) = (plain.clone(), plain.clone());
            let status = applied.status.as_mut().unwrap();
            let addresses = &mut status.resolved_names[0].resolved_addresses;
            let mut added = addresses[0].clone();
            added.ip = new.to_string().into();
            addresses.push(added);
            sleep(PAUSE);
            let mut turn = || {
                theirs.push(libovsdb.apply(&more));
                libovsdb.apply(&less);
                sleep(PAUSE);
            };
            // The order depends on the round.
            let is_first = round.is_multiple_of(2);
            if is_first {
                turn();
            }
            signals.clear();
            let start = Instant::now();
            writer.applied(applied);
            ours.push(signals.acknowledged() - start);
            writer.applied(back);
            signals.acknowledged();
            sleep(PAUSE);
            if !is_first {
                turn();
            }
        }
        let sets = server.northbound.sets(&dns_name(&name(size)), Family::V4);
        assert_eq!(sets.unwrap()[0].addresses.len(), size, "as before");
        for (quantile, share) in [("p50", 0.5), ("p99", 0.99)] {
            let [ours, theirs] = [&mut ours, &mut theirs].map(|times| times.quantile(share));
            println!("  {size} addresses, {quantile}: {ours:.0} us, libovsdb {theirs:.0} us");
            let what = format!("writer to libovsdb, {quantile}, {size} addresses");
            bench.verdicts.judge(&what, ours / theirs, 1.0);
        }
    }
    writer.stop();
}
