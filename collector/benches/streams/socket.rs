//! A million frames through a unix socket in writes of 4 KiB, as CoreDNS writes them.
//!
//! `fstrm_capture` is measured in its normal use, into a file. Into `/dev/null` it takes 1.7 times
//! as long as the collector. It takes 1.8 times as long as a reader that discards. Most of that is
//! the system's cost of so many small writes.
//!
//! The processors are kept [awake](Awake): the sender waits when the socket is full, the reader
//! when it is empty.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
    time::Instant,
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
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Ratio, cpu_time, discard, median, traffic};

const FRAMES: usize = 1_000_000;
const NAMES: u64 = 10_000;

/// The largest write of CoreDNS.
const WRITE: usize = 4096;

/// One stream: the time until FINISH, and the processor time of the readers in this process.
struct Taken {
    seconds: f64,
    reading: f64,
}

pub(crate) async fn measure(quick: bool) -> Vec<Ratio> {
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
    let _discard = discard::start(&thrown);
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
    let (mut throughput, mut remembering, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    println!(
        "{:>12} {:>12} {:>12} {:>14}   CPU seconds: {:>8} {:>12} {:>10} {:>14}",
        "M frames/s",
        "remembering",
        "discarded",
        "fstrm_capture",
        "ours",
        "remembering",
        "discarded",
        "fstrm_capture"
    );
    for _ in 0..if quick { 3 } else { 25 } {
        let plain = send(&forgetful, &data, awake.ids()).await;
        let one = send(&ours, &data, awake.ids()).await;
        let other = send(&thrown, &data, awake.ids()).await;
        let before = cpu_time(&capture, &[]);
        let third = send(&theirs, &data, awake.ids()).await;
        let captured = (cpu_time(&capture, &[]) - before) as f64 / 1e9;
        let rate = |taken: &Taken| FRAMES as f64 / taken.seconds / 1e6;
        println!(
            "{:>12.2} {:>12.2} {:>12.2} {:>14.2}                {:>8.3} {:>12.3} {:>10.3} {:>14.3}",
            rate(&plain),
            rate(&one),
            rate(&other),
            rate(&third),
            plain.reading,
            one.reading,
            other.reading,
            captured
        );
        throughput.push(other.seconds / plain.seconds);
        remembering.push(other.seconds / one.seconds);
        cpu.push(captured / one.reading);
    }
    vec![
        Ratio {
            what: "unix socket, frames/s: to a reader that discards",
            ratio: median(&mut throughput),
            least: 0.8,
        },
        Ratio {
            what: "the same, remembering names that nobody wants",
            ratio: median(&mut remembering),
            least: 0.0,
        },
        Ratio {
            what: "unix socket: CPU seconds of fstrm_capture to ours",
            ratio: median(&mut cpu),
            least: 2.0,
        },
    ]
}

/// A listener as in the program, and a task that takes the observations.
async fn collector(socket: &Path, remembered: usize) -> JoinSet<()> {
    let (sender, mut receiver) = queue::channel(16 << 20);
    let names: NameIndex = traffic::wanted(NAMES).iter().collect();
    let index = SharedIndex::default();
    index.store(Arc::new(names));
    let observe = Ingest {
        remembered: AnswerCache::new(remembered, std::time::Duration::MAX),
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

/// Sends everything and waits for FINISH, in a thread of its own. `idle`: threads that do not read.
async fn send(socket: &Path, data: &Arc<[u8]>, idle: &[String]) -> Taken {
    let (socket, data, mut others) = (socket.to_owned(), Arc::clone(data), idle.to_vec());
    let sent = tokio::task::spawn_blocking(move || {
        others.push(rustix::thread::gettid().as_raw_nonzero().to_string());
        let mut stream = UnixStream::connect(&socket).unwrap();
        let mut answer = control(Control::Accept, Some(DNSTAP));
        stream
            .write_all(&control(Control::Ready, Some(DNSTAP)))
            .unwrap();
        stream.read_exact(&mut answer).unwrap();
        let (before, began) = (cpu_time("self", &others), Instant::now());
        stream
            .write_all(&control(Control::Start, Some(DNSTAP)))
            .unwrap();
        for chunk in data.chunks(WRITE) {
            stream.write_all(chunk).unwrap();
        }
        stream.write_all(&control(Control::Stop, None)).unwrap();
        let mut finish = control(Control::Finish, None);
        stream.read_exact(&mut finish).unwrap();
        let seconds = began.elapsed().as_secs_f64();
        let reading = (cpu_time("self", &others) - before) as f64 / 1e9;
        Taken { seconds, reading }
    });
    sent.await.unwrap()
}
