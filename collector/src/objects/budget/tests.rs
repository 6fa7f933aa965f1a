use std::collections::{BTreeSet, VecDeque};

use super::*;
use crate::clients::Clients;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

const NO_TURN: Timestamp = Timestamp::from_millis(0);

fn after(seconds: f64) -> Timestamp {
    START + Duration::from_secs_f64(seconds)
}

fn budget() -> Budget {
    let mut budget = Budget::new(Rates {
        writes: 20.0,
        bytes: 2e6,
        etcd_quota: None,
    });
    budget.fill(START);
    budget
}

/// A write that has not waited.
fn cost(payers: &[Namespace], bytes: usize) -> WriteCost<'_> {
    let since = after(1e6);
    WriteCost {
        payers,
        bytes,
        since,
    }
}

fn numbers<const N: usize>(clients: &Clients) -> [Namespace; N] {
    std::array::from_fn(|i| clients.number(&i.to_string()))
}

/// An object that changes again some time after each write.
struct Changing<'a> {
    payers: &'a [Namespace],
    bytes: usize,
    pause: Duration,
    /// Since when its write waits.
    since: Timestamp,
    turn: Timestamp,
}

impl<'a> Changing<'a> {
    fn new(payers: &'a [Namespace], bytes: usize, pause: f64) -> Self {
        Self {
            payers,
            bytes,
            pause: Duration::from_secs_f64(pause),
            since: START,
            turn: NO_TURN,
        }
    }

    /// Tries the write when it is due. Returns how long it had waited if it is taken.
    fn look(&mut self, budget: &mut Budget, now: Timestamp) -> Option<Duration> {
        if self.since > now {
            return None;
        }
        let cost = WriteCost {
            since: self.since,
            ..cost(self.payers, self.bytes)
        };
        budget.take(&cost, &mut self.turn, now).ok()?;
        let waited = now.since(self.since);
        self.since = now + self.pause;
        Some(waited)
    }
}

fn spend(bytes: usize, seconds: u64) -> usize {
    let mut budget = budget();
    budget.paid_at.insert(None, f64::MAX);
    let (mut now, end) = (START, START + Duration::from_secs(seconds));
    let mut writes = 0;
    while now < end {
        budget.paid_at.insert(None, f64::MAX);
        match budget.take_times(&cost(&[], bytes), 0, now) {
            Ok(()) => writes += 1,
            Err(at) => now = at,
        }
    }
    writes
}

#[test]
fn small_timestamp_writes_are_limited_by_count_and_large_ones_by_size() {
    let small = spend(1_000, 60);
    assert!((20 * 60..=20 * 62).contains(&small), "{small}");
    // Half of the saved bytes, and then two megabytes a second.
    let large = spend(500_000, 60);
    assert!((298..=303).contains(&large), "{large}");
    assert!(spend(20_000_000, 120) >= 6, "larger than what is left");
}

#[test]
fn over_the_share_small_writes_go_first_and_the_rest_in_order() {
    let mut budget = budget();
    let mut take = |bytes, mut turn| {
        budget.paid_at.insert(None, f64::MAX);
        budget.take(&cost(&[], bytes), &mut turn, START)
    };
    for _ in 0..60 {
        assert_eq!(take(1_000_000, NO_TURN), Ok(()));
    }
    // A large write waits for its turn, which comes while the debt is not too large.
    let turn = take(1_000_000, NO_TURN).unwrap_err();
    assert_eq!(turn, START);
    assert_eq!(take(1_000_000, turn), Ok(()));
    let small = (0..1000).take_while(|_| take(60_000, NO_TURN).is_ok());
    assert_eq!(small.count(), 734);
    let turns = [60_000, 1_000_000, 60_000].map(|bytes| take(bytes, NO_TURN).unwrap_err());
    assert!(turns.is_sorted(), "{turns:?}");
    assert!(
        turns[2] > turns[1] + Duration::from_millis(490),
        "{turns:?}"
    );
}

#[test]
fn a_namespace_within_its_share_waits_for_no_other() {
    let clients = Clients::default();
    let [greedy, modest] = numbers(&clients);
    let (greedy, own, both) = ([greedy], [modest], [greedy, modest]);
    let mut budget = budget();
    let small = (0..2000).map(|_| Changing::new(&greedy, 10_000, 0.1));
    let large = (0..20).map(|_| Changing::new(&greedy, 1 << 20, 0.1));
    let mut objects: Vec<_> = small.chain(large).collect();
    let mut waits = 0;
    for tenth in 0..1200 {
        let now = after(f64::from(tenth) / 10.0);
        for object in &mut objects {
            waits += usize::from(object.look(&mut budget, now).is_none());
        }
        if tenth % 10 == 0 {
            for bytes in [10_000, 100_000] {
                for payers in [&own[..], &both] {
                    let taken = budget.take(&cost(payers, bytes), &mut NO_TURN.clone(), now);
                    assert_eq!(taken, Ok(()), "{bytes} after {tenth}");
                }
            }
            let times = budget.take_times(&cost(&own, 10_000), 0, now);
            assert_eq!(times, Ok(()), "after {tenth}");
        }
    }
    assert!(waits > 100_000, "{waits}");
}

