//! The delay from an answer to the client until its observation, with a stock CoreDNS. Flush probes
//! are off, every 100 ms and every 10 ms, at several rates of queries. Also the cost of probing
//! many CoreDNS servers.
//!
//! Client, CoreDNS and collector share the machine. `cargo bench --bench flush_latency` takes three
//! minutes; `-- quick` one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::expect_used
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{SocketAddr, UdpSocket},
    num::NonZeroU32,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use collector::{
    flush::{
        Streams, Template,
        plan::{Config, Plan},
        probe::ProbeMark,
        streams::{Flow, Opened, SeenProbe},
        task::{self, Inputs},
    },
    observe::{
        ConnectionTable, Ingest, Listener, MaxConnections,
        answer_cache::AnswerCache,
        names::{NameIndex, SharedIndex},
        queue,
    },
    query_origin::OwnQueries,
    rules::{BySource, Wanted},
};
use hickory_net::proto::{
    op::{Message, MessageType, OpCode, Query},
    rr::{Name, RecordType},
};
use proto::api::DnsName;
use runtime::clock::Clock;
use tests::{
    coredns::{CoreDns, free_port},
    workdir::Workdir,
};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// The limit of the 99th percentile with a probe every 10 ms.
const LIMIT: Duration = Duration::from_millis(15);

const CLIENT: &str = "client";

const COREFILE: &str = r#"
.:{$DNS_PORT} {
    bind 127.0.0.1
    dnstap unix://{$DNSTAP_SOCKET} full
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    template IN A example.com {
        answer "{{ .Name }} 300 IN A 192.0.2.10"
    }
}
"#;

struct Measured {
    delays: Vec<Duration>,
    asked: usize,
    coredns: Duration,
    collector: Duration,
    took: Duration,
}

fn name(i: usize) -> String {
    format!("n{i}.example.com.")
}

/// Queries one name after the other at this rate, and returns the times of the answers. Their
/// addresses count up from 127.0.0.1.
fn ask(server: SocketAddr, rate: usize, count: usize) -> Vec<(usize, Instant)> {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    socket.connect(server).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let receiver = Arc::clone(&socket);
    let answers = thread::Builder::new()
        .name(CLIENT.to_owned())
        .spawn(move || {
            let (mut buffer, mut answers) = (vec![0; 4096], Vec::new());
            while answers.len() < count {
                let Ok(length) = receiver.recv(&mut buffer) else {
                    break;
                };
                let at = Instant::now();
                // The name is the question's first label.
                let label = &buffer[13..13 + usize::from(buffer[12])];
                assert!(length > label.len());
                let number = std::str::from_utf8(&label[1..]).unwrap();
                answers.push((number.parse().unwrap(), at));
            }
            answers
        })
        .unwrap();
    let start = Instant::now();
    for i in 0..count {
        let mut query = Message::new((i & 0xffff) as u16, MessageType::Query, OpCode::Query);
        query.add_query(Query::query(
            Name::from_ascii(name(i)).unwrap(),
            RecordType::A,
        ));
        let query = query.to_vec().unwrap();
        let due = start + Duration::from_secs_f64(i as f64 / rate as f64);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        socket.send(&query).unwrap();
    }
    answers.join().unwrap()
}

/// The processor time of all threads except the client's (proc_pid_schedstat(5)).
fn of_collector() -> Duration {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let threads = threads.map(|thread| thread.unwrap().path());
    let time = |path: &std::path::PathBuf| {
        let comm = fs::read_to_string(path.join("comm")).ok()?;
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        let nanoseconds = text.split(' ').next()?.parse().ok()?;
        (comm.trim() != CLIENT).then(|| Duration::from_nanos(nanoseconds))
    };
    threads.filter_map(|path| time(&path)).sum()
}

/// The processor time of all threads of a process.
fn of_process(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let time = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        let nanoseconds = text.split(' ').next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    };
    threads
        .filter_map(|thread| time(thread.unwrap().path()))
        .sum()
}

