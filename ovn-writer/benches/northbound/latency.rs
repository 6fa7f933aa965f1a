//! One new address of a set: the time from the object's event on the watch to the acknowledged transaction.

use std::{
    fmt::Display,
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
/// The number of rounds for a slower client.
const SELDOM: usize = 40;

/// A pause, so that a change is finished before the next is measured.
const PAUSE: Duration = Duration::from_micros(500);

/// The times of one change by each of three clients, which take turns.
#[derive(Default)]
pub(crate) struct Turns {
    pub(crate) raw: Times,
    monitoring: Times,
    pub(crate) ours: Times,
}

#[derive(Default)]
struct Ways {
    turns: Turns,
    column: Times,
    nbctl: Times,
}

pub(crate) fn run(bench: &mut Bench) {
    let rounds = bench.rounds(ROUNDS);
    let signals = &bench.signals;
    println!("latency: one new address of a set, {rounds} times");
    println!(
        "{:>9}  {:<32}{:>12}{:>12}",
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

pub(crate) fn name(size: usize) -> String {
    format!("set{size}")
}

fn measure(
    server: &Server,
    writer: &RunningWriter,
    signals: &Signals,
    (size, rounds): (usize, usize),
) -> Ways {
    let mut ways = Ways::default();
    let mut clients = Clients::new(server, writer, signals, size);
    for round in 0..rounds {
        clients.take_turns(round, &mut ways.turns);
        if round % SELDOM == 0 {
            let new = v4(size + round);
            let (base, uuid) = (&clients.base, &clients.uuid);
            let grown = [&base[..], &[new]].concat();
            // A client that sends whole columns has to encode them each time.
            let start = Instant::now();
            let grown = whole_column(uuid, &grown);
            let written = start.elapsed();
            ways.column.push(written + clients.raw.transact(&grown));
            clients.raw.transact(&whole_column(uuid, base));
            ways.nbctl.push(nbctl(server, uuid, new));
            let delete = Raw::prepare([mutate(uuid, "delete", &[new])]);
            clients.raw.transact(&delete);
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

/// The clients that change sets of the same size on the same server.
pub(crate) struct Clients<'a> {
    raw: Raw,
    monitoring: Raw,
    writer: &'a RunningWriter,
    signals: &'a Signals,
    /// The content of the sets between two turns.
    base: Vec<IpAddr>,
    uuid: String,
    plain: DnsNameResolver,
}

impl<'a> Clients<'a> {
    /// The writer has an object of this [name] and size.
    pub(crate) fn new(
        server: &Server,
        writer: &'a RunningWriter,
        signals: &'a Signals,
        size: usize,
    ) -> Self {
        let mut raw = Raw::connect(&server.remote());
        let base: Vec<IpAddr> = (0..size).map(v4).collect();
        let uuid = raw
            .make_rows(&format!("raw{size}_"), std::slice::from_ref(&base))
            .remove(0);
        Self {
            raw,
            monitoring: Raw::connect(&server.remote()).monitor(),
            writer,
            signals,
            plain: object(&name(size), base.iter().copied()),
            base,
            uuid,
        }
    }

    /// Each client adds an address and removes it again; the order of the clients depends on the round.
    pub(crate) fn take_turns(&mut self, round: usize, turns: &mut Turns) {
        let new = v4(self.base.len() + round);
        let [insert, delete] =
            ["insert", "delete"].map(|mutator| Raw::prepare([mutate(&self.uuid, mutator, &[new])]));
        let mut applied = self.plain.clone();
        add(&mut applied, new);
        // Created here, so that copies of thousands of addresses do not fill the caches before the measurement.
        let mut changes = Some((applied, self.plain.clone()));
        sleep(PAUSE);
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => {
                    turns.monitoring.push(self.monitoring.transact(&insert));
                    self.monitoring.transact(&delete);
                }
                1 => {
                    turns.raw.push(self.raw.transact(&insert));
                    self.raw.transact(&delete);
                }
                _ => {
                    let (applied, back) = changes.take().expect("one turn a round");
                    self.signals.clear();
                    let start = Instant::now();
                    self.writer.applied(applied);
                    turns.ours.push(self.signals.acknowledged(1) - start);
                    self.writer.applied(back);
                    self.signals.acknowledged(1);
                }
            }
            sleep(PAUSE);
        }
    }
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

impl Turns {
    /// Prints the times, each line after `before`.
    pub(crate) fn print(&mut self, before: impl Display) {
        line(&before, "raw socket", &mut self.raw);
        line(&before, "raw socket that monitors", &mut self.monitoring);
        line(&before, "writer", &mut self.ours);
    }
}

fn line(before: impl Display, way: &str, times: &mut Times) {
    let (median, p99) = (times.median(), times.quantile(0.99));
    println!("{before:>9}  {way:<32}{median:>12.0}{p99:>12.0}");
}

impl Ways {
    fn judge(&mut self, size: usize, verdicts: &mut Verdicts) {
        self.turns.print(size);
        line(size, "whole column", &mut self.column);
        line(size, "ovn-nbctl, a process each", &mut self.nbctl);
        let Turns {
            raw,
            monitoring,
            ours,
        } = &mut self.turns;
        let mut judge = |what: &str, ratio, limit| {
            verdicts.judge(&format!("{what}, {size} addresses"), ratio, limit)
        };
        let (median, column) = (ours.median(), self.column.median());
        judge(
            "writer to raw socket at the median",
            median / raw.median(),
            Limit::AtMost(1.9),
        );
        let faster = match size {
            1_000 => Some(4.0),
            10_000 => Some(15.0),
            _ => None,
        };
        if let Some(faster) = faster {
            judge(
                "whole column to writer",
                column / median,
                Limit::AtLeast(faster),
            );
            // The lower bound for a client that monitors its rows.
            println!(
                "  whole column to raw socket that monitors, {size} addresses: {:.1}",
                column / monitoring.median()
            );
        }
        println!(
            "  writer to raw socket at p99, {size} addresses: {:.2}; to one that monitors, at the median: {:.2}",
            ours.quantile(0.99) / raw.quantile(0.99),
            median / monitoring.median()
        );
        println!(
            "  ovn-nbctl to writer, {size} addresses: {:.1}",
            self.nbctl.median() / median
        );
    }
}
