//! The cost of `dnstap` lines for CoreDNS: queries a second with none, one and two of them. Also the time of its start
//! and reload with a line whose reader refuses or does not answer.
//!
//! CoreDNS, its clients and the collectors share this machine, so only the ratios matter. `quick` makes it short.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench fails loudly and prints its figures"
)]

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use hickory_proto::{
    op::{Message, Query},
    rr::{Name, RecordType},
};
use rustix::process::Signal;
use tests::{
    coredns::CoreDns,
    dns::ask,
    programs::Program,
    store::Store,
    wait::{eventually, eventually_within},
    workdir::Workdir,
};
use tokio::{
    net::{TcpListener, TcpSocket, UdpSocket},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

const NAME: &str = "www.example.com.";

/// Pending queries at any time.
const UNDER_WAY: usize = 128;

const CLIENTS: usize = 4;

/// Server blocks of a Corefile.
const BLOCKS: [usize; 3] = [1, 4, 8];

/// CoreDNS waits for the reader of each block.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let quick = std::env::args().any(|argument| argument == "quick");
    let (rounds, time, blocks) = match quick {
        true => (1, Duration::from_secs(1), &BLOCKS[..2]),
        false => (5, Duration::from_secs(5), &BLOCKS[..]),
    };
    queries(rounds, time).await;
    starts(blocks).await;
}

/// A CoreDNS whose server blocks have these `dnstap` lines.
struct Served {
    coredns: CoreDns,
    folder: Workdir,
}

fn corefile(lines: &[String], blocks: usize, address: &str) -> String {
    let lines = lines.join("\n    ");
    let block = |number: usize| {
        let zone = match number {
            0 => ".".to_owned(),
            number => format!("z{number}.test"),
        };
        format!(
            "{zone}:{{$DNS_PORT}} {{\n    bind 127.0.0.1\n    {lines}\n    hosts {{\n        {address} www.example.com\n    }}\n}}\n"
        )
    };
    (0..blocks).map(block).collect()
}

impl Served {
    async fn start(lines: &[String], blocks: usize) -> Self {
        let folder = Workdir::transient();
        let text = corefile(lines, blocks, "192.0.2.1");
        fs::write(folder.join("Corefile"), text).expect("a Corefile");
        Self {
            coredns: CoreDns::start(folder.path()).await,
            folder,
        }
    }
}

/// Two collectors, and the `dnstap` lines for them.
async fn collectors(folder: &Workdir) -> ([Program; 2], Vec<String>) {
    let store = Store::new(folder.join("store"));
    store.allow("team", &[NAME]);
    let start = async |name: &str| {
        let listen = format!("unix://{}", folder.join(name).display());
        let flags = [
            "--store",
            &store.address(),
            "--listen",
            &listen,
            "--resolver",
            "none",
        ];
        let flags = flags.map(str::to_owned).to_vec();
        let program = Program::start(folder.path(), "collector", flags).await;
        program.ready().await;
        (program, format!("dnstap {listen} full"))
    };
    let (first, one) = start("first.sock").await;
    let (second, two) = start("second.sock").await;
    ([first, second], vec![one, two])
}

