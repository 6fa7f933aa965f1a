//! One new address of a set: the time from the object's event on the watch to the acknowledged transaction.

use std::{
    net::IpAddr,
    thread::sleep,
    time::{Duration, Instant},
};

use proto::api::{DnsNameResolver, Family};
use serde_json::{Value, json};
use tests::{cpu_time, ovsdb, process};

use crate::{
    Bench,
    figures::{Changes, Verdicts},
    nbctl::NbctlDaemon,
    objects::{dns_name, object, v4},
    peer::Peer,
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
    libovsdb: Changes,
    ours: Changes,
    nbctl: Changes,
    ovs_idl: Changes,
}

pub(crate) fn run(bench: &mut Bench) {
    let rounds = bench.rounds(ROUNDS);
    let signals = &bench.signals;
    println!("latency: one new address of a set, {rounds} times");
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
        turns.judge(&format!("{size} addresses"), &mut bench.verdicts);
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
    database: ovsdb::Client,
    libovsdb: Peer,
    ovs_idl: Option<Peer>,
    nbctl: NbctlDaemon,
    writer: &'a RunningWriter,
    signals: &'a Signals,
    /// The content of the sets between two turns.
    base: Vec<IpAddr>,
    /// The row of `ovn-nbctl`.
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
        let folder = server.workdir.path();
        let mut database = ovsdb::Client::connect(folder).unwrap();
        let base: Vec<IpAddr> = (0..size).map(v4).collect();
        // The writer does not monitor rows of this owner.
        let row = json!({
            "op": "insert", "table": "Address_Set", "row": {
                "name": format!("nbctl{size}"),
                "addresses": ["set", base],
                "external_ids": ["map", [["k8s.ovn.org/owner-type", "Bench"]]],
            },
        });
        let made = database.transact(vec![row]).unwrap();
        let uuid = made[0]["uuid"][1].as_str().unwrap().to_owned();
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
        database.transact(vec![without(&uuid, v4(size))]).unwrap();
        Self {
            database,
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
        let set = of_libovsdb(self.base.len());
        let [more, less] = [&grown, &self.base]
            .map(|addresses| Peer::prepare([Peer::event(&set, addresses.iter().copied())]));
        let mut applied = self.plain.clone();
        add(&mut applied, new);
        let mut changes = Some((applied, self.plain.clone()));
        sleep(PAUSE);
        for turn in 0..2 {
            match (round + turn) % 2 {
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
                _ => {
                    let (applied, back) = changes.take().expect("one turn a round");
                    self.signals.clear();
                    let time = || {
                        let start = Instant::now();
                        self.writer.applied(applied);
                        let time = self.signals.acknowledged() - start;
                        self.writer.applied(back);
                        self.signals.acknowledged();
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
            let back = without(&self.uuid, new);
            self.database.transact(vec![back]).unwrap();
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
        }
    }
}

/// Removes an address from a row.
fn without(uuid: &str, address: IpAddr) -> Value {
    json!({
        "op": "mutate", "table": "Address_Set", "where": [["_uuid", "==", ["uuid", uuid]]],
        "mutations": [["addresses", "delete", ["set", [address]]]],
    })
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

    /// Judges the writer's times.
    pub(crate) fn judge(&mut self, case: &str, verdicts: &mut Verdicts) {
        for (quantile, share) in [("p50", 0.5), ("p99", 0.99)] {
            let ratio = self.ours.times.quantile(share) / self.libovsdb.times.quantile(share);
            let what = format!("writer to libovsdb, {quantile}, {case}");
            verdicts.judge(&what, ratio, 1.0);
        }
    }
}
