//! One new address of a set, from the store's event, as the writer takes it, to the acknowledged transaction.

use std::{
    net::IpAddr,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use proto::api::{DnsNameResolver, Family};

use crate::{
    Bench,
    figures::{Limit, Times, Verdicts},
    objects::{dns_name, object, v4},
    raw::{Raw, mutate, whole_column},
    signals::Signals,
    writer::{RunningWriter, Server},
};

const SIZES: [usize; 3] = [10, 1_000, 10_000];
const ROUNDS: usize = 1_000;
/// How many rounds there are for one of the slower ways.
const SELDOM: usize = 40;

/// Nothing of one change is left to do when the next is measured.
const PAUSE: Duration = Duration::from_micros(500);

#[derive(Default)]
struct Ways {
    blind: Times,
    raw: Times,
    ours: Times,
    column: Times,
    nbctl: Times,
}

pub(crate) fn run(bench: &mut Bench) {
    let rounds = bench.rounds(ROUNDS);
    let signals = &bench.signals;
    println!("latency: one new address of a set, {rounds} times");
    println!(
        "{:>9}  {:<28}{:>12}{:>12}",
        "addresses", "way", "median/us", "p99/us"
    );
    let server = Server::start();
    let store = SIZES
        .map(|size| object(&name(size), (0..size).map(v4)))
        .to_vec();
    let (writer, ..) = RunningWriter::start(&server.remote(), store, signals);
    for size in SIZES {
        measure(&server, &writer, signals, (size, rounds)).judge(size, &mut bench.verdicts);
    }
    writer.stop();
}

fn name(size: usize) -> String {
    format!("set{size}")
}

fn measure(
    server: &Server,
    writer: &RunningWriter,
    signals: &Signals,
    (size, rounds): (usize, usize),
) -> Ways {
    let mut blind = Raw::connect(&server.remote());
    let mut raw = Raw::connect(&server.remote()).monitor();
    let base: Vec<IpAddr> = (0..size).map(v4).collect();
    let uuid = raw
        .make_rows(&format!("raw{size}_"), std::slice::from_ref(&base))
        .remove(0);
    let plain = object(&name(size), base.iter().copied());
    let mut ways = Ways::default();
    for round in 0..rounds {
        let new = v4(size + round);
        let [insert, delete] =
            ["insert", "delete"].map(|mutator| Raw::prepare([mutate(&uuid, mutator, &[new])]));
        let mut applied = plain.clone();
        add(&mut applied, new);
        // Made here, so that no copies of thousands of addresses go through the caches before the writer is measured alone.
        let mut changes = Some((applied, plain.clone()));
        sleep(PAUSE);
        // Each of them comes first as often as the others.
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => {
                    ways.raw.push(raw.transact(&insert));
                    raw.transact(&delete);
                }
                1 => {
                    ways.blind.push(blind.transact(&insert));
                    blind.transact(&delete);
                }
                _ => {
                    let changes = changes.take().expect("one turn a round");
                    continue_with(writer, signals, &mut ways.ours, changes);
                }
            }
            sleep(PAUSE);
        }
        if round % SELDOM == 0 {
            let grown = [&base[..], &[new]].concat();
            // Whoever sends whole columns has to write them out each time.
            let start = Instant::now();
            let grown = whole_column(&uuid, &grown);
            let written = start.elapsed();
            ways.column.push(written + raw.transact(&grown));
            raw.transact(&whole_column(&uuid, &base));
            ways.nbctl.push(nbctl(server, &uuid, new));
            raw.transact(&delete);
        }
    }
    let ours = server
        .northbound
        .sets(&dns_name(&name(size)), Family::V4)
        .unwrap();
    assert_eq!(
        ours[0].addresses.len(),
        size,
        "the set is what it was before"
    );
    ways
}

fn continue_with(
    writer: &RunningWriter,
    signals: &Signals,
    times: &mut Times,
    (applied, back): (DnsNameResolver, DnsNameResolver),
) {
    signals.clear();
    writer.applied(applied);
    times.push(signals.latency());
    writer.applied(back);
    signals.acknowledged(1);
}

fn add(object: &mut DnsNameResolver, address: IpAddr) {
    let addresses = &mut object.status.as_mut().unwrap().resolved_names[0].resolved_addresses;
    let mut new = addresses[0].clone();
    new.ip = address.to_string().into();
    addresses.push(new);
}

fn nbctl(server: &Server, uuid: &str, address: IpAddr) -> Duration {
    let quoted = format!("\"{address}\"");
    let start = Instant::now();
    let status = Command::new("ovn-nbctl")
        .args(["--no-leader-only", &format!("--db={}", server.remote())])
        .args(["add", "Address_Set", uuid, "addresses", &quoted])
        .status()
        .unwrap();
    assert!(status.success());
    start.elapsed()
}

impl Ways {
    fn judge(&mut self, size: usize, verdicts: &mut Verdicts) {
        let Self {
            blind,
            raw,
            ours,
            column,
            nbctl,
        } = self;
        let line = |way: &str, times: &mut Times| {
            let (median, p99) = (times.median(), times.quantile(0.99));
            println!("{size:>9}  {way:<28}{median:>12.0}{p99:>12.0}");
        };
        line("raw socket, blind", blind);
        line("raw socket", raw);
        line("writer", ours);
        line("whole column", column);
        line("ovn-nbctl, a process each", nbctl);
        let median = ours.median();
        let mut judge = |what: &str, ratio, limit| {
            verdicts.judge(&format!("{what}, {size} addresses"), ratio, limit)
        };
        let to_raw = median / raw.median();
        judge(
            "writer to raw socket at the median",
            to_raw,
            Limit::AtMost(1.5),
        );
        let p99 = ours.quantile(0.99) / raw.quantile(0.99);
        judge("writer to raw socket at p99", p99, Limit::AtMost(2.0));
        let faster = match size {
            1_000 => Some(4.0),
            10_000 => Some(15.0),
            _ => None,
        };
        if let Some(faster) = faster {
            let ratio = column.median() / median;
            judge("whole column to writer", ratio, Limit::AtLeast(faster));
            // No client that monitors its rows can do better.
            let to_raw = column.median() / raw.median();
            println!("  whole column to raw socket, {size} addresses: {to_raw:.1}");
        }
        println!(
            "  ovn-nbctl to writer, {size} addresses: {:.1}",
            nbctl.median() / median
        );
    }
}
