//! The owner of the statuses: how fast it takes in answers, what it remembers an address with, how often it writes, and how
//! late names are looked up.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

use std::{
    collections::{BTreeMap, HashMap},
    hint::black_box,
    net::IpAddr,
    time::{Duration, Instant},
};

use collector::{
    args::ManageObjects,
    guards::Guards,
    observation::Observation,
    owner::{Config, Owner, Rates},
    policy::{Terms, Wanted},
    publish::{Outcome, Write},
    remember::Remembered,
    resolve::{FamilyOutcome, Round},
    state::Limits,
};
use proto::api::{DnsName, DnsNameResolver, Family};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};

const TTL: u32 = 30;

/// Counts the bytes that are allocated now. The allocator is unsafe by its trait; all it does is to count and pass on.
#[allow(unsafe_code)]
mod counting {
    use std::{
        alloc::{GlobalAlloc, Layout, System},
        sync::atomic::{AtomicUsize, Ordering},
    };

    pub(super) static BYTES: AtomicUsize = AtomicUsize::new(0);

    pub(super) struct Counting;

    // SAFETY: every call goes to the system's allocator as it came.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            BYTES.fetch_add(layout.size(), Ordering::Relaxed);
            // SAFETY: the caller keeps the contract of `alloc`.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: the caller keeps the contract of `dealloc`.
            unsafe { System.dealloc(pointer, layout) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn allocated() -> usize {
    counting::BYTES.load(std::sync::atomic::Ordering::Relaxed)
}

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

/// An owner that leads and wants these names.
fn owner(names: &[DnsName], lookups: bool) -> Owner {
    let grace = Duration::from_secs(5);
    let mut owner = Owner::new(Config {
        namespace: "ovn-kubernetes".to_owned(),
        manage_objects: ManageObjects::Always,
        create_after: Duration::ZERO,
        limits: Limits {
            lookups,
            ..Limits::default()
        },
        guards: Guards::default(),
        times_interval: Duration::from_secs(600),
        rates: Rates::default(),
        remembered: Remembered::new(0),
    });
    owner.lead(true, at(0));
    owner.event(Event::Synced(Vec::new()), at(0));
    let terms = Terms {
        grace,
        min_ttl: grace,
        allowed: true,
        ..Terms::default()
    };
    let names: BTreeMap<_, _> = names.iter().map(|name| (name.clone(), terms)).collect();
    owner.want(
        Wanted {
            names,
            in_sync: true,
        },
        at(0),
    );
    owner
}

fn observation(name: &DnsName, number: usize, count: usize, millis: i64) -> Observation {
    Observation {
        name: name.clone(),
        family: Family::V4,
        addresses: addresses(number, count).collect(),
        at: at(millis),
        answered_at: None,
        client: None,
        truncated: false,
    }
}

/// A store that is as fast as can be.
#[derive(Default)]
struct Store {
    versions: HashMap<ObjectKey, u64>,
    writes: usize,
}

impl Store {
    fn carry_out(&mut self, owner: &mut Owner, now: Timestamp) {
        for write in owner.writes(now) {
            let (Write::Status(object) | Write::Create(object)) = &write else {
                continue;
            };
            let mut object: DnsNameResolver = object.as_ref().clone();
            let key = write.key();
            let version = self.versions.entry(key.clone()).or_default();
            *version += 1;
            object.metadata.resource_version = Some(version.to_string());
            self.writes += usize::from(matches!(write, Write::Status(_)));
            owner.written(&key, &write, Outcome::Stored(Box::new(object)), now);
        }
    }
}

/// Answers from caches, which change nothing.
fn unchanged_answers() {
    const NAMES: usize = 10_000;
    const ROUNDS: i64 = 100;
    let names = names(NAMES);
    let mut owner = owner(&names, false);
    let list: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(i, name)| observation(name, i, 2, 0))
        .collect();
    for observation in &list {
        owner.observe(observation);
    }
    let mut store = Store::default();
    while !owner.is_settled() {
        store.carry_out(&mut owner, at(1));
    }
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for observation in &list {
            owner.observe(black_box(observation));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = f64::from(u32::try_from(ROUNDS).unwrap()) * NAMES as f64 / seconds / 1e6;
    println!("unchanged answers taken in                 {rate:>10.2} M/s            (at least 1)");
}

fn memory() {
    const NAMES: usize = 100_000;
    let names = names(NAMES);
    let measure = |addresses: usize| {
        let before = allocated();
        let mut owner = owner(&names, true);
        for (i, name) in names.iter().enumerate().filter(|_| addresses > 0) {
            owner.observe(&observation(name, i, addresses, 0));
        }
        let bytes = allocated() - before;
        drop(owner);
        bytes as f64 / NAMES as f64
    };
    let (one, nine) = (measure(1), measure(9));
    let address = (nine - one) / 8.0;
    println!(
        "memory of an address, 100,000 names        {address:>10.0} bytes          (at most 200)"
    );
    println!(
        "memory of a name with one address          {:>10.0} bytes          (at most 1,024 + 200)",
        one
    );
}

/// An hour of a simulated clock, in which 1,000 names keep their addresses.
fn writes_in_an_hour() {
    const NAMES: usize = 1_000;
    let names = names(NAMES);
    let numbers: HashMap<_, _> = names
        .iter()
        .enumerate()
        .map(|(i, name)| (name.clone(), i))
        .collect();
    let mut owner = owner(&names, true);
    let mut store = Store::default();
    let (mut now, mut lookups) = (0_i64, 0);
    while now < 3_600_000 {
        let time = at(now);
        owner.tick(time);
        while let Some(request) = owner.next_request(time) {
            lookups += 1;
            let addresses = addresses(numbers[&request.name], 2).collect();
            let round = Round {
                name: request.name,
                started: time,
                finished: time,
                v4: FamilyOutcome::Addresses {
                    addresses,
                    at: time,
                },
                v6: FamilyOutcome::NoData,
            };
            owner.round(&round, time);
        }
        store.carry_out(&mut owner, time);
        now += owner.next_wake().map_or(1000, |wake| {
            i64::try_from(wake.since(time).as_millis())
                .unwrap()
                .clamp(1, 1000)
        });
    }
    let each = store.writes as f64 / NAMES as f64;
    println!(
        "writes a name in an hour, TTL 30 s         {each:>10.2} ({} look-ups) (at most 7; 120 of who writes at every refresh)",
        lookups / NAMES
    );
}

fn main() {
    println!("judgement: the owner of the statuses");
    unchanged_answers();
    memory();
    writes_in_an_hour();
}