async fn measure(interval: Duration, rate: usize, lasts: Duration) -> Measured {
    let workdir = Workdir::transient();
    let token = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let wanted = DnsName::parse("*.example.com").unwrap();
    let index = SharedIndex::default();
    index.store(Arc::new([&wanted].into_iter().collect::<NameIndex>()));
    let (sender, mut observed) = queue::channel(64 << 20);
    let own = OwnQueries::default();
    let server = free_port();
    let names: Arc<[Template]> =
        [Template::new(&DnsName::parse("flush.cluster.local").unwrap()).unwrap()].into();
    let (probed, told) = Streams::new(Arc::clone(&names));
    let limits = MaxConnections {
        connections: 8,
        of_peer: 8,
        frames_per_second: 0,
    };
    let observe = Ingest {
        remembered: AnswerCache::new(65_536, Duration::MAX),
        own: own.clone(),
        probed,
        ..Ingest::new(index, Clock::system(), ConnectionTable::new(limits, sender))
    };
    let socket = workdir.join("dnstap.sock");
    let address = format!("unix://{}", socket.display()).parse().unwrap();
    let listener = Listener::bind(&address, Duration::from_secs(15), None).await;
    tasks.spawn(listener.unwrap().run(observe, token.clone()));
    let (_servers, servers) = watch::channel(BTreeSet::from([server]));
    let all = Wanted {
        names: BTreeMap::from([(wanted, Arc::default())]),
        in_sync: true,
        ..Wanted::default()
    };
    let (_wanted, wanted) = watch::channel(BySource::from(all));
    let (_collectors, collectors) = watch::channel(Default::default());
    let (blocks, mut shown) = watch::channel(Arc::default());
    if !interval.is_zero() {
        let config = Config {
            interval,
            budget: NonZeroU32::new(1000).unwrap(),
            names: names.iter().map(|it| it.name().clone()).collect(),
        };
        let inputs = Inputs {
            servers,
            wanted,
            collectors,
            told,
        };
        tasks.spawn(task::run(config, names, inputs, blocks, own, token.clone()));
    }
    fs::write(workdir.join("Corefile"), COREFILE).unwrap();
    let mut coredns = CoreDns::start_at(workdir.path(), server).await;
    if !interval.is_zero() {
        let is_flushed = |blocks: &Arc<Vec<collector::flush::BlockView>>| {
            blocks
                .iter()
                .all(|block| block.state.as_str() == "flushed" && block.streams == 1)
                && !blocks.is_empty()
        };
        shown.wait_for(is_flushed).await.unwrap();
    }
    let pid = coredns.process().pid();
    let (busy, theirs, start) = (of_collector(), of_process(pid), Instant::now());
    let count = ((rate as f64 * lasts.as_secs_f64()) as usize).max(1);
    let client = thread::Builder::new().name(CLIENT.to_owned());
    let asked = client.spawn(move || ask(server, rate, count)).unwrap();
    let mut seen = BTreeMap::new();
    let mut quiet = false;
    // All observations come at most a second after the last answer.
    while !quiet {
        let mut batch = Vec::new();
        let next = observed.recv_many(&mut batch, 1_000);
        match tokio::time::timeout(Duration::from_millis(1_500), next).await {
            Ok(0) => break,
            Ok(_) => {
                let at = Instant::now();
                for observation in batch {
                    let label = observation.name.as_str().split('.').next().unwrap();
                    seen.entry(label[1..].parse::<usize>().unwrap())
                        .or_insert(at);
                }
            }
            Err(_) => quiet = asked.is_finished(),
        }
    }
    let took = start.elapsed();
    let (busy, theirs) = (of_collector() - busy, of_process(pid) - theirs);
    let answered = asked.join().unwrap();
    let delay = |(number, at): &(usize, Instant)| {
        let seen: &Instant = seen.get(number)?;
        Some(seen.saturating_duration_since(*at))
    };
    let mut delays: Vec<Duration> = answered.iter().filter_map(delay).collect();
    delays.sort_unstable();
    token.cancel();
    tasks.shutdown().await;
    Measured {
        delays,
        asked: answered.len(),
        coredns: theirs,
        collector: busy,
        took,
    }
}

