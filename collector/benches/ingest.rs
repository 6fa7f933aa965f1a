//! The ingest path from memory, next to the plain cost of reading the bytes and to prost with hickory-proto.
//!
//! One run over the same frames for all, several rounds in turn, the best of each: compare the ratios, not the figures.
//! 70 % of the events are NXDOMAIN, 5 % match one of 10,000 names (1,000 of them wildcards), the rest are queries,
//! FORWARDER_RESPONSE, and answers for other names.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bytes::BytesMut;
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
use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata},
};
use prost::Message as _;
use proto::{
    api::DnsName,
    dnstap::{CONTENT_TYPE, pb},
    frame_stream::{Control, ControlKind, Limits, Step, StreamReader, encode_data},
};
use runtime::clock::Clock;

const FRAMES: usize = 1_000_000;
const ROUNDS: usize = 5;
const NAMES: u64 = 10_000;
const WILDCARDS: u64 = 1_000;

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

/// A small generator (xorshift): the same frames in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn wanted() -> Vec<DnsName> {
    let regular = (0..NAMES - WILDCARDS).map(|i| format!("host{i}.team{}.example.com", i % 100));
    let wildcards = (0..WILDCARDS).map(|i| format!("*.zone{i}.example.net"));
    regular
        .chain(wildcards)
        .map(|name| DnsName::parse(&name).unwrap())
        .collect()
}

fn frame(random: &mut Random, share: &mut [u64; 2]) -> Vec<u8> {
    let draw = random.below(100);
    let matches = draw < 5;
    let number = random.below(NAMES);
    let asked = if matches && number < WILDCARDS {
        format!("pod{}.zone{number}.example.net.", random.below(100))
    } else if matches {
        format!(
            "host{0}.team{1}.example.com.",
            number - WILDCARDS,
            (number - WILDCARDS) % 100
        )
    } else if draw < 75 {
        format!(
            "www{number}.example.org.team{}.svc.cluster.local.",
            number % 100
        )
    } else {
        format!("www{number}.example.org.")
    };
    let (kind, code) = match draw {
        0..5 => (pb::message::Type::ClientResponse, ResponseCode::NoError),
        5..75 => (pb::message::Type::ClientResponse, ResponseCode::NXDomain),
        75..85 => (pb::message::Type::ClientQuery, ResponseCode::NoError),
        85..90 => (pb::message::Type::ForwarderResponse, ResponseCode::NoError),
        _ => (pb::message::Type::ClientResponse, ResponseCode::NoError),
    };
    share[usize::from(matches)] += 1;
    let name = Name::from_ascii(&asked).unwrap();
    let mut message = Message::new(
        random.below(65_536) as u16,
        MessageType::Response,
        OpCode::Query,
    );
    message.metadata.response_code = code;
    message.add_query(Query::query(name.clone(), RecordType::A));
    if code == ResponseCode::NoError {
        for i in 1..=2 {
            let address = rdata::A::new(93, 184, (number % 250) as u8, i);
            message.add_answer(Record::from_rdata(name.clone(), 30, RData::A(address)));
        }
    }
    let dns = message.to_vec().unwrap();
    let is_query = kind == pb::message::Type::ClientQuery;
    let event = pb::Message {
        r#type: kind as i32,
        socket_family: Some(1),
        socket_protocol: Some(1),
        query_address: Some(vec![
            10,
            128,
            random.below(250) as u8,
            random.below(250) as u8,
        ]),
        query_port: Some(40_000),
        query_time_sec: Some(1_800_000_000),
        query_time_nsec: Some(1),
        response_time_sec: (!is_query).then_some(1_800_000_000),
        response_time_nsec: (!is_query).then_some(2),
        query_message: is_query.then(|| dns.clone()),
        response_message: (!is_query).then_some(dns),
        ..pb::Message::default()
    };
    let dnstap = pb::Dnstap {
        r#type: 1,
        identity: Some(b"coredns-7db6d8ff4d-abcde".to_vec()),
        version: Some(b"CoreDNS-1.15.0".to_vec()),
        message: Some(event),
        ..pb::Dnstap::default()
    };
    dnstap.encode_to_vec()
}

