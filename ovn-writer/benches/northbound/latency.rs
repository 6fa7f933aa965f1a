//! One new address of a set: the time from the object's event on the watch to the acknowledged transaction.

use std::{
    fmt::Display,
    net::IpAddr,
    thread::sleep,
    time::{Duration, Instant},
};

use proto::api::{DnsNameResolver, Family};
use tests::{cpu_time, process, times::Times};

use crate::{
    Bench,
    figures::{Changes, Verdicts},
    nbctl::NbctlDaemon,
    objects::{dns_name, object, v4},
    peer::Peer,
    raw::{Raw, mutate, whole_column},
    signals::Signals,
    writer::{RunningWriter, Server},
};

const SIZES: [usize; 3] = [10, LARGE, 10_000];
/// The size whose CPU time is compared.
const LARGE: usize = 1_000;
const ROUNDS: usize = 1_000;
/// One in so many rounds has the slower clients.
const SELDOM: usize = 10;

/// A pause, so that a change is finished before the next is measured, and its CPU time is counted.
pub(crate) const PAUSE: Duration = Duration::from_micros(500);

/// The times of the same change by each client.
#[derive(Default)]
pub(crate) struct Turns {
    raw: Times,
    libovsdb: Changes,
    ours: Changes,
    nbctl: Changes,
    ovs_idl: Changes,
    /// Of a raw socket that replaces the column, as ovn-kubernetes does.
    column: Times,
}

pub(crate) fn run(bench: &mut Bench) {
    let rounds = bench.rounds(ROUNDS);
    let signals = &bench.signals;
    println!("latency: one new address of a set, {rounds} times");
    heading("addresses");
    let server = Server::start();
    let store = SIZES
        .map(|size| object(&name(size), (0..size).map(v4)))
        .to_vec();
    let (writer, ..) = RunningWriter::start(&server.remote(), store, signals);
    for size in SIZES {
        let mut clients = Clients::new(&server, &writer, signals, size);
        let mut turns = Turns::default();
        for round in 0..rounds {
            clients.take_turns(round, &mut turns);
        }
        let name = dns_name(&name(size));
        let sets = server.northbound.sets(&name, Family::V4).unwrap();
        assert_eq!(sets[0].addresses.len(), size, "it is what it was before");
        turns.judge(size, &format!("{size} addresses"), &mut bench.verdicts);
        bench.comparison.add_times(&words(size), turns.compared());
        if size == LARGE {
            bench.comparison.add_cpu(&words(size), turns.compared());
        }
    }
    writer.stop();
}

pub(crate) fn name(size: usize) -> String {
    format!("set{size}")
}

