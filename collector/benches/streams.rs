//! A million frames through a unix socket in writes of 4 KiB, as CoreDNS writes them, against a reader that discards them
//! and against `fstrm_capture` in its normal use, into a file.
//!
//! One run has several rounds in turn. The ratios matter, not the absolute values. `quick` makes it short. The processors
//! are kept [awake](Awake): the sender waits when the socket is full, the reader when it is empty.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod traffic;

use std::{
    env, fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use collector::{
    listen::{ConnectionTable, Ingest, Listener},
    matching::{
        answer_cache::AnswerCache,
        index::{NameIndex, SharedIndex},
        queue,
    },
};
use runtime::clock::Clock;
use tests::{
    cpu_wakeup::Awake,
    dnstap::{Control, DNSTAP, control},
    process::Process,
    wait::eventually,
    workdir::Workdir,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixListener,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

const FRAMES: usize = 1_000_000;
const NAMES: u64 = 10_000;

/// The largest write of CoreDNS.
const WRITE: usize = 4096;

fn main() -> ExitCode {
    let rounds = if env::args().any(|arg| arg == "quick") {
        3
    } else {
        25
    };
    let runtime = runtime::with_threads(2).unwrap();
    let [throughput, cpu] = runtime.block_on(measure(rounds));
    println!("frames/s: to a reader that discards    {throughput:>7.2}  (at least 0.8)");
    println!("CPU seconds of fstrm_capture to ours   {cpu:>7.2}  (at least 2)");
    ExitCode::from(u8::from(throughput < 0.8 || cpu < 2.0))
}

async fn measure(rounds: usize) -> [f64; 2] {
    let workdir = Workdir::new();
    let (stream, matching) = traffic::stream(FRAMES, NAMES);
    let start = control(Control::Start, Some(DNSTAP)).len();
    let data: Arc<[u8]> = stream[start..].into();
    println!(
        "unix socket: {FRAMES} frames, {} MB, {matching} match",
        data.len() / 1_000_000
    );
    let [ours, forgetful, thrown, theirs] =
        ["ours", "forgetful", "discard", "fstrm"].map(|name| workdir.join(format!("{name}.sock")));
    let _collector = collector(&ours, 65_536).await;
    let _forgetful = collector(&forgetful, 0).await;
    let _discard = discard(&thrown);
    let capture = Process::start(
        workdir.path(),
        "fstrm_capture",
        Path::new("fstrm_capture"),
        [
            "-t",
            "protobuf:dnstap.Dnstap",
            "-u",
            "fstrm.sock",
            "-w",
            "events.fstrm",
        ],
        &[],
    );
    eventually("fstrm_capture listens", async || {
        let there = theirs.exists().then_some(());
        there.ok_or_else(|| "there is no socket".to_owned())
    })
    .await;
    let capture = capture.pid().to_string();
    let awake = Awake::keep();
    let (mut throughput, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (plain, _) = send(&forgetful, &data, awake.ids()).await;
        let (_, reading) = send(&ours, &data, awake.ids()).await;
        let (other, _) = send(&thrown, &data, awake.ids()).await;
        let before = cpu_time(&capture, &[]);
        send(&theirs, &data, awake.ids()).await;
        throughput.push(other.as_secs_f64() / plain.as_secs_f64());
        cpu.push((cpu_time(&capture, &[]) - before) as f64 / reading as f64);
    }
    [throughput, cpu].map(|mut ratios| {
        ratios.sort_unstable_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    })
}

/// A listener as in the program, and a task that takes the observations.
async fn collector(socket: &Path, remembered: usize) -> JoinSet<()> {
    let (sender, mut receiver) = queue::channel(16 << 20);
    let names: NameIndex = traffic::wanted(NAMES).iter().collect();
    let index = SharedIndex::default();
    index.store(Arc::new(names));
    let observe = Ingest {
        remembered: AnswerCache::new(remembered, Duration::MAX),
        ..Ingest::new(index, Clock::system(), ConnectionTable::new(sender))
    };
    let address = format!("unix://{}", socket.display()).parse().unwrap();
    let listener = Listener::bind(&address, None).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        listener
            .run(observe, CancellationToken::new())
            .await
            .unwrap();
    });
    tasks.spawn(async move {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, 1024).await > 0 {
            batch.clear();
        }
    });
    tasks
}

/// A reader that performs the handshake and discards the rest, of one stream after the other.
fn discard(socket: &Path) -> JoinSet<()> {
    let listener = UnixListener::bind(socket).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut buffer = vec![0; 128 << 10];
        let mut ready = control(Control::Ready, Some(DNSTAP));
        let accept = control(Control::Accept, Some(DNSTAP));
        let stop = control(Control::Stop, None);
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.read_exact(&mut ready).await.unwrap();
            stream.write_all(&accept).await.unwrap();
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                if buffer[..read].ends_with(&stop) {
                    let finish = control(Control::Finish, None);
                    stream.write_all(&finish).await.unwrap();
                }
            }
        }
    });
    tasks
}

/// Sends everything and waits for FINISH, in a thread of its own. Returns the time, and the processor time of the readers
/// in this process in nanoseconds. `idle`: threads that do not read.
async fn send(socket: &Path, data: &Arc<[u8]>, idle: &[String]) -> (Duration, u64) {
    let (socket, data, mut others) = (socket.to_owned(), Arc::clone(data), idle.to_vec());
    let sent = tokio::task::spawn_blocking(move || {
        others.push(rustix::thread::gettid().as_raw_nonzero().to_string());
        let mut stream = UnixStream::connect(&socket).unwrap();
        let mut answer = control(Control::Accept, Some(DNSTAP));
        let mut write = |bytes: &[u8]| Write::write_all(&mut stream, bytes).unwrap();
        write(&control(Control::Ready, Some(DNSTAP)));
        Read::read_exact(&mut stream, &mut answer).unwrap();
        let (before, began) = (cpu_time("self", &others), Instant::now());
        let mut write = |bytes: &[u8]| Write::write_all(&mut stream, bytes).unwrap();
        write(&control(Control::Start, Some(DNSTAP)));
        data.chunks(WRITE).for_each(&mut write);
        write(&control(Control::Stop, None));
        let mut finish = control(Control::Finish, None);
        Read::read_exact(&mut stream, &mut finish).unwrap();
        (began.elapsed(), cpu_time("self", &others) - before)
    });
    sent.await.unwrap()
}

/// The processor time of a process in nanoseconds, without the threads with these ids (schedstat of
/// proc(5)).
fn cpu_time(process: &str, without: &[String]) -> u64 {
    let of_task = |id: String| {
        let text = fs::read_to_string(format!("/proc/{process}/task/{id}/schedstat"));
        let text = text.unwrap_or_default();
        text.split(' ').next()?.parse::<u64>().ok()
    };
    fs::read_dir(format!("/proc/{process}/task"))
        .unwrap()
        .map(|task| task.unwrap().file_name().into_string().unwrap())
        .filter(|id| !without.contains(id))
        .filter_map(of_task)
        .sum()
}