async fn queries(rounds: usize, time: Duration) {
    let folder = Workdir::transient();
    let (collectors, lines) = collectors(&folder).await;
    let mut served = Vec::new();
    for count in 0..=2 {
        served.push(Served::start(&lines[..count], 1).await);
    }
    println!("coredns: queries a second, {UNDER_WAY} under way");
    let mut rates = vec![Vec::new(); served.len()];
    for _ in 0..rounds {
        for (served, rates) in served.iter().zip(&mut rates) {
            rates.push(rate(served.coredns.address(), time).await);
        }
    }
    let medians: Vec<f64> = rates.into_iter().map(median).collect();
    for (lines, rate) in medians.iter().enumerate() {
        let ratio = rate / medians[0];
        println!("{lines} lines with full: {rate:>8.0}, of those without {ratio:.2}");
    }
    for collector in &collectors {
        let events = collector
            .admin()
            .metric("egress_collector_events_total", &[])
            .await;
        println!("events that a collector read: {events:?}");
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// The maximum rate of queries a second.
async fn rate(server: SocketAddr, time: Duration) -> f64 {
    let ends = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    let began = Instant::now();
    for _ in 0..CLIENTS {
        clients.spawn(client(server, Arc::clone(&ends)));
    }
    sleep(time).await;
    ends.store(true, SeqCst);
    let answers: u64 = clients.join_all().await.into_iter().sum();
    answers as f64 / began.elapsed().as_secs_f64()
}

async fn client(server: SocketAddr, ends: Arc<AtomicBool>) -> u64 {
    let mut query = Message::query();
    query.add_query(Query::query(
        Name::from_ascii(NAME).expect("a name"),
        RecordType::A,
    ));
    let query = query.to_vec().expect("a query");
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    socket.connect(server).await.expect("an address");
    let send = async || socket.send(&query).await.expect("it is sent");
    for _ in 0..UNDER_WAY / CLIENTS {
        send().await;
    }
    let (mut answers, mut buffer) = (0, [0; 512]);
    while !ends.load(SeqCst) {
        // A lost datagram is replaced by a new query.
        if let Ok(read) = timeout(Duration::from_millis(100), socket.recv(&mut buffer)).await {
            read.expect("an answer");
            answers += 1;
        }
        send().await;
    }
    answers
}

/// The reader of the second line.
enum Reader {
    Collector,
    Refuses,
    /// Accepts the connection and stays silent.
    Silent(TcpListener),
    /// Its host drops all packets.
    Dropping(TcpListener, Vec<TcpStream>),
}

impl Reader {
    const NAMES: [&str; 4] = ["a collector", "refuses", "is silent", "is black-holed"];

    async fn of(name: &str) -> Self {
        let listen = || {
            let socket = TcpSocket::new_v4().expect("a socket");
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            socket.bind(any).expect("a port");
            socket.listen(1).expect("it listens")
        };
        match name {
            "refuses" => Self::Refuses,
            "is silent" => Self::Silent(listen()),
            "is black-holed" => {
                // The kernel drops connection attempts while the listen queue is full.
                let listener = listen();
                let address = listener.local_addr().expect("an address");
                let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
                let mut connected = Vec::new();
                while let Ok(stream) = connect() {
                    connected.push(stream);
                }
                Self::Dropping(listener, connected)
            }
            _ => Self::Collector,
        }
    }

    fn line(&self, of_collector: &str) -> String {
        match self {
            Self::Collector => of_collector.to_owned(),
            Self::Refuses => "dnstap tcp://127.0.0.1:1 full".to_owned(),
            Self::Silent(listener) | Self::Dropping(listener, _) => {
                let address = listener.local_addr().expect("an address");
                format!("dnstap tcp://{address} full")
            }
        }
    }
}

async fn starts(blocks: &[usize]) {
    let folder = Workdir::transient();
    let (_collectors, lines) = collectors(&folder).await;
    println!(
        "coredns: two lines; the reader of the second …; seconds to the first answer of a start, to that of a reload, and"
    );
    println!("the longest without an answer meanwhile");
    println!(
        "{:<16}{:>8}{:>10}{:>10}{:>10}",
        "", "blocks", "start", "reload", "without"
    );
    for name in Reader::NAMES {
        for blocks in blocks {
            let reader = Reader::of(name).await;
            if let Reader::Dropping(_, connected) = &reader {
                assert!(!connected.is_empty());
            }
            let lines = [lines[0].clone(), reader.line(&lines[1])];
            let began = Instant::now();
            let started = timeout(PATIENCE, Served::start(&lines, *blocks)).await;
            let start = began.elapsed();
            let Ok(mut served) = started else {
                println!("{name:<16}{blocks:>8}{:>10}", "never");
                continue;
            };
            let (reload, without) = reload(&mut served, &lines, *blocks).await;
            println!(
                "{name:<16}{blocks:>8}{:>10.2}{:>10.2}{:>10.2}",
                start.as_secs_f64(),
                reload.as_secs_f64(),
                without.as_secs_f64()
            );
        }
    }
}

/// The time until a changed Corefile is in use, and the longest time without an answer until then.
async fn reload(served: &mut Served, lines: &[String], blocks: usize) -> (Duration, Duration) {
    let server = served.coredns.address();
    let text = corefile(lines, blocks, "192.0.2.2");
    fs::write(served.folder.join("Corefile"), text).expect("a Corefile");
    eventually("it answers", async || {
        let reply = ask(server, NAME, RecordType::A).await;
        reply.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let (began, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    served.coredns.process().signal(Signal::USR1);
    eventually_within(PATIENCE, "the other Corefile", async || {
        let reply = ask(server, NAME, RecordType::A).await;
        let reply = reply.map_err(|error| error.to_string())?;
        longest = longest.max(reply.at - last);
        last = reply.at;
        let new =
            reply.addresses() == ["192.0.2.2".parse::<std::net::IpAddr>().expect("an address")];
        new.then_some(()).ok_or_else(|| "the one before".to_owned())
    })
    .await;
    (began.elapsed(), longest)
}
