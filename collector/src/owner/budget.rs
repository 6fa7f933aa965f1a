//! How much is written in a time: etcd keeps every version of an object for some minutes, and takes no write at all when it is full.
//!
//! An object is paid for when it is made. Its deletion, and the status that tells of the end of its last rule, cost nothing more: they
//! would leave more in etcd if they waited.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::round_robin::Group;
use crate::clients::Namespace;

/// What etcd stores by default before it takes no more writes: `--quota-backend-bytes`.
const ETCD_QUOTA: f64 = (2_u64 << 30) as f64;

/// For so long a version of an object may stay in etcd after the next: an API server compacts the history every five minutes, up to then.
const HISTORY: Duration = Duration::from_secs(600);

/// What all objects take at once: a million addresses, with their names.
const OBJECTS: f64 = 240e6;

/// What is not spent is saved for so long.
const SAVED: Duration = Duration::from_secs(30);

/// Addresses wait for no longer than this, as long as the debt allows it.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Objects of up to this size go before larger ones. After the longest wait they are written whatever the debt is.
const SMALL: usize = 64 << 10;

/// An object that waits goes before others for so long after it was to come again.
const CLAIMED_FOR: Duration = Duration::from_secs(1);

/// Namespaces that wrote nothing of late are forgotten so often.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// A namespace is beyond its share for so many seconds at most after one write.
const LONGEST_DEBT: f64 = 3600.0;

/// The rates.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `--status-write-qps`: writes a second of nothing but times.
    pub writes: f64,
    /// `--status-write-bytes`: bytes a second of all writes.
    pub bytes: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            writes: 20.0,
            bytes: Self::DEFAULT_BYTES,
        }
    }
}

impl Rates {
    /// With this many bytes a second, what is saved and the debt, the statuses and their history take half of etcd's default quota.
    pub const DEFAULT_BYTES: f64 =
        (ETCD_QUOTA / 2.0 - OBJECTS) / (HISTORY.as_secs() + 2 * SAVED.as_secs()) as f64;
}

/// Token buckets of writes and of bytes, and what the namespaces took of the bytes. Each namespace that writes has the same share of
/// the rate.
#[derive(Debug)]
pub(super) struct Budget {
    rates: Rates,
    writes: f64,
    /// Less than nothing is a debt.
    bytes: f64,
    filled: Timestamp,
    /// When the share of a namespace has paid for all that it wrote; of those that wrote of late.
    paid_at: HashMap<Group, Timestamp>,
    forgotten_at: Timestamp,
    /// Large objects that are beyond their share, by how long they have waited, each with when it comes again.
    waiting: BTreeMap<(Timestamp, DnsName), Timestamp>,
}

/// A write of addresses to be, or an object to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressWrite<'a> {
    pub(super) spec: &'a DnsName,
    /// The namespaces with a rule for the name.
    pub(super) with_rule: &'a [Namespace],
    pub(super) bytes: usize,
    /// The first of the addresses came then.
    pub(super) since: Timestamp,
}

