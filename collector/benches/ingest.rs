//! The ingest path from memory: bytes of a stream to observations, held against limits and peers.
//!
//! One run over the same frames for all, several rounds in turn, the best of each: the ratios count, not the figures.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod traffic;

use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use collector::{
    guards::Guards,
    ingest::{
        metrics::Counts,
        pipeline::{self, Context},
    },
    names::NameIndex,
    remember::Remembered,
    resolve::OwnQueries,
};
use hickory_proto::op::{Message, ResponseCode};
use prost::Message as _;
use proto::dnstap::pb;
use runtime::clock::Clock;
use traffic::{each_frame, minimal, stream, wanted};

const FRAMES: usize = 1_000_000;
const NAMES: u64 = 10_000;
const FEW_NAMES: u64 = 100;
const MANY_NAMES: u64 = 100_000;

/// Counts allocations. The allocator is unsafe by its trait; all it does is to count and pass on.
#[allow(unsafe_code)]
mod counting {
    use std::{
        alloc::{GlobalAlloc, Layout, System},
        sync::atomic::{AtomicU64, Ordering},
    };

    pub(super) static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

    pub(super) struct Counting;

    // SAFETY: every call goes to the system's allocator as it came.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller keeps the contract of `alloc`.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: the caller keeps the contract of `dealloc`.
            unsafe { System.dealloc(pointer, layout) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The plain cost of the bytes: each is loaded once.
fn read_bytes(stream: &[u8]) -> u64 {
    let (words, rest) = stream.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum: u64, word| {
        sum.wrapping_add(u64::from_ne_bytes(*word))
    });
    sum.wrapping_add(rest.iter().map(|byte| u64::from(*byte)).sum())
}

fn ingest(stream: &[u8], names: &NameIndex, remembered: &Remembered) -> u64 {
    let context = Context {
        names,
        guards: &Guards::default(),
        clock: &Clock::system(),
        remembered,
        own: &OwnQueries::default(),
        secrets: None,
    };
    let (mut counts, mut observed) = (Counts::default(), 0);
    each_frame(stream, |payload| {
        observed += u64::from(pipeline::observe(payload, context, &mut counts).is_some());
    });
    observed
}

/// Two readers, each with the whole stream, as two connections would have.
fn in_two_threads(stream: &[u8], names: &NameIndex, remembered: &Remembered) -> u64 {
    std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| scope.spawn(|| ingest(stream, names, remembered)));
        readers.map(|reader| reader.join().unwrap()).iter().sum()
    })
}

/// What the same costs with general libraries.
fn libraries(stream: &[u8], names: &NameIndex) -> u64 {
    let mut observed = 0;
    each_frame(stream, |payload| {
        let Some(message) = pb::Dnstap::decode(payload).unwrap().message else {
            return;
        };
        if message.r#type != pb::message::Type::ClientResponse as i32 {
            return;
        }
        let response = Message::from_vec(&message.response_message.unwrap()).unwrap();
        if response.metadata.response_code != ResponseCode::NoError {
            return;
        }
        let asked = response.queries[0].name().to_lowercase().to_ascii();
        let asked = proto::dns::Name::from_text(&asked).unwrap();
        let addresses: Vec<_> = response
            .answers
            .iter()
            .filter_map(|record| record.data.ip_addr())
            .collect();
        observed += u64::from(names.find(&asked).is_some() && !addresses.is_empty());
    });
    observed
}

fn allocations(work: impl FnOnce() -> u64) -> u64 {
    let load = || counting::ALLOCATIONS.load(std::sync::atomic::Ordering::Relaxed);
    let before = load();
    black_box(work());
    load() - before
}

/// One way to read a stream.
struct Run<'a> {
    what: &'static str,
    work: Box<dyn Fn() -> u64 + 'a>,
    bytes: usize,
    best: Duration,
    observed: u64,
}

impl<'a> Run<'a> {
    fn new(what: &'static str, bytes: usize, work: impl Fn() -> u64 + 'a) -> Self {
        Self {
            what,
            work: Box::new(work),
            bytes,
            best: Duration::MAX,
            observed: 0,
        }
    }

