//! Programs that read dnstap: the collector with and without names, and others in their normal use, into a file.
//!
//! A million frames go through a unix socket in writes of 4 KiB, as CoreDNS writes them. Then CoreDNS answers as many queries as
//! it can, with each reader behind it and alone.

use std::{
    fs,
    io::{Read, Write},
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tests::{
    bar_chart::Bar,
    coredns::CoreDns,
    cpu_time,
    cpu_wakeup::Awake,
    dnstap::{Control, DNSTAP, control},
    page::{table, update_table},
    process::{Process, memory},
    programs::{Program, peers_python},
    store::Store,
    traffic,
    wait::eventually,
    workdir::Workdir,
};
use tokio::task::spawn_blocking;

use crate::{dns_load::answers_a_second, update_chart};

/// The frames of a stream, and how often each reader but the slow one gets them in a row.
const FRAMES: usize = 200_000;
const REPEATS: usize = 5;
/// The frames of the slow one.
const FEW: usize = 20_000;

const NAMES: u64 = 10_000;
/// A namespace may have 100 wildcards.
const NAMES_OF_A_NAMESPACE: usize = 900;

/// The largest write of CoreDNS.
const WRITE: usize = 4096;

const COREFILE: &str = "\
.:{$DNS_PORT} {
    bind 127.0.0.1
    DNSTAP
    template IN A {
        answer \"{{ .Name }} 30 IN A 192.0.2.1\"
    }
}
";

/// What keeps a reader running.
enum Running {
    Collector(Program),
    Other(Process),
}

struct Reader {
    name: &'static str,
    running: Running,
    socket: PathBuf,
    is_slow: bool,
    /// Of all rounds.
    frames: usize,
    took: Duration,
    cpu: Duration,
    answers_a_second: Vec<f64>,
}

impl Reader {
    fn pid(&mut self) -> u32 {
        match &mut self.running {
            Running::Collector(program) => program.process().pid(),
            Running::Other(process) => process.pid(),
        }
    }

    fn frames_a_second(&self) -> f64 {
        self.frames as f64 / self.took.as_secs_f64()
    }

    /// The CPU seconds for a million frames.
    fn cpu_seconds(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.frames as f64
    }

    fn line(&mut self, alone: f64) -> Vec<String> {
        let [memory, _] = memory(self.pid());
        let answers = median(&mut self.answers_a_second);
        vec![
            self.name.to_owned(),
            millions(self.frames_a_second()),
            format!("{:.2}", self.cpu_seconds()),
            (memory / 1_000_000).to_string(),
            format!("{:.0}%", answers / alone * 100.0),
        ]
    }
}

/// Measures, and says whether the limits hold.
pub(crate) async fn run(is_quick: bool) -> bool {
    let (rounds, repeats, frames) = if is_quick {
        (1, 1, FEW)
    } else {
        (5, REPEATS, FRAMES)
    };
    let workdir = Workdir::transient();
    println!("readers: making {frames} frames");
    let many = stream(frames);
    let few = stream(FEW);
    let mut readers = start(&workdir).await;
    let awake = Awake::keep();
    // The first time is not measured: the collector then learns the addresses.
    for round in 0..=rounds {
        for reader in &mut readers {
            let (data, repeats, frames) = match reader.is_slow {
                true => (&few, 1, FEW),
                false => (&many, repeats, frames * repeats),
            };
            let pid = reader.pid();
            let before = cpu_time::of_process(pid);
            let took = send(&reader.socket, data, repeats).await;
            if round > 0 {
                reader.frames += frames;
                reader.took += took;
                reader.cpu += cpu_time::of_process(pid) - before;
            }
        }
    }
    drop(awake);
    let alone = measure_answers(&workdir, &mut readers, is_quick).await;
    let lines: Vec<_> = readers.iter_mut().map(|it| it.line(alone)).collect();
    let heading = "reader|million events/s|CPU seconds a million|memory, MB|DNS answers/s";
    let table = table(heading, &lines);
    println!("{table}\nCoreDNS alone: {alone:.0} answers/s");
    update_table("alternatives.md", &table);
    draw(&readers);
    holds(&readers)
}

/// The frames of a stream without its START.
fn stream(frames: usize) -> Arc<[u8]> {
    let (stream, _) = traffic::stream(frames, NAMES);
    let start = control(Control::Start, Some(DNSTAP)).len();
    stream[start..].into()
}

