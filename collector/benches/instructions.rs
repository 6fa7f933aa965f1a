//! Instructions for each event of the ingest path, counted by callgrind: the same in every run on a
//! machine.
//!
//! A tenth of the names are wildcards; 5 % of the events match. The limit applies without the cache
//! of answers; the cost with the cache is printed too.

use std::time::Duration;

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
use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use runtime::clock::Clock;
use tests::traffic;

const EVENTS: usize = 20_000;
const NAMES: u64 = 10_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// For each event.
const LIMIT: u64 = 520;

struct Input {
    stream: BytesMut,
    names: NameIndex,
    remembered: AnswerCache,
    clock: Clock,
    own: OwnQueries,
    counts: Counts,
}

fn input(remembered: usize) -> Input {
    let (stream, _) = traffic::stream(EVENTS, NAMES);
    let mut input = Input {
        stream,
        names: traffic::wanted(NAMES).iter().collect(),
        remembered: AnswerCache::new(remembered, DAY),
        clock: Clock::system(),
        own: OwnQueries::default(),
        counts: Counts::default(),
    };
    // The names are cached before: a collector sees few names for the first time.
    ingest(&mut input);
    input
}

fn ingest(input: &mut Input) -> usize {
    let context = Context {
        names: &input.names,
        clock: &input.clock,
        remembered: &input.remembered,
        own: &input.own,
        secrets: None,
    };
    let (counts, mut observed) = (&mut input.counts, 0);
    // Every matching answer must become an observation.
    let mut history = StreamHistory::default();
    traffic::each_frame(&input.stream, |payload| {
        let observation = observe(payload, context, &mut history, counts);
        observed += usize::from(observation.is_some());
    });
    observed
}

fn limited() -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(Callgrind::default().hard_limits([(EventKind::Ir, LIMIT * EVENTS as u64)]));
    config
}

#[library_benchmark]
#[bench::without_remembering(args = (0), setup = input, config = limited())]
#[bench::remembering(args = (65_536), setup = input)]
fn events(mut input: Input) -> (usize, Input) {
    (ingest(&mut input), input)
}

library_benchmark_group!(name = ingest_path, benchmarks = events);
main!(library_benchmark_groups = ingest_path);
