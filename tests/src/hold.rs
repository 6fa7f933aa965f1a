//! CoreDNS that asks forwarders first, and queries at a steady rate, of which none may fail.

use std::{
    collections::HashMap,
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use hickory_proto::{
    op::{Message, Query, ResponseCode},
    rr::{Name, Record, RecordType},
};
use tokio::{
    net::UdpSocket,
    sync::{oneshot, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use crate::{
    soak::or_long,
    upstream::{Asked, Say, Speech, data, take_bursts},
    wait,
    workdir::Workdir,
};

/// The names that [`numbered`] answers.
pub const WILDCARD: &str = "*.up.test.";

/// All names but those of the cluster are forwarded.
const COREFILE: &str = r#".:{$DNS_PORT} {
    bind 127.0.0.1
    SOCKETS
    errors
    dnstap unix://{$DNSTAP_SOCKET} full
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    FORWARD
}
"#;

/// The lines that make CoreDNS ask these upstreams, in their order, as `egress corefile patch --hold` writes them.
pub fn forward(upstreams: &[SocketAddr]) -> String {
    let upstreams: Vec<String> = upstreams.iter().map(ToString::to_string).collect();
    let options = "policy sequential\n        max_fails 1\n        health_check 0.5s";
    format!(
        "forward . {} {{\n        {options}\n    }}",
        upstreams.join(" ")
    )
}

/// Writes the Corefile of a CoreDNS with these upstreams, in their order.
///
/// # Panics
/// If it cannot be written.
pub fn write_corefile(workdir: &Workdir, upstreams: &[SocketAddr]) {
    // One socket drops queries of a burst, as after a collector that hung. Only CoreDNS 1.12 and newer can have several.
    let sockets = or_long("", "multisocket 4");
    let corefile = COREFILE.replace("SOCKETS", sockets);
    let corefile = corefile.replace("FORWARD", &forward(upstreams));
    fs::write(workdir.join("Corefile"), corefile).unwrap();
}

/// The flag of a forwarder on this address, which asks this upstream.
pub fn hold_flag(listen: SocketAddr, upstream: SocketAddr) -> String {
    format!("--hold-listen=udp+tcp://{listen}?upstream={upstream}")
}

/// `nN.up.test` has the address 192.0.2.N; the other names have none.
pub fn numbered(asked: &Asked) -> Vec<Say> {
    let name = asked.name();
    let number = name.strip_prefix('n').and_then(|it| it.split('.').next());
    match number.and_then(|it| it.parse::<u8>().ok()) {
        Some(number) => asked.addresses(&[&format!("192.0.2.{number}")], 300).say(),
        None => asked.addresses(&[], 300).say(),
    }
}

/// A resolver asks again after this time, and gives up after twice as long (resolv.conf(5), `timeout` and `attempts`).
const ATTEMPT: Duration = Duration::from_secs(5);
const ATTEMPTS: u32 = 2;

/// The sockets of a load: each has an identifier for each query in flight.
const CLIENTS: usize = 64;

/// A load that is later than this sends less than it should.
const BEHIND: Duration = Duration::from_millis(20);

/// The longest time of a query.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address in replies that are none.
pub const FORGED: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 255));

/// Queries a second, as a rule.
pub fn usual_rate() -> u32 {
    or_long(100, 1000)
}

/// A load on a DNS server.
pub struct Load {
    rate: u32,
    ends: watch::Sender<bool>,
    answered: Arc<AtomicUsize>,
    sending: JoinHandle<Outcome>,
}

/// What became of the queries.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Sorted.
    pub latencies: Vec<Duration>,
    pub failures: Vec<String>,
}

impl Outcome {
    fn add(&mut self, result: Result<Duration, String>) {
        match result {
            Ok(latency) => self.latencies.push(latency),
            Err(error) => self.failures.push(error),
        }
    }

    pub fn quantile(&self, part: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies[(part * last as f64) as usize]
    }

    /// A line of a table: how many queries waited, and how long.
    pub fn line(&self, what: &str) -> String {
        let waited = |least| self.latencies.iter().filter(|it| **it > least).count();
        let ms = |part| self.quantile(part).as_secs_f64() * 1e3;
        format!(
            "| {what} | {} | {} | {:.1} | {:.1} | {:.0} | {} | {} |",
            self.latencies.len(),
            self.failures.len(),
            ms(0.5),
            ms(0.99),
            ms(1.0),
            waited(Duration::from_millis(200)),
            waited(Duration::from_secs(1)),
        )
    }
}

