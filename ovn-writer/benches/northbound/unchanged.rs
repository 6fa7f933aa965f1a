//! Changes of a status without an effect on the sets.

use std::time::Instant;

use crate::{
    Bench,
    objects::{object, v4},
    writer::{RunningWriter, Server},
};

const ADDRESSES: usize = 100;
const CHANGES: usize = 1_000;

pub(crate) fn run(bench: &mut Bench) {
    let changes = bench.rounds(CHANGES);
    let signals = &bench.signals;
    let server = Server::start();
    let mut object = object("set", (0..ADDRESSES).map(v4));
    let (writer, ..) = RunningWriter::start(&server.remote(), vec![object.clone()], signals);
    let before = signals.transactions();
    signals.clear();
    let start = Instant::now();
    for change in 0..changes {
        let addresses = &mut object.status.as_mut().unwrap().resolved_names[0].resolved_addresses;
        for address in addresses.iter_mut() {
            address.ttl_seconds = i32::try_from(change).unwrap();
        }
        // The last change removes an address, so that there is a signal to wait for.
        if change == changes - 1 {
            addresses.pop();
        }
        writer.applied(object.clone());
    }
    let took = signals.acknowledged(1) - start;
    writer.stop();
    let made = signals.transactions() - before - 1;
    println!(
        "unchanged: {} changes of nothing but times, {:.1} us each",
        changes - 1,
        took.as_secs_f64() * 1e6 / changes as f64
    );
    let what = "transactions for nothing but times";
    bench.verdicts.judge(what, made as f64, 0.0);
}
