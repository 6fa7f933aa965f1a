//! The collector's forwarder beside dnsdist as a plain forwarder: the time of one query, and queries a second. In each round both are
//! asked, so the ratios do not depend on how busy the machine is. The upstream is another dnsdist, which answers by itself.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench fails loudly and prints its figures"
)]

use std::{
    env, fs,
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use hickory_proto::rr::RecordType;
use tests::{
    coredns::free_port, dns::ask, process::Process, store::Store, wait::eventually,
    workdir::Workdir, world::start_collector,
};

const WILDCARD: &str = "*.up.test.";

/// A name whose address the status has, and one that no rule has.
const NAMES: [&str; 2] = ["known.up.test.", "unwanted.other.test."];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    if Command::new("dnsdist").arg("--version").output().is_err()
        || Command::new("dnsperf").arg("-h").output().is_err()
    {
        println!(
            "hold: skipped, as there is no dnsdist or no dnsperf: apt-get install dnsdist dnsperf"
        );
        return;
    }
    let is_quick = env::args().any(|it| it == "quick");
    let (rounds, queries, seconds) = if is_quick { (3, 500, 1) } else { (9, 4_000, 4) };
    let (workdir, upstream, plain, hold) =
        (Workdir::transient(), free_port(), free_port(), free_port());
    let answers = "addAction(AllRule(), SpoofAction('192.0.2.7', {ttl = 300}))";
    let _upstream = dnsdist(workdir.path(), "upstream", upstream, answers);
    let forwards = format!("newServer('{upstream}')");
    let _plain = dnsdist(workdir.path(), "plain", plain, &forwards);
    let store = Store::new(workdir.join("store"));
    store.allow("team", &[WILDCARD]);
    let flag = format!("--hold-listen=udp+tcp://{hold}?upstream={upstream}");
    let collector = start_collector(&workdir, &store, &[&flag]).await;
    collector
        .counts("egress_collector_hold_listening", &[], 1.0)
        .await;
    for server in [upstream, plain, hold] {
        eventually("an answer", async || {
            let reply = ask(server, NAMES[0], RecordType::A).await;
            reply.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
    println!("hold: medians of {rounds} rounds, beside dnsdist as a plain forwarder");
    println!(
        "{:<22} {:>12} {:>12} {:>7}",
        "", "collector", "dnsdist", "ratio"
    );
    for name in NAMES {
        let (mut p50, mut rate) = ([vec![], vec![]], [vec![], vec![]]);
        for _ in 0..rounds {
            for (place, server) in [hold, plain].into_iter().enumerate() {
                p50[place].push(one_by_one(server, name, queries).as_secs_f64() * 1e6);
                rate[place].push(queries_a_second(workdir.path(), server, name, seconds));
            }
        }
        line(&format!("{name} p50 µs"), p50.map(median));
        line(&format!("{name} q/s"), rate.map(median));
    }
}

fn line(what: &str, [hold, plain]: [f64; 2]) {
    println!(
        "{what:<22} {hold:>12.1} {plain:>12.1} {:>7.2}",
        hold / plain
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn dnsdist(folder: &Path, name: &str, address: SocketAddr, more: &str) -> Process {
    let file = folder.join(format!("{name}.conf"));
    let text = format!("setLocal('{address}')\nsetSecurityPollSuffix('')\n{more}\n");
    fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    let args = ["--supervised", "--disable-syslog", "-C", &file];
    Process::start(folder, name, Path::new("dnsdist"), args, &[])
}

/// The median time of one query.
fn one_by_one(server: SocketAddr, name: &str, queries: usize) -> Duration {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(server).expect("an address");
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a time-out");
    let mut query = b"\0\0\x01\0\0\x01\0\0\0\0\0\0".to_vec();
    for label in name.trim_end_matches('.').split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(b"\0\0\x01\0\x01");
    let mut buffer = [0; 1500];
    let times = (0..queries).map(|number| {
        query[..2].copy_from_slice(&(number as u16).to_be_bytes());
        let began = Instant::now();
        socket.send(&query).expect("a query");
        socket.recv(&mut buffer).expect("a reply");
        assert_eq!(buffer[..2], query[..2]);
        began.elapsed()
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// By dnsperf, with 100 queries in flight.
fn queries_a_second(folder: &Path, server: SocketAddr, name: &str, seconds: u32) -> f64 {
    let file = folder.join("queries");
    fs::write(&file, format!("{name} A\n")).expect("a file");
    let mut dnsperf = Command::new("dnsperf");
    dnsperf.args(["-s", "127.0.0.1", "-p", &server.port().to_string()]);
    dnsperf.args(["-l", &seconds.to_string(), "-c", "8", "-q", "100", "-d"]);
    let output = dnsperf.arg(file).output().expect("dnsperf");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |what: &str| {
        let rest = text.split_once(what).expect("a figure").1;
        let word = rest.split_whitespace().next().expect("a figure");
        word.parse::<f64>().expect("a number")
    };
    assert_eq!(value("Queries lost:"), 0.0, "{text}");
    value("Queries per second:")
}