#[derive(Default)]
struct Tried {
    tries: usize,
    writes: usize,
    longest: Duration,
    history: History,
}

/// Objects of so many namespaces that change again as soon as they are written, each tried when it
/// is due.
fn tried(namespaces: usize, names: usize, bytes: usize, seconds: f64) -> Tried {
    let clients = Clients::default();
    let namespaces: Vec<_> = (0..namespaces)
        .map(|i| clients.number(&i.to_string()))
        .collect();
    let mut budget = Budget::new(Rates::default());
    let each = |payers| (0..names).map(move |_| Changing::new(payers, bytes, 0.0));
    let mut objects: Vec<_> = namespaces.chunks(1).flat_map(each).collect();
    let mut queue: BTreeSet<(Timestamp, usize)> = (0..objects.len()).map(|i| (START, i)).collect();
    let mut tried = Tried::default();
    while let Some((now, number)) = queue.pop_first()
        && now < after(seconds)
    {
        tried.tries += 1;
        let object = &mut objects[number];
        if let Some(waited) = object.look(&mut budget, now) {
            tried.writes += 1;
            tried.longest = tried.longest.max(waited);
            tried.history.add(now, bytes);
        }
        let next = object.turn.max(object.since);
        queue.insert((next.max(now + Duration::from_millis(1)), number));
    }
    let waiting = objects.iter().map(|it| after(seconds).since(it.since));
    tried.longest = tried.longest.max(waiting.max().unwrap());
    tried
}

#[test]
fn a_write_over_its_share_is_retried_only_at_its_turn() {
    let Tried {
        tries,
        writes,
        longest,
        ..
    } = tried(1, 2000, 3_000, 300.0);
    assert!(tries < 3 * writes, "{tries} for {writes}");
    // 6 MB at 1.26 MB/s.
    assert!(longest < Duration::from_secs(6), "{longest:?}");
}

#[test]
fn nothing_waits_for_ever_while_many_namespaces_write_as_much_as_they_may() {
    // 80, 120 and 80 MB at 1.26 MB/s take 66, 99 and 66 s in order of turns.
    for (namespaces, names, bytes) in [(20, 67, 62_000), (100, 20, 62_000), (20, 4, 1 << 20)] {
        let longest = tried(namespaces, names, bytes, 1800.0).longest;
        assert!(
            longest < Duration::from_secs(420),
            "{namespaces}: {longest:?}"
        );
    }
}

/// The bytes of the last ten minutes.
#[derive(Default)]
struct History {
    writes: VecDeque<(Timestamp, usize)>,
    held: usize,
    most: usize,
}

impl History {
    fn add(&mut self, now: Timestamp, bytes: usize) {
        while let Some((_, old)) = self.writes.pop_front_if(|(at, _)| *at + HISTORY <= now) {
            self.held -= old;
        }
        self.writes.push_back((now, bytes));
        self.held += bytes;
        self.most = self.most.max(self.held);
    }
}

/// The most bytes in the history, with so many names of these bytes in each namespace that change
/// all the time.
fn history<const N: usize>(names: usize, bytes: usize) -> f64 {
    history_of::<N>(names, bytes, 0.5, 1800)
}

/// The same after so many looks with a pause of so many seconds.
fn history_of<const N: usize>(names: usize, bytes: usize, pause: f64, looks: u32) -> f64 {
    let clients = Clients::default();
    let namespaces: [Namespace; N] = numbers(&clients);
    let mut budget = Budget::new(Rates::default());
    let each = |payers| (0..names).map(move |_| Changing::new(payers, bytes, 0.1));
    let mut objects: Vec<_> = namespaces.chunks(1).flat_map(each).collect();
    let mut history = History::default();
    for look in 0..looks {
        let now = after(f64::from(look) * pause);
        for object in &mut objects {
            if object.look(&mut budget, now).is_some() {
                history.add(now, bytes);
            }
        }
    }
    history.most as f64
}

/// The same for namespaces that write all that waits for nothing at once, whenever they are
/// forgotten.
fn history_of_bursts<const N: usize>(bytes: usize) -> f64 {
    let clients = Clients::default();
    let namespaces: [Namespace; N] = numbers(&clients);
    let mut budget = Budget::new(Rates::default());
    let mut history = History::default();
    for second in 0..1800 {
        let now = after(f64::from(second));
        budget.fill(now);
        if !budget.paid_at.is_empty() {
            continue;
        }
        for namespace in namespaces {
            while budget.waits_for_nothing(&cost(&[namespace], bytes), now) {
                budget.charge(&cost(&[namespace], bytes), now);
                history.add(now, bytes);
            }
        }
    }
    history.most as f64
}

