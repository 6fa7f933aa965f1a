//! The ingest path in memory, from the bytes of a stream to observations, compared with lower
//! bounds and other implementations.
//!
//! All run over the same frames, for several rounds in turn. The best time for each part of the
//! frames counts, which reduces the effect of other load. The ratios matter, not the absolute
//! values.
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

use bytes::BytesMut;
use collector::{
    listen::metrics::Counts,
    matching::{
        answer_cache::AnswerCache,
        index::NameIndex,
        pipeline::{Context, StreamHistory, observe},
        query_origin::OwnQueries,
    },
};
use hickory_proto::op::{Message, ResponseCode};
use prost::Message as _;
use proto::dnstap::pb;
use runtime::clock::Clock;
use traffic::{Random, each_frame, minimal, wanted};

const FRAMES: usize = 1_000_000;
/// The number of streams, read one after the other.
const PARTS: usize = 10;
const NAMES: u64 = 10_000;
const FEW_NAMES: u64 = 100;
const MANY_NAMES: u64 = 100_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Counts allocations. The allocator is unsafe by its trait; it only counts and forwards.
#[allow(unsafe_code)]
mod counting {
    use std::{
        alloc::{GlobalAlloc, Layout, System},
        sync::atomic::{AtomicU64, Ordering},
    };

    pub(super) static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

    pub(super) struct Counting;

    // SAFETY: every call is forwarded unchanged to the system's allocator.
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

/// So many frames in [`PARTS`] streams, and the number that match.
fn streams(frames: usize, names: u64) -> (Vec<BytesMut>, u64) {
    let (mut random, mut all) = (Random::default(), 0);
    let streams = (0..PARTS).map(|_| {
        let (stream, matching) = traffic::stream_of(&mut random, frames / PARTS, names);
        all += matching;
        stream
    });
    (streams.collect(), all)
}

/// The lower bound: each byte is loaded once.
fn read_bytes(stream: &[u8]) -> u64 {
    let (words, rest) = stream.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum: u64, word| {
        sum.wrapping_add(u64::from_ne_bytes(*word))
    });
    sum.wrapping_add(rest.iter().map(|byte| u64::from(*byte)).sum())
}

fn ingest(stream: &[u8], names: &NameIndex, remembered: &AnswerCache) -> u64 {
    let context = Context {
        names,
        clock: &Clock::system(),
        remembered,
        own: &OwnQueries::default(),
        secrets: None,
    };
    let (mut counts, mut observed) = (Counts::default(), 0);
    // Every matching answer must become an observation.
    let mut history = StreamHistory::default();
    each_frame(stream, |payload| {
        let observation = observe(payload, context, &mut history, &mut counts);
        observed += u64::from(observation.is_some());
    });
    observed
}

/// Two readers, each with the whole stream, as with two connections.
fn in_two_threads(stream: &[u8], names: &NameIndex, remembered: &AnswerCache) -> u64 {
    std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| scope.spawn(|| ingest(stream, names, remembered)));
        readers.map(|reader| reader.join().unwrap()).iter().sum()
    })
}

/// The same work with general-purpose libraries.
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

/// Reads a stream, and returns the number of matching events.
type Work<'a> = Box<dyn Fn(&[u8]) -> u64 + 'a>;

/// One way to read streams.
struct Run<'a> {
    what: &'static str,
    work: Work<'a>,
    streams: &'a [BytesMut],
    /// How often each stream is read.
    times: usize,
    best: Vec<Duration>,
    observed: u64,
}

impl<'a> Run<'a> {
    fn new(
        what: &'static str,
        streams: &'a [BytesMut],
        times: usize,
        work: impl Fn(&[u8]) -> u64 + 'a,
    ) -> Self {
        Self {
            what,
            work: Box::new(work),
            streams,
            times,
            best: vec![Duration::MAX; streams.len()],
            observed: 0,
        }
    }

