//! Look-ups against a server in the same process, which answers at once: the number of names that a
//! core can keep fresh.
//!
//! The look-ups run on one thread, the server on another. The rate by processor time is that of a
//! dedicated core. The rate by the clock shares the machine with the server.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout)]

mod server;

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use collector::{
    lookup::{self, Config, Server, Servers},
    matching::query_origin::OwnQueries,
};
use names::Request;
use proto::api::DnsName;
use runtime::clock::Clock;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

const LOOK_UPS: usize = 20_000;
const NAMES: usize = 10_000;

/// Requests without a result. Of more than 8,192 that wait, the oldest would fail without a query.
const UNDER_WAY: usize = 1_024;

/// The processor time of this thread (proc_pid_schedstat(5)).
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

async fn run(servers: Vec<Server>, known: usize) {
    let (request_sender, requests) = mpsc::channel(1024);
    let (result_sender, mut results) = mpsc::channel(1024);
    let (_servers, servers) = watch::channel(Servers::from(servers));
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(lookup::run(
        Config::default(),
        servers,
        requests,
        result_sender,
        Clock::system(),
        OwnQueries::default(),
        shutdown.clone(),
    ));
    let names: Vec<_> = (0..NAMES)
        .map(|i| DnsName::parse(&format!("host{i}.team{}.example.com", i % 100)).unwrap())
        .collect();
    let under_way = Arc::new(Semaphore::new(UNDER_WAY));
    let room = Arc::clone(&under_way);
    tokio::spawn(async move {
        for name in names.iter().cycle().take(LOOK_UPS) {
            room.acquire().await.unwrap().forget();
            let name = name.clone();
            let due = Clock::system().now();
            let request = Request {
                name,
                known,
                over_tcp: false,
                due,
                is_patient: true,
            };
            request_sender.send(request).await.unwrap();
        }
        // Kept until then: without requests the task would end.
        request_sender.closed().await;
    });
    let (start, busy) = (Instant::now(), processor_time());
    let mut longest = Duration::ZERO;
    for _ in 0..LOOK_UPS {
        let result = results.recv().await.unwrap();
        under_way.add_permits(1);
        assert_eq!(result.observations().count(), 2, "{result:?}");
        longest = longest.max(result.duration());
    }
    let (wall, busy) = (start.elapsed(), processor_time() - busy);
    println!(
        "{:<34}{:>14.0}{:>22.0}{:>12.0}",
        if known < 2 {
            "one server a name"
        } else {
            "five servers a name"
        },
        LOOK_UPS as f64 / wall.as_secs_f64(),
        LOOK_UPS as f64 / busy.as_secs_f64(),
        longest.as_secs_f64() * 1e3,
    );
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

fn main() {
    let servers: Vec<_> = (0..5)
        .map(|_| Server::udp(server::start(30, || {}).unwrap()))
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("resolve: {LOOK_UPS} look-ups, A and AAAA each");
    println!(
        "{:<34}{:>14}{:>22}{:>12}",
        "", "look-ups/s", "by processor time", "longest/ms"
    );
    runtime.block_on(run(servers[..1].to_vec(), 1));
    runtime.block_on(run(servers, 2));
    println!("(10,000 names with a TTL of 30 s are 333 look-ups/s)");
}
