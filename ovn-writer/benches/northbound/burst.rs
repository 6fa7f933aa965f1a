//! Many new addresses of many sets at once.

use std::{net::IpAddr, ops::Range, time::Instant};

use tests::times::Times;

use crate::{
    Bench,
    objects::{object, v4},
    peer::Peer,
    raw::{Raw, mutate},
    writer::{RunningWriter, Server},
};

const SETS: usize = 10_000;
/// Addresses per set, before and new.
const EACH: usize = 10;
/// Rows per transaction, as in the writer and in the program with libovsdb.
const BATCH: usize = 1_000;
const ROUNDS: usize = 7;

pub(crate) fn run(bench: &mut Bench) {
    let rounds = bench.rounds(ROUNDS);
    let signals = &bench.signals;
    println!(
        "burst: {} new addresses over {SETS} sets, {rounds} times",
        SETS * EACH
    );
    let server = Server::start();
    let objects =
        |each| (0..SETS).map(move |set| object(&format!("set{set}"), addresses(set, 0..each)));
    let (writer, ..) = RunningWriter::start(&server.remote(), objects(EACH).collect(), signals);
    let mut raw = Raw::connect(&server.remote());
    let rows: Vec<_> = (0..SETS).map(|set| addresses(set, 0..EACH)).collect();
    let uuids = raw.make_rows("raw", &rows);
    let prepared = |mutator| {
        let operations: Vec<_> = uuids
            .iter()
            .enumerate()
            .map(|(set, uuid)| mutate(uuid, mutator, &addresses(set, EACH..2 * EACH)))
            .collect();
        operations
            .chunks(BATCH)
            .map(|batch| Raw::prepare(batch.to_vec()))
            .collect::<Vec<_>>()
    };
    let (insert, delete) = (prepared("insert"), prepared("delete"));
    let mut libovsdb = Peer::libovsdb(&server.remote());
    let events = |each| {
        let event = |set| Peer::event(&format!("libovsdb{set}"), addresses(set, 0..each));
        Peer::prepare((0..SETS).map(event))
    };
    let (more, less) = (events(2 * EACH), events(EACH));
    libovsdb.apply(&less);
    let (mut raw_times, mut libovsdb_times) = (Times::default(), Times::default());
    let mut our_times = Times::default();
    let mut transactions = 0;
    for _ in 0..rounds {
        raw_times.push(raw.pipeline(&insert));
        raw.pipeline(&delete);
        libovsdb_times.push(libovsdb.apply(&more));
        libovsdb.apply(&less);
        let [grown, back] = [2 * EACH, EACH].map(|each| objects(each).collect::<Vec<_>>());
        let before = signals.transactions();
        signals.clear();
        let start = Instant::now();
        for object in grown {
            writer.applied(object);
        }
        our_times.push(signals.acknowledged(SETS) - start);
        transactions = signals.transactions() - before;
        for object in back {
            writer.applied(object);
        }
        signals.acknowledged(SETS);
    }
    writer.stop();
    let line = |way: &str, times: &mut Times, transactions: u64| {
        let median = times.median();
        let rate = (SETS * EACH) as f64 / median;
        println!(
            "{way:<28}{:>10.1} ms{rate:>10.2} M addresses/s in {transactions} transactions",
            median / 1e3
        );
    };
    line("raw socket, pipelined", &mut raw_times, insert.len() as u64);
    line("libovsdb", &mut libovsdb_times, insert.len() as u64);
    line("writer", &mut our_times, transactions);
    let ratio = our_times.median() / libovsdb_times.median();
    let what = "writer's time to libovsdb's";
    bench.verdicts.judge(what, ratio, 1.0);
}

fn addresses(set: usize, numbers: Range<usize>) -> Vec<IpAddr> {
    numbers.map(|n| v4(set * 2 * EACH + n)).collect()
}
