//! How much is written in a time: etcd keeps every version of an object for some minutes, and takes no write at all when it is full.
//!
//! Objects that are made or deleted, and statuses that tell of the end of the last rule, cost no budget. They come to 3 kB for a name that
//! comes and goes, 30 MB for 10,000 names, and each time a tenant writes the EgressFirewall anew. Where they counted, the new addresses
//! of all others would wait for them.

use std::time::Duration;

use runtime::clock::Timestamp;

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

/// Objects of up to this size have a bucket of their own. After the longest wait they are written whatever the debt is.
const SMALL: usize = 64 << 10;

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

/// Token buckets of writes and of bytes. Small and large objects have half of the bytes each, so that neither keep the others waiting.
#[derive(Debug)]
pub(super) struct Budget {
    rates: Rates,
    writes: f64,
    small: Bucket,
    large: Bucket,
    filled: Timestamp,
}

/// Bytes. Less than nothing is a debt.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: f64,
    bytes: f64,
}

impl Bucket {
    fn new(rate: f64) -> Self {
        Self {
            rate,
            bytes: rate * SAVED.as_secs_f64(),
        }
    }

    fn most(&self) -> f64 {
        self.rate * SAVED.as_secs_f64()
    }

    fn fill(&mut self, seconds: f64) {
        self.bytes = (self.bytes + seconds * self.rate).min(self.most());
    }

    /// Takes so many bytes if there are `least`, or tells for how many seconds to wait.
    fn take(&mut self, bytes: f64, least: f64) -> Result<(), f64> {
        if self.bytes < least {
            return Err((least - self.bytes) / self.rate);
        }
        // Without a floor, a debt would keep the others waiting for hours after its cause is over.
        self.bytes = (self.bytes - bytes).max(-2.0 * self.most());
        Ok(())
    }
}

impl Budget {
    pub(super) fn new(rates: Rates) -> Self {
        let half = Bucket::new(rates.bytes / 2.0);
        Self {
            rates,
            writes: rates.writes,
            small: half,
            large: half,
            filled: Timestamp::default(),
        }
    }

    /// Takes a write of this size that changes nothing but times, or tells when to come again. It leaves half of what can be saved.
    pub(super) fn take_times(&mut self, bytes: usize, now: Timestamp) -> Result<(), Timestamp> {
        self.fill(now);
        if self.writes < 1.0 {
            return Err(later(now, (1.0 - self.writes) / self.rates.writes));
        }
        let bucket = self.bucket(bytes);
        let least = bucket.most() / 2.0;
        bucket
            .take(bytes as f64, least)
            .map_err(|wait| later(now, wait))?;
        self.writes -= 1.0;
        Ok(())
    }

    /// Takes a write of this size that changes addresses, and has waited since a time; or tells when to come again. What is small leaves
    /// a debt at once, and what is large only when it is late, and half as much.
    pub(super) fn take_addresses(
        &mut self,
        bytes: usize,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        self.fill(now);
        let is_late = since + LONGEST_WAIT <= now;
        let bucket = self.bucket(bytes);
        let (size, most) = (bytes as f64, bucket.most());
        let least = match (bytes <= SMALL, is_late) {
            (true, true) => f64::NEG_INFINITY,
            (true, false) => -most,
            (false, true) => -most / 2.0,
            (false, false) => size.min(most),
        };
        bucket.take(size, least).map_err(|wait| {
            let at = later(now, wait);
            match is_late {
                true => at,
                false => at.min(since + LONGEST_WAIT),
            }
        })
    }

    fn bucket(&mut self, bytes: usize) -> &mut Bucket {
        match bytes <= SMALL {
            true => &mut self.small,
            false => &mut self.large,
        }
    }

    fn fill(&mut self, now: Timestamp) {
        let elapsed = now.since(self.filled).as_secs_f64();
        self.filled = now;
        self.writes = (self.writes + elapsed * self.rates.writes).min(self.rates.writes.max(1.0));
        self.small.fill(elapsed);
        self.large.fill(elapsed);
    }
}

fn later(now: Timestamp, seconds: f64) -> Timestamp {
    now + Duration::from_secs_f64(seconds.clamp(0.0, 60.0)) + Duration::from_millis(1)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn small_writes_of_times_are_bounded_by_their_number_and_large_ones_by_their_size() {
        let small = spend(1_000, 60);
        assert!((20 * 60..=20 * 62).contains(&small), "{small}");
        // Half of what is saved, and then a megabyte a second.
        let large = spend(500_000, 60);
        assert!((148..=153).contains(&large), "{large}");
        assert!(spend(20_000_000, 120) >= 6, "larger than what is left");
    }

    #[test]
    fn small_objects_go_before_large_ones_and_none_waits_for_more_than_10_s() {
        let mut budget = budget();
        for _ in 0..30 {
            assert_eq!(budget.take_addresses(1_000_000, START, START), Ok(()));
        }
        let wait = budget.take_addresses(1_000_000, START, START);
        assert_eq!(wait.unwrap_err(), after(1.001));
        // Small ones come first, whatever waits.
        for _ in 0..100 {
            assert_eq!(budget.take_addresses(50_000, START, after(0.1)), Ok(()));
        }
        let large = budget.take_addresses(1_000_000, START, after(0.9));
        assert!(large.is_err());
        let huge = budget.take_addresses(400_000_000, START, after(1.0));
        assert_eq!(huge.unwrap_err(), after(10.0));
        let huge = budget.take_addresses(40_000_000, START, after(10.0));
        assert_eq!(huge, Ok(()));
        // So much debt is enough for what is large.
        let large = budget.take_addresses(40_000_000, START, after(11.0));
        assert!(large.unwrap_err() > after(12.0));
        for _ in 0..1000 {
            assert_eq!(budget.take_addresses(60_000, START, after(11.0)), Ok(()));
        }
        assert!(budget.take_times(1, after(40.0)).is_err());
    }

    #[test]
    fn a_day_of_churn_leaves_half_of_etcds_quota() {
        const LARGE: usize = 1 << 20;
        let mut budget = Budget::new(Rates::default());
        // A thousand full wildcards change all the time, and a small object every ten seconds.
        let mut large: Vec<Timestamp> = vec![START; 1000];
        let mut history = std::collections::VecDeque::new();
        let (mut held, mut most) = (0, 0);
        for turn in 0..24 * 360 {
            let now = after(f64::from(turn) * 10.0);
            let mut write = |bytes: usize, since| {
                let written = budget.take_addresses(bytes, since, now).is_ok();
                if written {
                    history.push_back((now, bytes));
                    held += bytes;
                }
                written
            };
            assert!(write(5_000, now.before(LONGEST_WAIT)));
            for since in &mut large {
                if write(LARGE, *since) {
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
        // Small objects have the other half.
        assert!(most as f64 > half * 0.4, "{most} of {half}: it is used");
    }
}