/// The clients that change sets of the same size on the same server.
pub(crate) struct Clients<'a> {
    raw: Raw,
    libovsdb: Peer,
    ovs_idl: Option<Peer>,
    nbctl: NbctlDaemon,
    writer: &'a RunningWriter,
    signals: &'a Signals,
    /// The content of the sets between two turns.
    base: Vec<IpAddr>,
    /// The row of the raw socket and of `ovn-nbctl`.
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
        let mut libovsdb = Peer::libovsdb(&server.remote());
        let made = Peer::event(&of_libovsdb(size), base.iter().copied());
        libovsdb.apply(&Peer::prepare([made]));
        let mut ovs_idl = Peer::ovs_idl(&server.remote());
        if let Some(peer) = &mut ovs_idl {
            let made = Peer::event(&of_ovs_idl(size), base.iter().copied());
            peer.apply(&Peer::prepare([made]));
        }
        let nbctl = NbctlDaemon::start(server);
        // The daemon reads the database at its first command.
        nbctl.add(&uuid, v4(size));
        raw.transact(&Raw::prepare([mutate(&uuid, "delete", &[v4(size)])]));
        Self {
            raw,
            libovsdb,
            ovs_idl,
            nbctl,
            writer,
            signals,
            plain: object(&name(size), base.iter().copied()),
            base,
            uuid,
        }
    }

    /// The memory of the clients in bytes, without the writer's.
    pub(crate) fn memory(&self) -> [Option<u64>; 3] {
        let idl = self.ovs_idl.as_ref().map(Peer::pid);
        [Some(self.libovsdb.pid()), Some(self.nbctl.pid), idl]
            .map(|pid| pid.map(|pid| process::memory(pid)[0]))
    }

    /// Each client adds an address and removes it again; the order of the clients depends on the round.
    pub(crate) fn take_turns(&mut self, round: usize, turns: &mut Turns) {
        let new = v4(self.base.len() + round);
        let grown = [&self.base[..], &[new]].concat();
        // Made here, so that copies of thousands of addresses do not fill the caches before the measurement.
        let [insert, delete] =
            ["insert", "delete"].map(|mutator| Raw::prepare([mutate(&self.uuid, mutator, &[new])]));
        let set = of_libovsdb(self.base.len());
        let [more, less] = [&grown, &self.base]
            .map(|addresses| Peer::prepare([Peer::event(&set, addresses.iter().copied())]));
        let mut applied = self.plain.clone();
        add(&mut applied, new);
        let mut changes = Some((applied, self.plain.clone()));
        sleep(PAUSE);
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => {
                    let pid = self.libovsdb.pid();
                    let time = |peer: &mut Peer| {
                        let time = peer.apply(&more);
                        peer.apply(&less);
                        time
                    };
                    let cpu = || cpu_time::of_threads(pid);
                    turns.libovsdb.measure(2, cpu, || time(&mut self.libovsdb));
                }
                1 => {
                    turns.raw.push(self.raw.transact(&insert));
                    self.raw.transact(&delete);
                }
                _ => {
                    let (applied, back) = changes.take().expect("one turn a round");
                    self.signals.clear();
                    let time = || {
                        let start = Instant::now();
                        self.writer.applied(applied);
                        let time = self.signals.acknowledged(1) - start;
                        self.writer.applied(back);
                        self.signals.acknowledged(1);
                        time
                    };
                    let cpu = || self.writer.cpu_time();
                    turns.ours.measure(2, cpu, time);
                }
            }
            sleep(PAUSE);
        }
        if round.is_multiple_of(SELDOM) {
            let nbctl = &self.nbctl;
            let cpu = || nbctl.cpu_time();
            turns.nbctl.measure(1, cpu, || nbctl.add(&self.uuid, new));
            self.raw.transact(&delete);
            if let Some(peer) = &mut self.ovs_idl {
                let set = of_ovs_idl(self.base.len());
                let [more, less] = [&grown, &self.base]
                    .map(|addresses| Peer::prepare([Peer::event(&set, addresses.iter().copied())]));
                let pid = peer.pid();
                let cpu = || cpu_time::of_threads(pid);
                let time = || {
                    let time = peer.apply(&more);
                    peer.apply(&less);
                    time
                };
                turns.ovs_idl.measure(2, cpu, time);
            }
            // A client that sends whole columns has to encode them each time.
            let start = Instant::now();
            let grown = whole_column(&self.uuid, &grown);
            let written = start.elapsed();
            turns.column.push(written + self.raw.transact(&grown));
            self.raw.transact(&whole_column(&self.uuid, &self.base));
        }
    }
}

/// The set that libovsdb changes.
fn of_libovsdb(size: usize) -> String {
    format!("libovsdb{size}")
}

/// The set that the IDL changes.
fn of_ovs_idl(size: usize) -> String {
    format!("ovs{size}")
}

fn words(size: usize) -> String {
    match size {
        ..1_000 => size.to_string(),
        _ => format!("{},{:03}", size / 1_000, size % 1_000),
    }
}

fn add(object: &mut DnsNameResolver, address: IpAddr) {
    let addresses = &mut object.status.as_mut().unwrap().resolved_names[0].resolved_addresses;
    let mut new = addresses[0].clone();
    new.ip = address.to_string().into();
    addresses.push(new);
}

/// Prints the heading of the lines of [`Turns::judge`].
pub(crate) fn heading(of_lines: &str) {
    println!(
        "{of_lines:>9}  {:<32}{:>12}{:>12}",
        "way", "median/us", "p99/us"
    );
}

impl Turns {
    /// The clients of [`crate::figures::Comparison`].
    pub(crate) fn compared(&mut self) -> [&mut Changes; 4] {
        [
            &mut self.ours,
            &mut self.libovsdb,
            &mut self.nbctl,
            &mut self.ovs_idl,
        ]
    }

    /// Prints the times, each line after `before`, and judges the writer's.
    pub(crate) fn judge(&mut self, before: impl Display, case: &str, verdicts: &mut Verdicts) {
        for (way, times) in [
            ("raw socket", &mut self.raw),
            ("libovsdb", &mut self.libovsdb.times),
            ("writer", &mut self.ours.times),
            ("ovn-nbctl, in daemon mode", &mut self.nbctl.times),
            ("IDL for Python", &mut self.ovs_idl.times),
            ("raw socket, whole column", &mut self.column),
        ] {
            let (median, p99) = (times.median(), times.quantile(0.99));
            println!("{before:>9}  {way:<32}{median:>12.0}{p99:>12.0}");
        }
        for (other, times) in [
            ("libovsdb", &mut self.libovsdb.times),
            ("ovn-nbctl", &mut self.nbctl.times),
        ] {
            for (quantile, share) in [("p50", 0.5), ("p99", 0.99)] {
                let ratio = self.ours.times.quantile(share) / times.quantile(share);
                let what = format!("writer to {other}, {quantile}, {case}");
                verdicts.judge(&what, ratio, 1.0);
            }
        }
    }
}
