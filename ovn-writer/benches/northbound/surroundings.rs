//! The database of a large cluster: the same changes beside many foreign rules, and the time from the start until the
//! database was read.

use std::{
    fs::File,
    process::Command,
    time::{Duration, Instant},
};

use tests::{surroundings::Surroundings, times::Times};

use crate::{
    Bench,
    latency::{Clients, Turns, name},
    objects::{dns_name, object, v4},
    writer::{RunningWriter, Server},
};

const SURROUNDINGS: Surroundings = Surroundings {
    acls: 100_000,
    match_length: 100,
    port_groups: 10_000,
    networks: 200,
    names_each: 10,
};

const NAMES: usize = 10_000;
const EACH: usize = 10;

const CHANGES: usize = 500;
const SYNCS: usize = 5;

/// The tables that the writer reads.
const TABLES: [&str; 5] = ["Address_Set", "ACL", "QoS", "Logical_Router_Policy", "NAT"];

pub(crate) fn run(bench: &mut Bench) {
    println!(
        "surroundings: {} ACLs, {} port groups and {} networks of others; {NAMES} names of {EACH} addresses",
        SURROUNDINGS.acls, SURROUNDINGS.port_groups, SURROUNDINGS.networks
    );
    let server = Server::start();
    // The changed name is in no rule of the other networks.
    let others = (0..NAMES - 1).map(|n| format!("name{n}"));
    let names: Vec<String> = others.chain([name(EACH)]).collect();
    let all: Vec<String> = names.iter().map(|name| dns_name(name)).collect();
    SURROUNDINGS.fill(server.workdir.path(), &all);
    let objects = || {
        let addresses = |n: usize| (n * EACH..(n + 1) * EACH).map(v4);
        let numbered = names.iter().rev().zip(0..);
        numbered
            .map(|(name, n)| object(name, addresses(n)))
            .collect::<Vec<_>>()
    };
    let signals = &bench.signals;
    // The first writer creates the rows.
    let (writer, start, end) = RunningWriter::start(&server.remote(), objects(), signals);
    println!("  all sets made after {:.1} s", (end - start).as_secs_f64());
    let mut clients = Clients::new(&server, &writer, signals, EACH);
    let mut turns = Turns::default();
    for round in 0..bench.rounds(CHANGES) {
        clients.take_turns(round, &mut turns);
    }
    let case = format!("{EACH}, 100,000 ACLs");
    turns.judge(&case, &mut bench.verdicts);
    bench.comparison.add_times(&case, turns.compared());
    bench.comparison.add_cpu(&case, turns.compared());
    let others = clients.memory();
    drop(clients);
    writer.stop();
    let addresses: Vec<_> = (0..EACH).map(v4).collect();
    let ours = server.memory_of_program(&dns_name(&name(EACH)), &addresses);
    let [libovsdb, nbctl, ovs_idl] = others;
    let memory = [Some(ours), libovsdb, nbctl, ovs_idl];
    bench.comparison.add_memory(memory);
    let (mut dumps, mut syncs) = (Times::default(), Times::default());
    for _ in 0..bench.rounds(SYNCS) {
        dumps.push(TABLES.iter().map(|table| dump(&server, table)).sum());
        let (writer, start, end) = RunningWriter::start(&server.remote(), objects(), signals);
        syncs.push(end - start);
        writer.stop();
    }
    let [dump, sync] = [&mut dumps, &mut syncs].map(|times| times.median() / 1e3);
    println!("  ovsdb-client dump {dump:.0} ms, writer's first sync {sync:.0} ms");
    bench.verdicts.judge(
        "first sync to ovsdb-client dump of the same tables",
        sync / dump,
        2.0,
    );
}

/// The time that `ovsdb-client` needs to read a table.
fn dump(server: &Server, table: &str) -> Duration {
    let output = File::create(server.workdir.join("dump")).unwrap();
    let start = Instant::now();
    let status = Command::new("ovsdb-client")
        .args(["dump", &server.remote(), "OVN_Northbound", table])
        .stdout(output)
        .status()
        .unwrap();
    assert!(status.success());
    start.elapsed()
}
