//! Look-ups against a server in the same process, which answers at once: how many names a core can keep fresh.
//!
//! The look-ups run on one thread, the server on another. The rate by the thread's processor time tells what a core of its
//! own would do; the rate by the clock shares the machine with the server.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout)]

use std::{
    fs,
    net::UdpSocket,
    sync::Arc,
    time::{Duration, Instant},
};

use collector::{
    guards::Guards,
    resolve::{self, Config, Inputs, OwnQueries, Request, Server, Servers},
};
use proto::api::DnsName;
use runtime::clock::Clock;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 20_000;
const NAMES: usize = 10_000;

/// One record with the question's name: type, class, a TTL of 30 s, and the address.
fn answer(query: &[u8], question_end: usize) -> Vec<u8> {
    let is_v6 = query[question_end - 3] == 28;
    let mut reply = query[..question_end].to_vec();
    // QR, RD and RA; one question and one answer.
    reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    let address: &[u8] = if is_v6 {
        &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    } else {
        &[192, 0, 2, 1]
    };
    let qtype = query[question_end - 3];
    reply.extend([
        0xc0,
        12,
        0,
        qtype,
        0,
        1,
        0,
        0,
        0,
        30,
        0,
        address.len() as u8,
    ]);
    reply.extend(address);
    reply
}

fn serve(socket: &UdpSocket) {
    let mut query = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut query) {
        let mut end = 12;
        while query[end] != 0 {
            end += usize::from(query[end]) + 1;
        }
        assert!(end + 5 <= length);
        // The asker may have given up.
        let _ = socket.send_to(&answer(&query, end + 5), from);
    }
}

/// The processor time of this thread (proc_pid_schedstat(5)).
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

async fn run(servers: Vec<Server>, known: usize) {
    let (request_sender, requests) = mpsc::channel(1024);
    let (round_sender, mut rounds) = mpsc::channel(1024);
    let (_servers, servers) = watch::channel(Servers::from(servers));
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(resolve::run(
        Config::default(),
        Inputs { servers, requests },
        round_sender,
        Arc::new(Guards::default()),
        Clock::system(),
        OwnQueries::default(),
        shutdown.clone(),
    ));
    let names: Vec<_> = (0..NAMES)
        .map(|i| DnsName::parse(&format!("host{i}.team{}.example.com", i % 100)).unwrap())
        .collect();
    tokio::spawn(async move {
        for name in names.iter().cycle().take(ROUNDS) {
            let name = name.clone();
            request_sender.send(Request { name, known }).await.unwrap();
        }
        // Kept until then: without requests the task would end.
        request_sender.closed().await;
    });
    let (start, busy) = (Instant::now(), processor_time());
    let mut longest = Duration::ZERO;
    for _ in 0..ROUNDS {
        let round = rounds.recv().await.unwrap();
        assert_eq!(round.observations().count(), 2, "{round:?}");
        longest = longest.max(round.duration());
    }
    let (wall, busy) = (start.elapsed(), processor_time() - busy);
    println!(
        "{:<34}{:>14.0}{:>22.0}{:>12.0}",
        if known < 2 {
            "one server a name"
        } else {
            "five servers a name"
        },
        ROUNDS as f64 / wall.as_secs_f64(),
        ROUNDS as f64 / busy.as_secs_f64(),
        longest.as_secs_f64() * 1e3,
    );
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

fn main() {
    let servers: Vec<_> = (0..5)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            std::thread::spawn(move || serve(&socket));
            Server::udp(address)
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("resolve: {ROUNDS} look-ups, A and AAAA each");
    println!(
        "{:<34}{:>14}{:>22}{:>12}",
        "", "look-ups/s", "by processor time", "longest/ms"
    );
    runtime.block_on(run(servers[..1].to_vec(), 1));
    runtime.block_on(run(servers, 2));
    println!("(10,000 names with a TTL of 30 s are 333 look-ups/s)");
}
