//! The collector's forwarder beside dnsdist as a plain forwarder in the same place: behind a stock CoreDNS, which asks it first. Both
//! are asked in turn, so the ratios do not depend on how busy the machine is. The upstream is another dnsdist, which answers by itself.

use std::{
    env, fs, io,
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use tests::{
    coredns::{CoreDns, free_port},
    hold::{forward, hold_flag},
    process::Process,
    programs::Program,
    store::Store,
    times::Times,
    workdir::Workdir,
    world::start_collector,
};

/// A name whose address the status has, and one that no rule has.
const NAMES: [&str; 2] = ["known.up.test.", "unwanted.other.test."];

/// New names, of which so many share a wildcard: a status of many names is written less often than names come here.
const NEW_NAMES: usize = 200;
const SHARING: usize = 10;

/// The longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// Queries a second for names that are never asked for again.
const RANDOM_LABELS: usize = 10_000;

/// Each new name and each random label has an address of its own. All other names have the same one.
const ANSWERS: &str = r#"
addAction(RegexRule('^[nr][0-9]+[.]'), LuaAction(function(dq)
    local number = tonumber(string.match(tostring(dq.qname), '[0-9]+'))
    local bytes = { math.floor(number / 65536), math.floor(number / 256) % 256, number % 256 }
    return DNSAction.Spoof, '11.' .. table.concat(bytes, '.')
end))
addAction(AllRule(), SpoofAction('192.0.2.7', {ttl = 300}))
"#;

/// The programs. They end in this order.
struct Bench {
    /// The server that asks the collector, and the one that asks dnsdist.
    servers: [SocketAddr; 2],
    _coredns: CoreDns,
    collector: Program,
    _forwarders: [Process; 2],
    workdir: Workdir,
    holds: bool,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    if Command::new("dnsdist").arg("--version").output().is_err()
        || Command::new("dnsperf").arg("-h").output().is_err()
    {
        println!(
            "hold: skipped, as there is no dnsdist or no dnsperf: apt-get install dnsdist dnsperf"
        );
        return ExitCode::SUCCESS;
    }
    let is_quick = env::args().any(|it| it == "quick");
    let (rounds, queries, seconds) = if is_quick { (3, 500, 1) } else { (9, 2_000, 4) };
    let mut bench = Bench::start().await;
    println!("hold: {rounds} rounds, CoreDNS before the collector and before dnsdist");
    println!("{:<26}{:>12}{:>12}", "", "collector", "dnsdist");
    for name in NAMES {
        let mut p50 = [(); 2].map(|()| Times::default());
        bench.ask_in_turn(name, queries, &mut p50);
        bench.compare(
            &format!("{name} p50 µs"),
            p50.map(|mut it| it.median()),
            1.1,
        );
        let mut rates = [vec![], vec![]];
        for _ in 0..rounds {
            for (place, rates) in rates.iter_mut().enumerate() {
                rates.push(bench.queries_a_second(place, name, seconds));
            }
        }
        let [hold, plain] = rates.map(median);
        println!("{:<26}{hold:>12.0}{plain:>12.0}", format!("{name} q/s"));
        bench.judge("", hold / plain, |it| it >= 0.9, "at least 0.9");
    }
    bench.new_names().await;
    bench.random_labels(queries);
    ExitCode::from(u8::from(!bench.holds && !is_quick))
}

impl Bench {
    async fn start() -> Self {
        let workdir = Workdir::transient();
        let [upstream, plain, hold, port] = [(); 4].map(|()| free_port());
        let forwards = format!("newServer('{upstream}')");
        let forwarders = [
            dnsdist(workdir.path(), "upstream", upstream, ANSWERS),
            dnsdist(workdir.path(), "plain", plain, &forwards),
        ];
        let store = Store::new(workdir.join("store"));
        let wildcards = (0..NEW_NAMES / SHARING).map(|it| format!("*.g{it}.up.test."));
        let wildcards: Vec<String> = wildcards.collect();
        let wildcards = wildcards.iter().map(String::as_str);
        let wanted = ["known.up.test.", "*.random.up.test."];
        store.allow("team", &wildcards.chain(wanted).collect::<Vec<_>>());
        let flag = hold_flag(hold, upstream);
        let collector = start_collector(&workdir, &store, &[&flag]).await;
        collector
            .counts("egress_collector_hold_listening", &[], 1.0)
            .await;
        // One server asks the collector, the other one asks dnsdist.
        let server = |port: &str, forwarder| {
            let forward = forward(&[forwarder, upstream]);
            format!(
                ".:{port} {{\n    bind 127.0.0.1\n    dnstap unix://{{$DNSTAP_SOCKET}} full\n    {forward}\n}}\n"
            )
        };
        let corefile = server("{$DNS_PORT}", hold) + &server(&port.port().to_string(), plain);
        fs::write(workdir.join("Corefile"), corefile).expect("a Corefile");
        let coredns = CoreDns::start(workdir.path()).await;
        Self {
            servers: [coredns.address(), port],
            _coredns: coredns,
            collector,
            _forwarders: forwarders,
            workdir,
            holds: true,
        }
    }

    fn judge(&mut self, what: &str, value: f64, holds: impl Fn(f64) -> bool, limit: &str) {
        self.holds &= holds(value);
        println!("{what:<26}{value:>12.2}  {limit}");
    }

    /// The collector's value beside dnsdist's.
    fn compare(&mut self, what: &str, [hold, plain]: [f64; 2], most: f64) {
        println!("{what:<26}{hold:>12.1}{plain:>12.1}");
        self.judge(
            "",
            hold / plain,
            |it| it <= most,
            &format!("at most {most}"),
        );
    }

    /// Asks both servers by turns.
    fn ask_in_turn(&self, name: &str, queries: usize, times: &mut [Times; 2]) {
        let mut clients = self.servers.map(Client::new);
        for _ in 0..queries {
            for (client, times) in clients.iter_mut().zip(&mut *times) {
                times.push(client.ask(name).expect("a reply"));
            }
        }
    }

    /// By dnsperf, with 100 queries in flight.
    fn queries_a_second(&self, place: usize, name: &str, seconds: usize) -> f64 {
        let file = self.workdir.join("queries");
        fs::write(&file, format!("{name} A\n")).expect("a file");
        let dnsperf = dnsperf(self.servers[place], &file, seconds, &["-q", "100"]);
        let output = dnsperf.wait_with_output().expect("dnsperf");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let value = |what: &str| {
            let rest = text.split_once(what).expect("a figure").1;
            let word = rest.split_whitespace().next().expect("a figure");
            word.parse::<f64>().expect("a number")
        };
        assert_eq!(value("Queries lost:"), 0.0, "{text}");
        value("Queries per second:")
    }

    /// New names one after another: how long their answers are held.
    async fn new_names(&mut self) {
        let mut known = [(); 2].map(|()| Times::default());
        self.ask_in_turn(NAMES[0], NEW_NAMES, &mut known);
        let usual = known[0].median();
        let lag = "egress_collector_status_lag_seconds";
        let before = self.total(lag).await;
        let (mut times, mut client) = (Times::default(), Client::new(self.servers[0]));
        for number in 0..NEW_NAMES {
            let name = format!("n{number}.g{}.up.test.", number / SHARING);
            times.push(client.ask(&name).expect("a reply"));
        }
        let after = self.total(lag).await;
        let written = (after[0] - before[0]) / (after[1] - before[1]) * 1e3;
        let [p50, p99] = [0.5, 0.99].map(|share| (times.quantile(share) - usual) / 1e3);
        println!("{:<26}{written:>12.1}", "status written, mean ms");
        let most = written + 45.0;
        self.judge(
            "held p50 ms",
            p50,
            |it| it <= most,
            &format!("at most {most:.1}"),
        );
        self.judge("held p99 ms", p99, |it| it <= 150.0, "at most 150");
    }

    /// The sum and the count of a histogram.
    async fn total(&self, histogram: &str) -> [f64; 2] {
        let mut total = [0.0; 2];
        for (part, total) in ["sum", "count"].iter().zip(&mut total) {
            let name = format!("{histogram}_{part}");
            *total = self
                .collector
                .admin()
                .metric(&name, &[])
                .await
                .expect("a metric");
        }
        total
    }

    /// Clients of a known name, beside many random labels under a wildcard of a rule.
    fn random_labels(&mut self, queries: usize) {
        let mut times = [(); 2].map(|()| Times::default());
        for (place, times) in times.iter_mut().enumerate() {
            let seconds = 10;
            let count = RANDOM_LABELS * seconds;
            let names = (0..count).map(|it| format!("r{}.random.up.test. A\n", place * count + it));
            let file = self.workdir.join("random");
            fs::write(&file, names.collect::<String>()).expect("a file");
            let mut flood = dnsperf(
                self.servers[place],
                &file,
                seconds,
                &["-q", "1000", "-Q", &RANDOM_LABELS.to_string()],
            );
            let mut client = Client::new(self.servers[place]);
            for _ in 0..queries {
                // A busy socket drops some.
                times.push(client.ask(NAMES[0]).unwrap_or(PATIENCE));
            }
            let is_over = flood.try_wait().expect("dnsperf").is_some();
            let output = flood.wait_with_output().expect("dnsperf");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let figures = text
                .lines()
                .filter(|it| it.contains("Queries"))
                .map(str::trim);
            println!(
                "random labels: {}, ended early: {is_over}",
                figures.collect::<Vec<_>>().join("; ")
            );
        }
        self.compare(
            "beside random, p99 µs",
            times.map(|mut it| it.quantile(0.99)),
            1.2,
        );
    }
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

fn dnsperf(server: SocketAddr, file: &Path, seconds: usize, more: &[&str]) -> Child {
    let mut dnsperf = Command::new("dnsperf");
    dnsperf.args(["-s", "127.0.0.1", "-p", &server.port().to_string()]);
    dnsperf
        .args(["-l", &seconds.to_string(), "-c", "8"])
        .args(more);
    dnsperf.arg("-d").arg(file).stdout(Stdio::piped());
    dnsperf.spawn().expect("dnsperf")
}

/// A client with one socket.
struct Client {
    socket: UdpSocket,
    asked: u16,
}

impl Client {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(server).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Self { socket, asked: 0 }
    }

    /// The time until the reply.
    fn ask(&mut self, name: &str) -> io::Result<Duration> {
        self.asked = self.asked.wrapping_add(1);
        let mut query = self.asked.to_be_bytes().to_vec();
        query.extend_from_slice(b"\x01\0\0\x01\0\0\0\0\0\0");
        for label in name.trim_end_matches('.').split('.') {
            query.push(label.len() as u8);
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(b"\0\0\x01\0\x01");
        let mut buffer = [0; 1500];
        let began = Instant::now();
        self.socket.send(&query)?;
        while buffer[..2] != query[..2] {
            self.socket.recv(&mut buffer)?;
        }
        Ok(began.elapsed())
    }
}