    fn time(&mut self) {
        self.observed = 0;
        for (stream, best) in self.streams.iter().zip(&mut self.best) {
            let start = Instant::now();
            self.observed += black_box((self.work)(stream));
            *best = start.elapsed().min(*best);
        }
    }

    fn seconds(&self) -> f64 {
        self.best.iter().sum::<Duration>().as_secs_f64()
    }

    fn bytes(&self) -> usize {
        self.times
            * self
                .streams
                .iter()
                .map(|stream| stream.len())
                .sum::<usize>()
    }

    /// How many times as fast as `other`.
    fn against(&self, other: &Self) -> f64 {
        other.seconds() / self.seconds()
    }
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "quick");
    let (frames, rounds) = if quick { (FRAMES / 10, 3) } else { (FRAMES, 7) };
    println!("ingest: making 3 times {frames} frames");
    let [few, usual, many] = [FEW_NAMES, NAMES, MANY_NAMES].map(|count| {
        let (streams, matching) = streams(frames, count);
        let names = wanted(count);
        (
            streams,
            names.iter().collect::<NameIndex>(),
            names,
            matching,
        )
    });
    let least = minimal::Wanted::new(&usual.2);
    let (forget, remember) = (AnswerCache::default(), AnswerCache::new(65_536, DAY));
    let twice = |stream: &[u8], remembered| {
        ingest(stream, &usual.1, remembered) + ingest(stream, &usual.1, remembered)
    };

    let mut runs = [
        Run::new("reading the bytes", &usual.0, 1, read_bytes),
        Run::new("the least there is to do", &usual.0, 1, |stream| {
            minimal::matching(stream, &least)
        }),
        Run::new("ingest", &usual.0, 1, |stream| {
            ingest(stream, &usual.1, &forget)
        }),
        Run::new("ingest, remembering 65,536 names", &usual.0, 1, |stream| {
            ingest(stream, &usual.1, &remember)
        }),
        Run::new("ingest, 100 names", &few.0, 1, |stream| {
            ingest(stream, &few.1, &forget)
        }),
        Run::new("ingest, 100,000 names", &many.0, 1, |stream| {
            ingest(stream, &many.1, &forget)
        }),
        Run::new("ingest twice, one thread", &usual.0, 2, |stream| {
            twice(stream, &forget)
        }),
        Run::new("ingest twice, two threads", &usual.0, 2, |stream| {
            in_two_threads(stream, &usual.1, &forget)
        }),
        Run::new("the same remembering, one thread", &usual.0, 2, |stream| {
            twice(stream, &remember)
        }),
        Run::new("the same remembering, two threads", &usual.0, 2, |stream| {
            in_two_threads(stream, &usual.1, &remember)
        }),
        Run::new("prost and hickory-proto", &usual.0, 1, |stream| {
            libraries(stream, &usual.1)
        }),
    ];
    for _ in 0..rounds {
        runs.iter_mut().for_each(Run::time);
    }
    for run in &runs {
        println!(
            "{:<34}{:>10.2} M frames/s{:>10.2} GB/s",
            run.what,
            (run.times * frames) as f64 / run.seconds() / 1e6,
            run.bytes() as f64 / run.seconds() / 1e9,
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
        one_remembers,
        two_remember,
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
            0.6,
        ),
        ("two threads / one", two.against(one), 1.7),
        (
            "the same, remembering",
            two_remember.against(one_remembers),
            0.0,
        ),
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

    let each = |names: &NameIndex, remembered: &AnswerCache| {
        let streams = usual.0.iter();
        allocations(|| {
            streams
                .map(|stream| ingest(stream, names, remembered))
                .sum()
        })
    };
    let idle = NameIndex::default();
    let (unmatched, remembered) = (each(&idle, &forget), each(&idle, &remember));
    println!("allocations where nothing matches: {unmatched}, remembering {remembered}");
    let all = each(&usual.1, &forget);
    println!(
        "allocations for each event that matches: {:.2}",
        (all - unmatched) as f64 / usual.3 as f64
    );
    ExitCode::from(u8::from(!holds))
}
