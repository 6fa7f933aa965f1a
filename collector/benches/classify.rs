//! The publisher: the rate of unchanged answers, the cost of new names under a full wildcard, and the number of writes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

use std::{
    collections::HashMap,
    hint::black_box,
    net::IpAddr,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use collector::{
    publish::write::{Write, WriteOutcome},
    publish::{Config, Publisher},
    rules::{ChangedUses, RetentionPolicy, RuleChanges, Source, WantedName},
};
use names::{Addresses, FamilyOutcome, Limits, LookupResult, Observation, Provenance};
use proto::api::{DnsName, DnsNameResolver, Family};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};

const TTL: u32 = 30;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn names(count: usize) -> Vec<DnsName> {
    let text = |i: usize| format!("host{i}.team{}.example.com", i % 100);
    (0..count)
        .map(|i| DnsName::parse(&text(i)).unwrap())
        .collect()
}

fn addresses(name: usize, count: usize) -> impl Iterator<Item = (IpAddr, u32)> {
    (0..count).map(move |i| {
        let number = 0x0b00_0000 + u32::try_from(name * count + i).unwrap();
        (IpAddr::from(number.to_be_bytes()), TTL)
    })
}

/// A leading publisher with these names in use.
fn publisher(names: &[DnsName], lookups: bool) -> Publisher {
    let grace = Duration::from_secs(5);
    let mut publisher = Publisher::new(Config {
        limits: Limits {
            lookups,
            ..Limits::default()
        },
        ..Config::default()
    });
    publisher.set_leads(true, at(0));
    publisher.apply_event(Source::EgressFirewall, Event::Synced(Vec::new()), at(0));
    let terms = RetentionPolicy {
        grace,
        min_ttl: grace,
        allowed: true,
        ..RetentionPolicy::default()
    };
    let in_use = Arc::new(WantedName::with_retention(terms));
    let names = names
        .iter()
        .map(|name| (name.clone(), Some(Arc::clone(&in_use))));
    let changes = RuleChanges {
        source: Source::EgressFirewall,
        uses: ChangedUses {
            names: names.collect(),
            namespaces: Vec::new(),
        },
        in_sync: true,
        has_failed: false,
    };
    publisher.apply_rules(changes, at(0));
    publisher
}

fn observation(name: &DnsName, number: usize, count: usize, millis: i64) -> Observation {
    Observation {
        name: name.clone(),
        family: Family::V4,
        addresses: addresses(number, count).collect(),
        at: at(millis),
        server_time: None,
        answered_at: at(millis),
        client: None,
        truncated: false,
        source: Provenance::STREAM,
    }
}

/// A store without latency.
#[derive(Default)]
struct Store {
    objects: HashMap<ObjectKey, Box<DnsNameResolver>>,
    versions: u64,
    /// The statuses that were written.
    statuses: usize,
}

impl Store {
    /// Returns the number of writes.
    fn carry_out(&mut self, publisher: &mut Publisher, now: Timestamp) -> usize {
        let writes = publisher.writes(now);
        for write in &writes {
            let key = write.key();
            let (Write::Create(object) | Write::Status(object)) = write else {
                panic!("nothing is to be deleted: {write:?}");
            };
            if let (Write::Create(_), Some(known)) = (write, self.objects.get(&key)) {
                // Among so many names, two may have the same object name.
                let stale = WriteOutcome::Conflict(known.clone());
                publisher.apply_written(&key, write, stale, now);
                continue;
            }
            self.versions += 1;
            self.statuses += usize::from(matches!(write, Write::Status(_)));
            let mut object = object.clone();
            let uid = &mut object.metadata.uid;
            uid.get_or_insert_with(|| format!("{:036}", self.versions));
            object.metadata.resource_version = Some(format!("{:010}", self.versions));
            let event = Event::Applied(object.as_ref().clone());
            self.objects.insert(key.clone(), object.clone());
            publisher.apply_written(&key, write, WriteOutcome::Stored(object), now);
            publisher.apply_event(Source::EgressFirewall, event, now);
        }
        writes.len()
    }
}

/// Carries out all writes, until there was none for two seconds.
fn settle(publisher: &mut Publisher, millis: i64) {
    let (mut store, mut now, mut wrote) = (Store::default(), millis, millis);
    while now < wrote + 2000 {
        publisher.advance(at(now));
        if store.carry_out(publisher, at(now)) > 0 {
            wrote = now;
        }
        now += 1;
    }
}

/// The result of a look-up with `count` addresses, starting at `number`.
fn round(name: DnsName, number: usize, count: usize, now: Timestamp) -> LookupResult {
    let addresses: Addresses = addresses(number, count).collect();
    let v4 = FamilyOutcome::Addresses {
        addresses,
        at: now,
        complete: true,
    };
    LookupResult {
        name,
        started: now,
        finished: now,
        is_unresponsive: false,
        v4,
        v6: FamilyOutcome::NoData,
    }
}