impl Load {
    /// Asks for the A records of the names that `name` gives, so many a second.
    pub fn start(
        server: SocketAddr,
        rate: u32,
        name: impl Fn(usize) -> String + Send + 'static,
    ) -> Self {
        let (ends, is_over) = watch::channel(false);
        let answered = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&answered);
        let sending = tokio::spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / rate);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let (mut clients, mut receiving) = (Vec::new(), JoinSet::new());
            for _ in 0..CLIENTS {
                let client = Arc::new(Client::connect(server).await.unwrap());
                receiving.spawn(Arc::clone(&client).receive());
                clients.push(client);
            }
            let (mut queries, mut number) = (JoinSet::new(), 0);
            let mut outcome = Outcome::default();
            while !*is_over.borrow() {
                // Independent clients do not catch up together after a pause of this process.
                if ticks.tick().await.elapsed() > BEHIND {
                    ticks.reset_immediately();
                }
                let (name, counted) = (name(number), Arc::clone(&counted));
                let (client, id) = (Arc::clone(&clients[number % CLIENTS]), number / CLIENTS);
                queries.spawn(async move {
                    let result = timed(&client, id as u16, &name).await;
                    counted.fetch_add(1, Relaxed);
                    result
                });
                number += 1;
                while let Some(result) = queries.try_join_next() {
                    outcome.add(result.unwrap());
                }
            }
            for result in queries.join_all().await {
                outcome.add(result);
            }
            outcome.latencies.sort_unstable();
            outcome
        });
        Self {
            rate,
            ends,
            answered,
            sending,
        }
    }

    /// Waits until as many queries more are answered as are sent in this time.
    pub async fn goes_on(&self, time: Duration) {
        let more = (time.as_secs_f64() * f64::from(self.rate)) as usize;
        let until = self.answered.load(Relaxed) + more;
        wait::eventually_within(10 * PATIENCE + 2 * time, "answers", async || {
            let answered = self.answered.load(Relaxed);
            let missing = until.saturating_sub(answered);
            (missing == 0)
                .then_some(())
                .ok_or_else(|| format!("{missing} are missing"))
        })
        .await;
    }

    pub async fn end(self) -> Outcome {
        self.ends.send_replace(true);
        self.sending.await.unwrap()
    }
}

/// A socket of many queries: a process has not files enough for one each.
struct Client {
    socket: UdpSocket,
    waiting: Mutex<HashMap<u16, oneshot::Sender<Message>>>,
}

impl Client {
    async fn connect(server: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        take_bursts(&socket);
        socket.connect(server).await?;
        Ok(Self {
            socket,
            waiting: Mutex::default(),
        })
    }

    /// Takes replies in, for ever. One that comes too late has no query.
    async fn receive(self: Arc<Self>) {
        let mut buffer = vec![0; 65_535];
        loop {
            let length = self.socket.recv(&mut buffer).await.unwrap();
            let reply = Message::from_vec(&buffer[..length]).unwrap();
            let waiting = self.waiting.lock().unwrap().remove(&reply.metadata.id);
            if let Some(waiting) = waiting {
                let _gone = waiting.send(reply);
            }
        }
    }

    async fn ask(&self, id: u16, name: &str) -> Option<Message> {
        let (sender, reply) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, sender);
        let mut query = Message::query();
        query.metadata.id = id;
        query.metadata.recursion_desired = true;
        query.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
        self.socket.send(&query.to_vec().unwrap()).await.unwrap();
        timeout(ATTEMPT, reply).await.ok()?.ok()
    }
}

async fn timed(client: &Client, id: u16, name: &str) -> Result<Duration, String> {
    let began = Instant::now();
    let mut reply = client.ask(id, name).await;
    for _ in 1..ATTEMPTS {
        if reply.is_none() {
            reply = client.ask(id, name).await;
        }
    }
    let reply = reply.ok_or_else(|| format!("{name}: no reply"))?;
    let code = reply.metadata.response_code;
    let question = reply.queries[0].name.to_ascii();
    let is_forged = |it: &Record| it.data == data(FORGED);
    if question != name
        || code != ResponseCode::NoError
        || reply.answers.is_empty()
        || reply.answers.iter().any(is_forged)
    {
        return Err(format!("{name}: {question} {code} {:?}", reply.answers));
    }
    Ok(began.elapsed())
}
