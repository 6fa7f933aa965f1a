//! A large cluster on a real API server, with 1, 4 and 20 zones. Measures the resources of each program, and the
//! latency of an address from the answer to the row.
//!
//! A zone is an ovn-writer with its northbound database. Everything runs on this machine, so the growth of each figure
//! with the zones matters, and not its size. The senders stand for CoreDNS pods and hold nothing back. Most of the
//! other events are for names that no rule wants. `quick` makes it small.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench fails loudly and prints its figures"
)]

mod cluster;
mod processes;
mod senders;

use std::time::Duration;

use tests::{kube::is_built, monitor::Monitor, wait::eventually};
use tokio::time::{Instant, sleep};

use self::{
    cluster::{Cluster, changed_address, name},
    processes::Processes,
    senders::Senders,
};

#[derive(Clone, Copy, Debug)]
struct Size {
    names: usize,
    connections: usize,
    /// Events a second, of all connections.
    events: usize,
    zones: &'static [usize],
    /// The duration of the measurement.
    time: Duration,
}

const LARGE: Size = Size {
    names: 10_000,
    connections: 100,
    events: 20_000,
    zones: &[1, 4, 20],
    time: Duration::from_secs(20),
};

const SMALL: Size = Size {
    names: 500,
    connections: 20,
    events: 2_000,
    zones: &[1, 2],
    time: Duration::from_secs(5),
};

/// Addresses of a name.
const EACH: usize = 10;

/// The interval between two changes.
const CHANGE: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    if !is_built() {
        println!("scale: skipped, as there is no kube-apiserver: run scripts/setup");
        return;
    }
    let quick = std::env::args().any(|arg| arg == "quick");
    let size = if quick { SMALL } else { LARGE };
    println!(
        "scale: {} names of {EACH} addresses, {} connections, {} events/s, one new address every {CHANGE:?}",
        size.names, size.connections, size.events
    );
    let start = Instant::now();
    let mut cluster = Cluster::start(size.names).await;
    println!(
        "rules to statuses of all names: {:.1} s",
        start.elapsed().as_secs_f64()
    );
    let senders = Senders::start(cluster.listener, size).await;
    println!(
        "{:>5}  {:<16}{:>8}{:>9}{:>12}{:>12}   delay to the last zone's row: p50, p99, max",
        "zones", "program", "CPU %", "MB", "writes/s", "watch kB/s"
    );
    for &zones in size.zones {
        let since = Instant::now();
        while cluster.zones.len() < zones {
            cluster.add_zone().await;
        }
        cluster.in_sync(size.names).await;
        let synced = since.elapsed();
        let last = Monitor::start(cluster.zones[zones - 1].folder.path()).await;
        // Existing rows already take a while to be read.
        eventually("the monitor has read what is there", async || {
            let is_read = !last.updates().is_empty();
            is_read.then_some(()).ok_or_else(|| "it has not".to_owned())
        })
        .await;
        let (before, began) = (Processes::now(), Instant::now());
        let (writes, watched) = cluster.written_and_watched().await;
        let mut sent = Vec::new();
        for change in 0.. {
            let due = CHANGE * change;
            if due >= size.time {
                break;
            }
            sleep(due.saturating_sub(began.elapsed())).await;
            let number = change as usize * 7919 % size.names;
            sent.push((
                number,
                cluster.change(&senders, number).await,
                Instant::now(),
            ));
        }
        let took = began.elapsed().as_secs_f64();
        let (writes_after, watched_after) = cluster.written_and_watched().await;
        let used = before.until(&Processes::now());
        let mut delays = Vec::new();
        for (number, version, at) in sent {
            let address = changed_address(version).to_string();
            let family = proto::api::Family::V4;
            let seen = last.seen(&name(number), family, &address).await;
            delays.push(seen.saturating_duration_since(at));
        }
        delays.sort_unstable();
        let ms = |share: usize| {
            let at = (delays.len() * share / 100).min(delays.len() - 1);
            delays[at].as_secs_f64() * 1e3
        };
        for (program, of) in &used {
            println!(
                "{zones:>5}  {program:<16}{:>8.1}{:>9.0}",
                of.cpu.as_secs_f64() / took * 100.0,
                of.memory as f64 / 1e6
            );
        }
        println!(
            "{zones:>5}  {:<16}{:>8}{:>9}{:>12.1}{:>12.1}   {:.1} ms, {:.1} ms, {:.1} ms; the new zones in sync after {:.1} s",
            "all of it",
            "",
            "",
            (writes_after - writes) / took,
            (watched_after - watched) / took / 1e3,
            ms(50),
            ms(99),
            ms(100),
            synced.as_secs_f64()
        );
    }
    senders.end().await;
}