    fn time(&mut self) {
        let start = Instant::now();
        self.observed = black_box((self.work)());
        self.best = self.best.min(start.elapsed());
    }

    /// How many times as fast as `other`.
    fn against(&self, other: &Self) -> f64 {
        other.best.as_secs_f64() / self.best.as_secs_f64()
    }
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "quick");
    let (frames, rounds) = if quick { (FRAMES / 10, 3) } else { (FRAMES, 7) };
    println!("ingest: making 3 times {frames} frames");
    let [few, usual, many] = [FEW_NAMES, NAMES, MANY_NAMES].map(|count| {
        let (stream, matching) = stream(frames, count);
        let names = wanted(count);
        (stream, names.iter().collect::<NameIndex>(), names, matching)
    });
    let least = minimal::Wanted::new(&usual.2);
    let (forget, remember) = (Remembered::new(0), Remembered::new(65_536));

    let bytes = usual.0.len();
    let mut runs = [
        Run::new("reading the bytes", bytes, || read_bytes(&usual.0)),
        Run::new("the least there is to do", bytes, || {
            minimal::matching(&usual.0, &least)
        }),
        Run::new("ingest", bytes, || ingest(&usual.0, &usual.1, &forget)),
        Run::new("ingest, remembering 65,536 names", bytes, || {
            ingest(&usual.0, &usual.1, &remember)
        }),
        Run::new("ingest, 100 names", few.0.len(), || {
            ingest(&few.0, &few.1, &forget)
        }),
        Run::new("ingest, 100,000 names", many.0.len(), || {
            ingest(&many.0, &many.1, &forget)
        }),
        Run::new("ingest twice, one thread", 2 * bytes, || {
            ingest(&usual.0, &usual.1, &remember) + ingest(&usual.0, &usual.1, &remember)
        }),
        Run::new("ingest twice, two threads", 2 * bytes, || {
            in_two_threads(&usual.0, &usual.1, &remember)
        }),
        Run::new("prost and hickory-proto", bytes, || {
            libraries(&usual.0, &usual.1)
        }),
    ];
    for _ in 0..rounds {
        runs.iter_mut().for_each(Run::time);
    }
    for run in &runs {
        println!(
            "{:<34}{:>10.2} M frames/s{:>10.2} GB/s",
            run.what,
            run.bytes as f64 / bytes as f64 * frames as f64 / run.best.as_secs_f64() / 1e6,
            run.bytes as f64 / run.best.as_secs_f64() / 1e9,
        );
    }
    let [
        _,
        least,
        plain,
        remembering,
        few_names,
        many_names,
        one,
        two,
        libraries,
    ] = &runs;
    for run in [least, plain, remembering, libraries] {
        assert_eq!(run.observed, usual.3, "{}: what matches is found", run.what);
    }
    assert_eq!(few_names.observed, few.3);
    assert_eq!(many_names.observed, many.3);

    let mut holds = true;
    for (what, ratio, limit) in [
        (
            "ingest / the least there is to do",
            plain.against(least),
            0.6,
        ),
        ("the same, remembering", remembering.against(least), 0.0),
        (
            "100,000 names / 100 names",
            many_names.against(few_names),
            0.7,
        ),
        ("two threads / one", two.against(one), 1.7),
        (
            "ingest / prost and hickory-proto",
            plain.against(libraries),
            0.0,
        ),
    ] {
        holds &= ratio >= limit;
        let limit = if limit > 0.0 {
            format!("at least {limit}")
        } else {
            String::new()
        };
        println!("{what:<40}{ratio:>8.2}  {limit}");
    }

    let idle = NameIndex::default();
    let unmatched = allocations(|| ingest(&usual.0, &idle, &forget));
    let remembered = allocations(|| ingest(&usual.0, &idle, &remember));
    println!("allocations where nothing matches: {unmatched}, remembering {remembered}");
    let all = allocations(|| ingest(&usual.0, &usual.1, &forget));
    println!(
        "allocations for each event that matches: {:.2}",
        (all - unmatched) as f64 / usual.3 as f64
    );
    ExitCode::from(u8::from(!holds))
}