async fn start(workdir: &Workdir) -> Vec<Reader> {
    let mut readers = Vec::new();
    let mut add = |name, running, socket, is_slow| {
        readers.push(Reader {
            name,
            running,
            socket,
            is_slow,
            frames: 0,
            took: Duration::ZERO,
            cpu: Duration::ZERO,
            answers_a_second: Vec::new(),
        });
    };
    for (name, folder, names) in [
        ("collector, no names", "none", 0),
        ("collector, 10,000 names", "many", NAMES),
    ] {
        let store = Store::new(workdir.join(folder).join("store"));
        let names: Vec<String> = traffic::wanted(names)
            .iter()
            .map(ToString::to_string)
            .collect();
        let count = names.len().div_ceil(NAMES_OF_A_NAMESPACE);
        for namespace in 0..count {
            // Each gets its part of the wildcards.
            let of_namespace = names.iter().skip(namespace).step_by(count);
            let of_namespace: Vec<&str> = of_namespace.map(String::as_str).collect();
            store.allow(&format!("team-{namespace}"), &of_namespace);
        }
        let socket = workdir.join(folder).join("dnstap.sock");
        let args = [
            format!("--store={}", store.address()),
            format!("--listen=unix://{}", socket.display()),
        ];
        let program = Program::start(&workdir.join(folder), "collector", args.to_vec()).await;
        program.ready().await;
        add(name, Running::Collector(program), socket, false);
    }
    let other = |name: &str, program: &Path, args: &[&str]| {
        let process = Process::start(workdir.path(), name, program, args, &[]);
        (
            Running::Other(process),
            workdir.join(format!("{name}.sock")),
        )
    };
    let args = [
        "-t",
        "protobuf:dnstap.Dnstap",
        "-u",
        "fstrm.sock",
        "-w",
        "fstrm.out",
    ];
    let (running, socket) = other("fstrm", "fstrm_capture".as_ref(), &args);
    add("`fstrm_capture`", running, socket, false);
    let args = ["-u", "golang.sock", "-w", "golang.out"];
    let (running, socket) = other("golang", "dnstap".as_ref(), &args);
    add("`dnstap` of golang-dnstap", running, socket, false);
    let python = peers_python().expect("the packages of scripts/setup --peers");
    fs::write(workdir.join("receiver.yaml"), RECEIVER).unwrap();
    let receiver = python.with_file_name("dnstap_receiver");
    let args = ["-u", "python.sock", "-c", "receiver.yaml"];
    let (running, socket) = other("python", &receiver, &args);
    add("dnstap-receiver (Python)", running, socket, true);
    for reader in &readers {
        eventually(&format!("{} listens", reader.name), async || {
            let there = reader.socket.exists().then_some(());
            there.ok_or_else(|| "there is no socket".to_owned())
        })
        .await;
    }
    readers
}

/// Into a file alone, without its web server.
const RECEIVER: &str = "\
web-api: {enable: false}
input: {tcp-socket: {enable: false}}
output:
  stdout: {enable: false}
  file: {enable: true, format: text, file: python.out}
";

/// Sends everything and waits for FINISH. Returns the time.
async fn send(socket: &Path, data: &Arc<[u8]>, repeats: usize) -> Duration {
    let (socket, data) = (socket.to_owned(), Arc::clone(data));
    let sent = spawn_blocking(move || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let mut answer = control(Control::Accept, Some(DNSTAP));
        stream
            .write_all(&control(Control::Ready, Some(DNSTAP)))
            .unwrap();
        stream.read_exact(&mut answer).unwrap();
        let began = Instant::now();
        stream
            .write_all(&control(Control::Start, Some(DNSTAP)))
            .unwrap();
        for _ in 0..repeats {
            data.chunks(WRITE)
                .for_each(|bytes| stream.write_all(bytes).unwrap());
        }
        stream.write_all(&control(Control::Stop, None)).unwrap();
        let mut finish = control(Control::Finish, None);
        stream.read_exact(&mut finish).unwrap();
        began.elapsed()
    });
    sent.await.unwrap()
}

/// Asks a CoreDNS for each reader in turns. Returns the answers a second of one without a reader.
async fn measure_answers(workdir: &Workdir, readers: &mut [Reader], is_quick: bool) -> f64 {
    let (rounds, duration) = if is_quick { (1, 200) } else { (5, 2_000) };
    let mut servers = Vec::new();
    for socket in readers.iter().map(|it| Some(&it.socket)).chain([None]) {
        let folder = workdir.join(format!("coredns-{}", servers.len()));
        fs::create_dir(&folder).unwrap();
        let line = socket.map(|socket| format!("dnstap unix://{} full", socket.display()));
        let corefile = COREFILE.replace("DNSTAP", &line.unwrap_or_default());
        fs::write(folder.join("Corefile"), corefile).unwrap();
        servers.push(CoreDns::start(&folder).await);
    }
    let names: Vec<String> = (0..100).map(|n| format!("www{n}.example.org.")).collect();
    let mut alone = Vec::new();
    for _ in 0..rounds {
        for (at, server) in servers.iter().enumerate() {
            let answers =
                answers_of(server.address(), &names, Duration::from_millis(duration)).await;
            match readers.get_mut(at) {
                Some(reader) => reader.answers_a_second.push(answers),
                None => alone.push(answers),
            }
        }
    }
    median(&mut alone)
}

async fn answers_of(server: SocketAddr, names: &[String], duration: Duration) -> f64 {
    let names = names.to_vec();
    let asking = spawn_blocking(move || answers_a_second(server, &names, duration));
    asking.await.unwrap()
}

fn millions(value: f64) -> String {
    let digits = if value < 1e5 { 3 } else { 2 };
    format!("{:.digits$}", value / 1e6)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn draw(readers: &[Reader]) {
    // Beside the slow one the other bars could not be seen.
    let fast = readers.iter().filter(|reader| !reader.is_slow);
    let bars = fast.map(|reader| Bar {
        label: reader.name.replace('`', ""),
        value: reader.cpu_seconds(),
        text: format!("{:.2} s", reader.cpu_seconds()),
        is_ours: matches!(reader.running, Running::Collector(_)),
    });
    let bars: Vec<_> = bars.collect();
    update_chart(
        "peers-dnstap",
        "CPU seconds to read a million dnstap events",
        &bars,
    );
}

/// The limits: the speed against that of the best other reader, and the CPU time against that of `fstrm_capture`. With names in
/// rules the collector does more than to read.
fn holds(readers: &[Reader]) -> bool {
    let [without_names, ours, fstrm, others @ ..] = readers else {
        panic!("there are other readers");
    };
    let best = others.iter().map(Reader::frames_a_second);
    let best = best.fold(fstrm.frames_a_second(), f64::max);
    let speed = ours.frames_a_second() / best;
    let cpu = fstrm.cpu_seconds() / without_names.cpu_seconds();
    println!("events/s with names to those of the best other   {speed:>7.2}  (at least 0.8)");
    println!("CPU seconds of fstrm_capture to ours             {cpu:>7.2}  (at least 1.5)");
    speed >= 0.8 && cpu >= 1.5
}