/// The probes a second to so many servers without traffic of their own, computed by the plan alone.
fn simulate(interval: Duration, servers: u8) -> f64 {
    const LASTS: Duration = Duration::from_secs(30);
    let mut now = tokio::time::Instant::now();
    let config = Config {
        interval,
        budget: NonZeroU32::new(1000).unwrap(),
        names: [DnsName::parse("flush.cluster.local").unwrap()].into(),
    };
    let mut plan = Plan::new(config, now);
    let server = |i| SocketAddr::from(([10, 0, 0, i], 53));
    plan.is_wanted = true;
    plan.set_servers(&(0..servers).map(server).collect());
    let opened = Opened {
        peer: None,
        flow: Flow::default(),
    };
    plan.set_open(Arc::new([(1, opened)].into()));
    let (mut count, start) = (0_u32, now);
    // The first probes are sent one at a time for a while.
    let begin = start + Duration::from_secs(10);
    while now < begin + LASTS {
        let (probes, next) = plan.due(now);
        for probe in &probes {
            let mark = ProbeMark {
                server: probe.server,
                nonce: probe.nonce,
            };
            let seen = SeenProbe {
                stream: 1,
                mark,
                name: probe.name,
                is_forwarded: false,
                source: None,
                at: now,
            };
            plan.seen(&seen, now);
            plan.answered(probe, 3, now);
            count += u32::from(now >= begin);
        }
        if probes.is_empty() {
            now = next.unwrap();
        }
    }
    f64::from(count) / LASTS.as_secs_f64()
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "quick");
    let lasts = Duration::from_secs(if quick { 4 } else { 15 });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_keep_alive(Duration::from_secs(3600))
        .enable_all()
        .build()
        .unwrap();
    let mut holds = true;
    println!(
        "{:>8} {:>9} {:>10} {:>10} {:>10} {:>9} {:>11} {:>11}",
        "probes", "queries/s", "p50 ms", "p99 ms", "max ms", "seen", "CoreDNS", "collector"
    );
    for millis in [0, 100, 10] {
        for rate in [3, 100, 1_000, 10_000] {
            let interval = Duration::from_millis(millis);
            // A few queries a second need a longer run for a meaningful result.
            let lasts = if rate < 100 { lasts * 2 } else { lasts };
            let measured = runtime.block_on(measure(interval, rate, lasts));
            let Measured { delays, asked, .. } = &measured;
            let at = |part: f64| {
                let last = delays.len().saturating_sub(1) as f64;
                delays.get((last * part).round() as usize).copied()
            };
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| at(part).unwrap_or(Duration::MAX));
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let share = |time: Duration| 100.0 * time.as_secs_f64() / measured.took.as_secs_f64();
            let probes = if millis == 0 {
                "off".to_owned()
            } else {
                format!("{millis} ms")
            };
            println!(
                "{probes:>8} {rate:>9} {:>10.2} {:>10.2} {:>10.2} {:>7.2} % {:>9.1} % {:>9.1} %",
                ms(p50),
                ms(p99),
                ms(max),
                100.0 * delays.len() as f64 / *asked as f64,
                share(measured.coredns),
                share(measured.collector),
            );
            holds &= millis != 10 || (p99 < LIMIT && delays.len() == *asked);
        }
    }
    let mut message = Vec::new();
    let template = Template::new(&DnsName::parse("flush.cluster.local").unwrap()).unwrap();
    let server = SocketAddr::from(([10, 0, 0, 1], 53));
    let mark = ProbeMark {
        server,
        nonce: [0; 16],
    };
    template.write(0, &mark, &mut message);
    println!(
        "\n{:>8} {:>6} {:>10} {:>12}",
        "probes", "pods", "probes/s", "KB/s in all"
    );
    for millis in [100, 10] {
        for pods in [1, 10, 100] {
            let probes = simulate(Duration::from_millis(millis), pods);
            let bytes = probes * message.len() as f64 / 1e3;
            println!("{millis:>5} ms {pods:>6} {probes:>10.1} {bytes:>12.1}");
        }
    }
    println!(
        "{}",
        if holds {
            "the limits hold"
        } else {
            "THE LIMITS DO NOT HOLD"
        }
    );
    ExitCode::from(u8::from(!holds))
}