impl Budget {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            rates,
            writes: rates.writes,
            bytes: rates.bytes * SAVED.as_secs_f64(),
            filled: Timestamp::default(),
            paid_at: HashMap::new(),
            forgotten_at: Timestamp::default(),
            waiting: BTreeMap::new(),
        }
    }

    /// Takes a write of this size that changes nothing but times, or tells when to come again. It leaves half of what can be saved.
    pub(super) fn take_times(&mut self, bytes: usize, now: Timestamp) -> Result<(), Timestamp> {
        self.fill(now);
        if self.writes < 1.0 {
            return Err(later(now, (1.0 - self.writes) / self.rates.writes));
        }
        self.wait(self.most() / 2.0, now)?;
        self.take(bytes);
        self.writes -= 1.0;
        Ok(())
    }

    /// Takes a write of addresses, or tells when to come again. A write within its namespace's share waits for nothing. Beyond it, what is
    /// small leaves a debt at once, and what is large only when it is late, and half as much.
    pub(super) fn take_addresses(
        &mut self,
        write: &AddressWrite<'_>,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        self.may_take(write, now)?;
        let bytes = write.bytes;
        let (group, paid_at) = self.least_used(write.with_rule);
        self.take(bytes);
        let share = self.rates.bytes / self.paid_at.len().max(1) as f64;
        let seconds = Duration::from_secs_f64((bytes as f64 / share).min(LONGEST_DEBT));
        self.paid_at
            .insert(group, paid_at.max(now.before(SAVED)) + seconds);
        Ok(())
    }

    /// Whether [`Budget::take_addresses`] takes the write.
    pub(super) fn may_take(
        &mut self,
        write: &AddressWrite<'_>,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        self.fill(now);
        let AddressWrite { bytes, since, .. } = *write;
        let (_, paid_at) = self.least_used(write.with_rule);
        if paid_at <= now {
            return Ok(());
        }
        let is_late = since + LONGEST_WAIT <= now;
        let may_take = match (bytes <= SMALL, is_late) {
            (true, true) => Ok(()),
            (true, false) => self.wait(-self.most(), now),
            (false, true) => self.wait_in_turn(write, -0.5 * self.most(), now),
            (false, false) => {
                let least = (bytes as f64).min(self.most());
                self.wait_in_turn(write, least, now)
            }
        };
        may_take.map_err(|at| match is_late {
            true => at,
            false => at.min(since + LONGEST_WAIT),
        })
    }

    /// The clock was set.
    pub(super) fn gap(&mut self) {
        self.paid_at.clear();
        self.waiting.clear();
    }

    fn most(&self) -> f64 {
        self.rates.bytes * SAVED.as_secs_f64()
    }

    /// Of these namespaces the one that took least of its share, and when that has paid.
    fn least_used(&self, namespaces: &[Namespace]) -> (Group, Timestamp) {
        let paid_at = |group: &Group| self.paid_at.get(group).copied().unwrap_or_default();
        let groups = namespaces.iter().map(|it| Some(*it));
        let least = groups.min_by_key(paid_at).flatten();
        (least, paid_at(&least))
    }

    /// There are so many bytes, or it tells when there will be.
    fn wait(&self, least: f64, now: Timestamp) -> Result<(), Timestamp> {
        match self.bytes < least {
            true => Err(later(now, (least - self.bytes) / self.rates.bytes)),
            false => Ok(()),
        }
    }

    /// The same, and nothing has waited longer.
    fn wait_in_turn(
        &mut self,
        write: &AddressWrite<'_>,
        least: f64,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let own = (write.since, write.spec.clone());
        let first = loop {
            match self.waiting.first_entry() {
                // It has nothing to write any more.
                Some(first) if *first.get() + CLAIMED_FOR <= now => drop(first.remove()),
                Some(first) if *first.key() < own => break Some(*first.get()),
                _ => break None,
            }
        };
        let may_take = match first {
            Some(at) => Err(later(at.max(now), write.bytes as f64 / self.rates.bytes)),
            None => self.wait(least, now),
        };
        match may_take {
            Ok(()) => self.waiting.remove(&own),
            Err(at) => self.waiting.insert(own, at),
        };
        may_take
    }

    fn take(&mut self, bytes: usize) {
        // Without a floor, a debt would keep the others waiting for hours after its cause is over.
        self.bytes = (self.bytes - bytes as f64).max(-2.0 * self.most());
    }

    fn fill(&mut self, now: Timestamp) {
        let elapsed = now.since(self.filled).as_secs_f64();
        self.filled = now;
        self.writes = (self.writes + elapsed * self.rates.writes).min(self.rates.writes.max(1.0));
        self.bytes = (self.bytes + elapsed * self.rates.bytes).min(self.most());
        if now.since(self.forgotten_at) >= FORGET_EVERY {
            self.forgotten_at = now;
            self.paid_at.retain(|_, paid_at| *paid_at + SAVED > now);
        }
    }
}