#[test]
fn whatever_changes_all_the_time_the_history_takes_half_of_etcds_quota() {
    let half = (PART - LEAST_STORED) * ETCD_QUOTA as f64;
    for (what, most) in [
        ("names of one address", history::<1>(5_000, 4_950)),
        ("names of four namespaces", history::<4>(67, 62_000)),
        ("names of twenty namespaces", history::<20>(67, 62_000)),
        ("full wildcards", history::<10>(23, 1 << 20)),
        (
            "full wildcards for a day",
            history_of::<10>(23, 1 << 20, 5.0, 24 * 720),
        ),
        ("bursts of twenty", history_of_bursts::<20>(10_000)),
        ("bursts of three hundred", history_of_bursts::<300>(10_000)),
        (
            "bursts of full wildcards",
            history_of_bursts::<300>(1 << 20),
        ),
    ] {
        assert!(most < half * 1.05, "{what}: {most} of {half}");
        // Full wildcards without a wait are limited by the most debt.
        assert!(most > half * 0.65, "{what}: {most} of {half}: it is used");
    }
}

#[test]
fn however_much_waits_the_history_takes_no_more_and_each_has_its_turn() {
    let half = (PART - LEAST_STORED) * ETCD_QUOTA as f64;
    // The second case is within the share of each namespace, all at once.
    for (namespaces, names, bytes) in [(100, 15, 1 << 20), (1000, 1, 1 << 20)] {
        let tried = tried(namespaces, names, bytes, 3600.0);
        let most = tried.history.most as f64;
        let what = format!("{namespaces} x {names} x {bytes}");
        assert!(most < half * 1.05, "{what}: {most} of {half}");
        // 1.6 GB at 1.2 MB/s take 1300 s.
        let longest = tried.longest;
        assert!(longest < Duration::from_secs(1800), "{what}: {longest:?}");
    }
}

#[test]
fn writes_cost_fractions_of_a_millisecond() {
    let clients = Clients::default();
    let [bad] = numbers(&clients);
    for (rate, bytes) in [(Rates::default().bytes, 4_950), (6e6, 5_000)] {
        let mut budget = Budget::new(Rates {
            writes: 20.0,
            bytes: rate,
            etcd_quota: None,
        });
        let mut taken = 0;
        while budget.waits_for_nothing(&cost(&[bad], bytes), START) && taken < 1 << 30 {
            budget.charge(&cost(&[bad], bytes), START);
            taken += bytes;
        }
        let saved = rate * SAVED.as_secs_f64();
        assert!((taken as f64) < saved * 1.01, "{taken} of {saved}");
    }
}

#[test]
fn namespaces_without_recent_writes_are_dropped_also_when_time_goes_back() {
    let clients = Clients::default();
    let mut budget = Budget::new(Rates::default());
    budget.fill(after(86_400.0));
    budget.gap();
    for namespace in numbers::<100>(&clients) {
        budget.charge(&cost(&[namespace], 100), START);
    }
    assert_eq!(budget.paid_at.len(), 100);
    budget.fill(after(120.0));
    assert_eq!(budget.paid_at.len(), 0);
}

#[test]
fn objects_and_their_history_take_half_of_etcds_quota_at_any_size() {
    for quota in [ETCD_QUOTA, 4 * ETCD_QUOTA] {
        for part in [0.0, 0.112, 0.2, 0.375] {
            let stored = part * quota as f64;
            let mut budget = Budget::new(Rates {
                etcd_quota: Some(quota),
                ..Rates::default()
            });
            budget.set_stored(stored as usize, START);
            let history = budget.rates.bytes * (HISTORY + 3 * SAVED).as_secs_f64();
            assert!(
                stored + history <= PART * quota as f64 * 1.001,
                "{part} of {quota}"
            );
            assert!(history >= 0.124 * quota as f64, "{part} of {quota}");
        }
        assert!(most_stored(quota) as u64 <= quota * 3 / 8);
    }
}

#[test]
fn deleted_objects_count_while_they_are_in_the_history() {
    let mut budget = Budget::new(Rates {
        etcd_quota: Some(ETCD_QUOTA),
        ..Rates::default()
    });
    let mut rate = |part: f64, seconds| {
        budget.set_stored((part * ETCD_QUOTA as f64) as usize, after(seconds));
        budget.rates.bytes
    };
    let full = rate(0.375, 0.0);
    assert_eq!(rate(0.0, 1.0), full);
    assert_eq!(rate(0.0, 599.0), full);
    // A second time, just before the first one is out of the history.
    assert_eq!(rate(0.375, 600.0), full);
    assert_eq!(rate(0.0, 1199.0), full);
    assert_eq!(rate(0.0, 1200.0), full);
    assert!(rate(0.0, 1800.0) > 3.0 * full);
}

#[test]
fn at_the_most_debt_a_write_within_the_share_waits_a_second_or_not_at_all() {
    let clients = Clients::default();
    let [greedy, modest, other] = numbers(&clients);
    let mut budget = budget();
    budget.charge(&cost(&[greedy], 1 << 30), START);
    let mut take = |namespace, bytes, now| {
        let taken = budget.take(&cost(&[namespace], bytes), &mut NO_TURN.clone(), now);
        taken.map_err(|turn| turn.since(now))
    };
    assert_eq!(take(other, NEVER_TOO_MUCH, START), Ok(()));
    assert_eq!(take(modest, SMALL, START), Err(Duration::from_secs(1)));
    assert_eq!(take(modest, SMALL, after(1.0)), Ok(()));
}
