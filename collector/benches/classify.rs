//! The publisher: what a cached answer costs, which changes nothing, in look-ups of a hash map of the same names.
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
    publish::{
        Config, Publisher,
        write::{Write, WriteOutcome},
    },
    rules::{ChangedUses, RetentionPolicy, RuleChanges, Source, WantedName},
};
use names::{Observation, Provenance};
use proto::api::{DnsName, DnsNameResolver, Family};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};

const NAMES: u32 = 10_000;
const ROUNDS: u32 = 100;

/// The limit of what an answer costs.
const LOOK_UPS: f64 = 30.0;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

/// A leading publisher with these names in use.
fn publisher(names: &[DnsName]) -> Publisher {
    let grace = Duration::from_secs(5);
    let mut publisher = Publisher::new(Config::default());
    publisher.set_leads(true, at(0));
    publisher.apply_event(Source::EgressFirewall, Event::Synced(Vec::new()), at(0));
    let in_use = Arc::new(WantedName {
        retention: RetentionPolicy {
            grace,
            min_ttl: grace,
            allowed: true,
            ..RetentionPolicy::default()
        },
        ..WantedName::default()
    });
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

/// An answer with two addresses of the name's own.
fn observation((number, name): (u32, &DnsName)) -> Observation {
    let address = |i: u32| IpAddr::from((0x0b00_0000 + 2 * number + i).to_be_bytes());
    Observation {
        name: name.clone(),
        family: Family::V4,
        addresses: [0, 1].map(|i| (address(i), 30)).into_iter().collect(),
        at: at(0),
        server_time: None,
        answered_at: at(0),
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

fn main() -> ExitCode {
    let name = |i: u32| DnsName::parse(&format!("host{i}.team{}.example.com", i % 100)).unwrap();
    let names: Vec<DnsName> = (0..NAMES).map(name).collect();
    let mut publisher = publisher(&names);
    let answers: Vec<_> = (0..).zip(&names).map(observation).collect();
    for answer in &answers {
        publisher.apply_answer(answer);
    }
    // Until there was no write for two seconds.
    let (mut store, mut now, mut wrote) = (Store::default(), 1, 1);
    while now < wrote + 2000 {
        publisher.advance(at(now));
        if store.carry_out(&mut publisher, at(now)) > 0 {
            wrote = now;
        }
        now += 1;
    }
    let map: HashMap<DnsName, usize> = names.into_iter().zip(0..).collect();
    let look_up = per_answer(&answers, |answer| {
        black_box(map.get(&answer.name));
    });
    let unchanged = per_answer(&answers, |answer| {
        publisher.apply_answer(answer);
    });
    let ratio = unchanged / look_up;
    println!(
        "classify: {:.2} M unchanged answers/s, {ratio:.1} look-ups each (at most {LOOK_UPS})",
        1e-6 / unchanged
    );
    ExitCode::from(u8::from(ratio > LOOK_UPS))
}

/// The seconds that an answer takes, in the fastest round.
fn per_answer(answers: &[Observation], mut work: impl FnMut(&Observation)) -> f64 {
    let round = |_| {
        let start = Instant::now();
        for answer in answers {
            work(black_box(answer));
        }
        start.elapsed().as_secs_f64()
    };
    let fastest = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
    fastest / f64::from(NAMES)
}