/// START and the frames, as one stream.
fn stream() -> (BytesMut, [u64; 2]) {
    let (mut random, mut share) = (Random(0x2545_f491_4f6c_dd1d), [0; 2]);
    let mut stream = BytesMut::new();
    let start = Control::with_content_type(ControlKind::Start, CONTENT_TYPE.into());
    start.encode(&Limits::default(), &mut stream).unwrap();
    for _ in 0..FRAMES {
        encode_data(
            &frame(&mut random, &mut share),
            &Limits::default(),
            &mut stream,
        )
        .unwrap();
    }
    (stream, share)
}

fn each_frame(stream: &[u8], mut take: impl FnMut(&[u8])) {
    let mut reader = StreamReader::new(CONTENT_TYPE, Limits::default());
    let mut rest = stream;
    while !rest.is_empty() {
        let consumed = match reader.step(rest).unwrap() {
            Step::Data { payload, consumed } => {
                take(payload);
                consumed
            }
            Step::Control { consumed, .. } => consumed,
            Step::Incomplete { .. } => panic!("the stream is whole"),
        };
        rest = &rest[consumed..];
    }
}

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
        observed += u64::from(names.wants(&asked) && !addresses.is_empty());
    });
    observed
}

fn timed(work: impl FnOnce() -> u64) -> (Duration, u64) {
    let start = Instant::now();
    let result = black_box(work());
    (start.elapsed(), result)
}

fn allocations(work: impl FnOnce() -> u64) -> u64 {
    let load = || counting::ALLOCATIONS.load(std::sync::atomic::Ordering::Relaxed);
    let before = load();
    black_box(work());
    load() - before
}

fn main() {
    println!("ingest: making {FRAMES} frames");
    let (stream, [other, matching]) = stream();
    let wanted = wanted();
    let names: NameIndex = wanted.iter().collect();
    let (forget, remember) = (Remembered::new(0), Remembered::new(65_536));
    let mut best = [Duration::MAX; 4];
    let mut observed = [0; 4];
    for _ in 0..ROUNDS {
        let runs = [
            timed(|| read_bytes(&stream)),
            timed(|| ingest(&stream, &names, &forget)),
            timed(|| ingest(&stream, &names, &remember)),
            timed(|| libraries(&stream, &names)),
        ];
        for (slot, (time, count)) in runs.into_iter().enumerate() {
            best[slot] = best[slot].min(time);
            observed[slot] = count;
        }
    }
    assert_eq!(
        observed[1], matching,
        "every matching answer is an observation"
    );
    assert_eq!(observed[1], observed[3], "both ways find the same");

    let bytes = stream.len() as f64;
    println!(
        "{} bytes a frame, {matching} of {} events match",
        stream.len() / FRAMES,
        other + matching
    );
    println!(
        "{:<34}{:>12}{:>12}{:>10}",
        "", "M frames/s", "GB/s", "ratio"
    );
    for (what, time) in [
        "reading the bytes",
        "ingest",
        "ingest, remembering 65,536 names",
        "prost and hickory-proto",
    ]
    .iter()
    .zip(best)
    {
        let seconds = time.as_secs_f64();
        let ratio = seconds / best[1].as_secs_f64();
        println!(
            "{what:<34}{:>12.2}{:>12.2}{:>10.2}",
            FRAMES as f64 / seconds / 1e6,
            bytes / seconds / 1e9,
            ratio
        );
    }
    println!("(ratio: how many times the time of ingest; over 1 is slower)");

    let idle: NameIndex = [DnsName::parse("nobody.example.com").unwrap()]
        .iter()
        .collect();
    let unmatched = allocations(|| ingest(&stream, &idle, &forget));
    println!("allocations in {FRAMES} events of which none matches: {unmatched}");
    let all = allocations(|| ingest(&stream, &names, &forget));
    println!(
        "allocations with the matching events: {:.2} each",
        (all - unmatched) as f64 / matching as f64
    );
}
