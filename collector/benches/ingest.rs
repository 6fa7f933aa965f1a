//! The ingest path in memory, from the bytes of a stream to observations: against the least there is to do, with few and
//! many names in rules, and on two processors.
//!
//! The best of several rounds counts, which reduces the effect of other load. The ratios matter, not the absolute values.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod minimal;

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
use runtime::clock::Clock;
use tests::traffic;

const FRAMES: usize = 1_000_000;

/// A stream, and the names in rules.
struct Traffic {
    stream: BytesMut,
    names: NameIndex,
    least: minimal::Wanted,
    /// The events that match.
    matching: u64,
}

impl Traffic {
    fn new(frames: usize, names: u64) -> Self {
        let (stream, matching) = traffic::stream(frames, names);
        let names = traffic::wanted(names);
        Self {
            stream,
            names: names.iter().collect(),
            least: minimal::Wanted::new(&names),
            matching,
        }
    }

    /// The least there is to do.
    fn find(&self) {
        let found = minimal::matching(&self.stream, &self.least);
        assert_eq!(black_box(found), self.matching);
    }

    /// Reads the stream; every matching answer must become an observation.
    fn ingest(&self) {
        let context = Context {
            names: &self.names,
            clock: &Clock::system(),
            remembered: &AnswerCache::default(),
            own: &OwnQueries::default(),
            secrets: None,
        };
        let (mut counts, mut observed) = (Counts::default(), 0);
        let mut history = StreamHistory::default();
        traffic::each_frame(&self.stream, |payload| {
            let observation = black_box(observe(payload, context, &mut history, &mut counts));
            observed += u64::from(observation.is_some());
        });
        assert_eq!(observed, self.matching);
    }
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "quick");
    let (frames, rounds) = if quick { (FRAMES / 10, 3) } else { (FRAMES, 7) };
    println!("ingest: making 3 times {frames} frames");
    let [few, usual, many] = [100, 10_000, 100_000].map(|names| Traffic::new(frames, names));
    let two_threads = || {
        std::thread::scope(|scope| {
            let _readers = [(); 2].map(|()| scope.spawn(|| usual.ingest()));
        });
    };
    let twice = || [(); 2].iter().for_each(|()| usual.ingest());
    let runs: [(&str, usize, &dyn Fn()); 6] = [
        ("the least there is to do", 1, &|| usual.find()),
        ("10,000 names", 1, &|| usual.ingest()),
        ("100 names", 1, &|| few.ingest()),
        ("100,000 names", 1, &|| many.ingest()),
        ("twice, one thread", 2, &twice),
        ("twice, two threads", 2, &two_threads),
    ];
    let mut best = [Duration::MAX; 6];
    for _ in 0..rounds {
        for ((_, _, run), best) in runs.iter().zip(&mut best) {
            let start = Instant::now();
            run();
            *best = start.elapsed().min(*best);
        }
    }
    let [least, plain, of_few, of_many, one, two] = best.map(|best| best.as_secs_f64());
    for ((what, times, _), best) in runs.iter().zip(best) {
        let rate = (times * frames) as f64 / best.as_secs_f64() / 1e6;
        println!("{what:<40}{rate:>8.2} M frames/s");
    }
    let mut holds = true;
    for (what, ratio, limit) in [
        ("ingest / the least there is to do", least / plain, 0.6),
        ("100,000 names / 100 names", of_few / of_many, 0.6),
        ("two threads / one", one / two, 1.7),
    ] {
        holds &= ratio >= limit;
        println!("{what:<40}{ratio:>8.2}  at least {limit}");
    }
    ExitCode::from(u8::from(!holds))
}