fn later(now: Timestamp, seconds: f64) -> Timestamp {
    now + Duration::from_secs_f64(seconds.clamp(0.0, 60.0)) + Duration::from_millis(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn after(seconds: f64) -> Timestamp {
        START + Duration::from_secs_f64(seconds)
    }

    fn budget() -> Budget {
        let mut budget = Budget::new(Rates {
            writes: 20.0,
            bytes: 2e6,
        });
        budget.fill(START);
        budget
    }

    fn spend(bytes: usize, seconds: u64) -> usize {
        let mut budget = budget();
        let (mut now, end) = (START, START + Duration::from_secs(seconds));
        let mut writes = 0;
        while now < end {
            match budget.take_times(bytes, now) {
                Ok(()) => writes += 1,
                Err(at) => now = at,
            }
        }
        writes
    }

    /// A write of the name with this number, of some namespaces.
    fn take(
        budget: &mut Budget,
        (number, with_rule): (usize, &[Namespace]),
        bytes: usize,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let write = AddressWrite {
            spec: &DnsName::parse(&format!("n{number}.example.com")).unwrap(),
            with_rule,
            bytes,
            since,
        };
        budget.take_addresses(&write, now)
    }

    #[test]
    fn small_writes_of_times_are_bounded_by_their_number_and_large_ones_by_their_size() {
        let small = spend(1_000, 60);
        assert!((20 * 60..=20 * 62).contains(&small), "{small}");
        // Half of what is saved, and then two megabytes a second.
        let large = spend(500_000, 60);
        assert!((298..=303).contains(&large), "{large}");
        assert!(spend(20_000_000, 120) >= 6, "larger than what is left");
    }

    #[test]
    fn small_objects_go_before_large_ones_and_none_waits_for_more_than_10_s() {
        let mut budget = budget();
        let mut beyond_share = |bytes, since, now| {
            budget.paid_at.insert(None, after(1000.0));
            take(&mut budget, (0, &[]), bytes, since, now)
        };
        let take = &mut beyond_share;
        for _ in 0..60 {
            assert_eq!(take(1_000_000, START, START), Ok(()));
        }
        let wait = take(1_000_000, START, START);
        assert_eq!(wait.unwrap_err(), after(0.501));
        // Small ones come first, whatever waits.
        for _ in 0..100 {
            assert_eq!(take(50_000, START, after(0.1)), Ok(()));
        }
        assert!(take(1_000_000, START, after(0.4)).is_err());
        let huge = take(400_000_000, START, after(0.5));
        assert_eq!(huge.unwrap_err(), after(10.0));
        assert_eq!(take(80_000_000, START, after(10.0)), Ok(()));
        // So much debt is enough for what is large.
        let large = take(40_000_000, START, after(11.0));
        assert!(large.unwrap_err() > after(12.0));
        for _ in 0..1000 {
            assert_eq!(take(60_000, START, after(11.0)), Ok(()));
        }
        assert!(budget.take_times(1, after(40.0)).is_err());
    }

    #[test]
    fn a_namespace_within_its_share_waits_for_no_other() {
        let clients = Clients::default();
        let [greedy, modest] = ["greedy", "modest"].map(|it| clients.number(it));
        let mut budget = budget();
        let mut waits = 0;
        for tenth in 0..1200 {
            let now = after(f64::from(tenth) / 10.0);
            // Ten times the rate, of small and of large objects, for two minutes.
            for number in 0..200 {
                let small = take(&mut budget, (number, &[greedy]), 10_000, now, now);
                waits += usize::from(small.is_err());
            }
            for number in 0..20 {
                let large = take(&mut budget, (number, &[greedy]), 100_000, now, now);
                waits += usize::from(large.is_err());
            }
            if tenth % 10 == 0 {
                for bytes in [10_000, 200_000] {
                    let own = take(&mut budget, (1000, &[modest]), bytes, now, now);
                    assert_eq!(own, Ok(()), "{bytes} after {tenth}");
                    // A name that both have rules for is no way to make the other wait.
                    let both = take(&mut budget, (1001, &[greedy, modest]), bytes, now, now);
                    assert_eq!(both, Ok(()), "{bytes} after {tenth}");
                }
            }
        }
        assert!(waits > 100_000, "{waits}");
    }

    #[test]
    fn of_large_objects_beyond_their_share_the_one_that_has_waited_longest_is_next() {
        let clients = Clients::default();
        let namespace = clients.number("team-a");
        let mut budget = budget();
        // Each object changes again as soon as it is written; each is tried in the order of the names, at its time.
        let mut objects = [(START, START); 60];
        let mut longest = Duration::ZERO;
        for hundredth in 0..60_000 {
            let now = after(f64::from(hundredth) / 100.0);
            for (number, (since, again)) in objects.iter_mut().enumerate() {
                if *again > now {
                    continue;
                }
                match take(&mut budget, (number, &[namespace]), 1 << 20, *since, now) {
                    Ok(()) => {
                        longest = longest.max(now.since(*since));
                        (*since, *again) = (now, after(f64::from(hundredth + 100) / 100.0));
                    }
                    Err(at) => *again = at,
                }
            }
        }
        // 60 MiB at 2 MB/s.
        let longest = longest.max(
            objects
                .iter()
                .map(|(since, _)| after(600.0).since(*since))
                .max()
                .unwrap(),
        );
        assert!(longest < Duration::from_secs(34), "{longest:?}");
    }

    #[test]
    fn a_day_of_churn_leaves_half_of_etcds_quota() {
        const LARGE: usize = 1 << 20;
        let clients = Clients::default();
        let namespaces: Vec<_> = (0..10).map(|i| clients.number(&i.to_string())).collect();
        let mut budget = Budget::new(Rates::default());
        // Hundreds of full wildcards of ten namespaces change all the time, and a small object every ten seconds.
        let mut large: Vec<Timestamp> = vec![START; 230];
        let mut history = std::collections::VecDeque::new();
        let (mut held, mut most) = (0, 0);
        for turn in 0..24 * 360 {
            let now = after(f64::from(turn) * 10.0);
            let mut write = |number: usize, bytes: usize, since| {
                let of = namespaces.get(number % 10).copied();
                let written = take(&mut budget, (number, of.as_slice()), bytes, since, now).is_ok();
                if written {
                    history.push_back((now, bytes));
                    held += bytes;
                }
                written
            };
            assert!(write(1000, 5_000, now.before(LONGEST_WAIT)));
            for (number, since) in large.iter_mut().enumerate() {
                if write(number, LARGE, *since) {
                    *since = now;
                }
            }
            while history.front().is_some_and(|(at, _)| *at + HISTORY <= now) {
                held -= history.pop_front().map_or(0, |(_, bytes)| bytes);
            }
            most = most.max(held);
        }
        let half = ETCD_QUOTA / 2.0 - OBJECTS;
        assert!((most as f64) < half * 1.01, "{most} of {half}");
        assert!(most as f64 > half * 0.8, "{most} of {half}: it is used");
    }
}