/// Cached answers, which change nothing.
fn unchanged_answers() -> bool {
    const NAMES: usize = 10_000;
    const ROUNDS: usize = 100;
    let names = names(NAMES);
    let mut publisher = publisher(&names, false);
    let list: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(i, name)| observation(name, i, 2, 0))
        .collect();
    for observation in &list {
        publisher.apply_answer(observation);
    }
    settle(&mut publisher, 1);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for observation in &list {
            publisher.apply_answer(black_box(observation));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = (ROUNDS * NAMES) as f64 / seconds / 1e6;
    println!("unchanged answers taken in                 {rate:>10.2} M/s            (at least 1)");
    rate >= 1.0
}

/// An hour of simulated time in which 1,000 names keep their addresses.
fn writes_in_an_hour() -> bool {
    const NAMES: usize = 1_000;
    let names = names(NAMES);
    let numbers: HashMap<_, _> = names
        .iter()
        .enumerate()
        .map(|(i, name)| (name.clone(), i))
        .collect();
    let mut publisher = publisher(&names, true);
    let (mut store, mut now, mut lookups) = (Store::default(), 0_i64, 0);
    while now < 3_600_000 {
        let time = at(now);
        publisher.advance(time);
        while let Some(request) = publisher.next_due(time) {
            lookups += 1;
            let number = numbers[&request.name];
            let round = round(request.name, number, 2, time);
            publisher.apply_lookup(round, time);
        }
        store.carry_out(&mut publisher, time);
        now += publisher.next_wake().map_or(1000, |wake| {
            i64::try_from(wake.since(time).as_millis())
                .unwrap()
                .clamp(1, 1000)
        });
    }
    let each = store.statuses as f64 / NAMES as f64;
    println!(
        "writes a name in an hour, TTL 30 s         {each:>10.2} ({} look-ups) (at most 7)",
        lookups / NAMES
    );
    each <= 7.0
}

/// Random labels under a full wildcard, of eight clients each and of one, beside unchanged answers
/// in the same wildcard.
fn full_wildcard() -> bool {
    const FULL: usize = 1024;
    const NEW: usize = 20_000;
    let wildcard = DnsName::parse("*.wild.example.com").unwrap();
    let label = |i: usize| DnsName::parse(&format!("x{i}.wild.example.com")).unwrap();
    let mut holds = true;
    for (addresses, clients) in [(1, 1), (8, 1), (1, 100)] {
        let mut publisher = publisher(std::slice::from_ref(&wildcard), false);
        let (mut store, mut millis) = (Store::default(), 0);
        let seen = |publisher: &mut Publisher, name: &DnsName, number: usize, millis| {
            let mut observation = observation(name, number, addresses, millis);
            let client = u8::try_from(number % clients).unwrap();
            observation.client = Some([10, 0, 0, client].into());
            publisher.apply_answer(&observation);
        };
        for i in 0..FULL {
            seen(&mut publisher, &label(i), i, 0);
        }
        let names: Vec<DnsName> = (0..NEW).map(|i| label(FULL + i)).collect();
        let kept: Vec<DnsName> = (FULL / 2..FULL).map(label).collect();
        store.carry_out(&mut publisher, at(millis));
        let began = Instant::now();
        for i in 0..NEW {
            let number = FULL / 2 + i % (FULL / 2);
            seen(&mut publisher, &kept[i % kept.len()], number, millis);
        }
        let unchanged = began.elapsed() / NEW as u32;
        let (mut taken, mut written) = (Duration::ZERO, Duration::ZERO);
        for (i, name) in names.iter().enumerate() {
            let began = Instant::now();
            seen(&mut publisher, name, FULL + i, millis);
            taken += began.elapsed();
            if i % 50 == 49 {
                // A twentieth of a second of a thousand new names, with their writes.
                millis += 50;
                let began = Instant::now();
                publisher.advance(at(millis));
                store.carry_out(&mut publisher, at(millis));
                written += began.elapsed();
            }
        }
        let (new, written) = (taken / NEW as u32, written / NEW as u32);
        let ratio = new.as_secs_f64() / unchanged.as_secs_f64();
        println!(
            "new name, full wildcard, {addresses} addresses, {clients} clients  {:>7} ns, {ratio:.1} times an unchanged answer of {} ns (at most 20), and {} ns for what is written",
            new.as_nanos(),
            unchanged.as_nanos(),
            written.as_nanos()
        );
        black_box(&publisher);
        holds &= ratio <= 20.0;
    }
    holds
}

fn main() -> ExitCode {
    println!("classify: the publisher");
    let holds = [full_wildcard(), unchanged_answers(), writes_in_an_hour()];
    ExitCode::from(u8::from(holds.contains(&false)))
}
