//! How much is written in a time: etcd keeps every version of an object for some minutes, and takes no write at all when it is full.
//!
//! Each namespace that writes has the same share of the bytes. A write within the share waits for nothing, but for large ones while the debt
//! is as large as may be. What is beyond the share goes at once while there are bytes left, a small one sooner than a large one. The rest waits in the order in which it came: the longer something has
//! waited, the less need be left when its turn comes.
//!
//! An object is paid for when it is made. Its deletion, and the status that tells of the end of its last rule, cost nothing more: they
//! would leave more in etcd if they waited.

use std::{collections::HashMap, time::Duration};

use runtime::clock::Timestamp;

use crate::{clients::Namespace, lookup::Group};

/// What etcd stores by default before it takes no more writes: `--quota-backend-bytes`.
pub const ETCD_QUOTA: u64 = 2 << 30;

/// For so long a version of an object may stay in etcd after the next: an API server compacts the history every five minutes, up to then.
const HISTORY: Duration = Duration::from_secs(600);

/// The part of etcd's quota that all objects and their history take at most.
const PART: f64 = 0.5;

/// The part of etcd's quota that all objects take at most. The rest of [`PART`] is for their history.
const MOST_STORED: f64 = 0.375;

/// The part of etcd's quota that is left to the objects at least, however few there are: 240 MB of the default.
const LEAST_STORED: f64 = 0.112;

/// What is not spent is saved for so long.
const SAVED: Duration = Duration::from_secs(30);

/// Writes of up to this size may leave a debt at once.
const SMALL: usize = 64 << 10;

/// A larger one goes like a small one when it has waited for so long.
const LARGE_WAITS: Duration = Duration::from_secs(30);

/// What has waited goes while the debt is larger by less than so many times what can be saved, however long it has waited.
const OVERDUE: f64 = 1.9;

/// Writes within the share of up to this size wait for nothing, however large the debt is.
const NEVER_TOO_MUCH: usize = 16 << 10;

/// The debt is no more than so many times what can be saved. Without a floor, it would keep the others waiting for hours after its cause is
/// over.
const MOST_DEBT: f64 = 3.0;

/// The bytes are shared by so many at least: the first namespaces of many that begin to write at once shall not take the share of the others.
const FEWEST_SHARES: usize = 8;

/// A multiple of this, without its whole part, lies far from those before it: the golden ratio.
const SPREAD: f64 = 0.618_034;

/// Namespaces that wrote nothing of late are forgotten so often.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// A namespace is beyond its share for so long at most after its last write, unless that alone costs more, and a place in the queue is no
/// further away.
const LONGEST: f64 = 60.0;

/// The rates.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `--status-write-qps`: writes a second of nothing but times.
    pub writes: f64,
    /// `--status-write-bytes`: bytes a second of all writes.
    pub bytes: f64,
    /// `--etcd-quota`, if `bytes` goes with what the objects leave of it.
    pub etcd_quota: Option<u64>,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            writes: 20.0,
            bytes: Self::bytes_within(ETCD_QUOTA, 0),
            etcd_quota: None,
        }
    }
}

impl Rates {
    /// With this many bytes a second, what is saved (by all, and by each namespace) and the debt, objects of this size and their history take
    /// half of etcd's quota.
    pub fn bytes_within(etcd_quota: u64, stored: usize) -> f64 {
        let quota = etcd_quota as f64;
        let stored = (stored as f64).clamp(LEAST_STORED * quota, MOST_STORED * quota);
        (PART * quota - stored) / (HISTORY + 3 * SAVED).as_secs_f64()
    }
}

/// The bytes that all objects may take of etcd's quota.
pub fn most_stored(etcd_quota: u64) -> usize {
    (MOST_STORED * etcd_quota as f64) as usize
}

/// Token buckets of writes and of bytes, and what the namespaces took of the bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    rates: Rates,
    writes: f64,
    /// Less than nothing is a debt.
    bytes: f64,
    filled: Timestamp,
    /// When the share of a namespace has paid for all that it wrote, in seconds; of those that wrote of late.
    paid_at: HashMap<Group, f64>,
    /// When times were last written for a namespace; of those for which they were of late.
    times_at: HashMap<Group, Timestamp>,
    forgotten_at: Timestamp,
    /// The end of the queue: what waits has the bytes that come until then.
    promised_until: f64,
    /// Where in the longest wait the next turn is that would be later.
    spread: f64,
}

/// A write to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteCost<'a> {
    /// The namespaces that it is for; the one with most left of its share pays.
    pub(crate) payers: &'a [Namespace],
    pub(crate) bytes: usize,
    /// When the first of what it writes was learned.
    pub(crate) since: Timestamp,
}

impl Budget {
    pub(crate) fn new(rates: Rates) -> Self {
        Self {
            rates,
            writes: rates.writes,
            bytes: rates.bytes * SAVED.as_secs_f64(),
            filled: Timestamp::default(),
            paid_at: HashMap::new(),
            times_at: HashMap::new(),
            forgotten_at: Timestamp::default(),
            promised_until: 0.0,
            spread: 0.0,
        }
    }

    /// All objects take this many bytes now. What they take more is taken off the history.
    pub(crate) fn set_stored(&mut self, bytes: usize) {
        if let Some(quota) = self.rates.etcd_quota {
            self.rates.bytes = Rates::bytes_within(quota, bytes);
        }
    }

    /// Takes a write that changes nothing but times, or tells when to come again, behind so many that wait already. Beyond its share it
    /// leaves half of what can be saved.
    pub(crate) fn take_times(
        &mut self,
        cost: &WriteCost<'_>,
        ahead: usize,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        self.fill(now);
        if self.writes < 1.0 {
            let missing = 1.0 - self.writes + ahead as f64;
            return Err(later(now, missing / self.rates.writes));
        }
        let missing = self.most() / 2.0 - self.bytes;
        if missing > 0.0 && !self.waits_for_nothing(cost, now) {
            return Err(later(now, missing / self.rates.bytes));
        }
        self.writes -= 1.0;
        self.times_at.insert(self.last_times(cost.payers).0, now);
        self.charge(cost, now);
        Ok(())
    }

    /// Of these namespaces the one for which times were written longest ago, and when.
    pub(crate) fn last_times(&self, namespaces: &[Namespace]) -> (Group, Timestamp) {
        least(&self.times_at, namespaces)
    }

    /// Takes a write of addresses or of a new object, or tells when its turn is. `turn` keeps that time until the write is taken; zero if it
    /// does not wait.
    pub(crate) fn take(
        &mut self,
        cost: &WriteCost<'_>,
        turn: &mut Timestamp,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        if *turn > now {
            return Err(*turn);
        }
        let taken = self.may_take(cost, *turn > Timestamp::default(), now);
        *turn = taken.err().unwrap_or_default();
        taken?;
        self.charge(cost, now);
        Ok(())
    }

    /// Whether [`Budget::take`] takes the write. `is_turn`: the turn that it waited for has come.
    pub(crate) fn may_take(
        &mut self,
        cost: &WriteCost<'_>,
        is_turn: bool,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        self.fill(now);
        if self.waits_for_nothing(cost, now) {
            return Ok(());
        }
        let overdue_at = cost.since + LARGE_WAITS;
        let is_small = cost.bytes <= SMALL || overdue_at <= now;
        // Otherwise those whose turn is a moment sooner each time would leave nothing to the others.
        let overdue = now.since(overdue_at).as_secs_f64() / HISTORY.as_secs_f64();
        // However long something waits, this leaves room for the shares.
        let overdue = OVERDUE * (overdue / OVERDUE).tanh();
        let least_at_turn = -self.most() * (overdue + if is_small { 1.0 } else { 0.5 });
        let least = match (is_turn, is_small) {
            (true, _) => least_at_turn,
            (false, true) => -0.75 * self.most(),
            (false, false) => (cost.bytes as f64).min(self.most()),
        };
        if self.bytes >= least {
            return Ok(());
        }
        let now = seconds(now);
        let payable = now + (least_at_turn - self.bytes).max(0.0) / self.rates.bytes;
        // Spread, or those that are looked at first in a moment would take all that came since the last.
        self.spread = (self.spread + SPREAD).fract();
        let longest = LONGEST * (1.0 + self.spread) / 2.0;
        let turn = self.promised_until.max(payable).min(now + longest);
        self.promised_until = turn + cost.bytes as f64 / self.rates.bytes;
        Err(at(turn))
    }

    /// Such a write is made, or was made by another collector.
    pub(crate) fn charge(&mut self, cost: &WriteCost<'_>, now: Timestamp) {
        self.fill(now);
        let bytes = cost.bytes as f64;
        self.bytes = (self.bytes - bytes).max(-MOST_DEBT * self.most());
        let (group, paid_at) = self.least_used(cost.payers);
        let now = seconds(now);
        let solvency = self.solvency();
        let is_new = !self.paid_at.contains_key(&group);
        let shares = (self.paid_at.len() + usize::from(is_new)).max(FEWEST_SHARES);
        let share = self.rates.bytes / shares as f64 * (0.5 + 0.5 * solvency);
        let cost = bytes / share;
        let paid_at = paid_at.max(now - solvency * SAVED.as_secs_f64()) + cost;
        let paid_at = paid_at.min(now + cost.max(LONGEST));
        self.paid_at.insert(group, paid_at);
    }

    /// 1 while the debt is no more than can be saved, and 0 once it is twice as much. What the namespaces save, and half of their shares,
    /// goes with it: many that save and spend in step would write more than there is, and the debt would leave nothing to what waits.
    fn solvency(&self) -> f64 {
        (2.0 + self.bytes / self.most()).clamp(0.0, 1.0)
    }

    /// The clock was set.
    pub(crate) fn gap(&mut self) {
        self.paid_at.clear();
        self.times_at.clear();
        self.forgotten_at = Timestamp::default();
        self.promised_until = 0.0;
    }

    fn most(&self) -> f64 {
        self.rates.bytes * SAVED.as_secs_f64()
    }

    /// Whether a write is within the share, and small or within the most debt: a thousand namespaces with a full wildcard each would fill etcd
    /// with their first writes.
    pub(crate) fn waits_for_nothing(&self, cost: &WriteCost<'_>, now: Timestamp) -> bool {
        let after = self.bytes - cost.bytes as f64;
        let is_too_much = cost.bytes > NEVER_TOO_MUCH && after < -MOST_DEBT * self.most();
        !is_too_much && self.is_within_share(cost, now)
    }

    fn is_within_share(&self, cost: &WriteCost<'_>, now: Timestamp) -> bool {
        self.least_used(cost.payers).1 <= seconds(now)
    }

    /// Of these namespaces the one that took least of its share, and when that has paid.
    fn least_used(&self, namespaces: &[Namespace]) -> (Group, f64) {
        least(&self.paid_at, namespaces)
    }

    fn fill(&mut self, now: Timestamp) {
        let elapsed = now.since(self.filled).as_secs_f64();
        self.filled = now;
        self.writes = (self.writes + elapsed * self.rates.writes).min(self.rates.writes.max(1.0));
        self.bytes = (self.bytes + elapsed * self.rates.bytes).min(self.most());
        if now.since(self.forgotten_at) >= FORGET_EVERY {
            self.forgotten_at = now;
            let past = seconds(now) - SAVED.as_secs_f64();
            self.paid_at.retain(|_, paid_at| *paid_at > past);
            self.times_at.retain(|_, at| seconds(*at) > past);
        }
    }
}

/// Of these namespaces the one with the least, and that; what no namespace has if there is none.
fn least<T: Copy + Default + PartialOrd>(
    values: &HashMap<Group, T>,
    namespaces: &[Namespace],
) -> (Group, T) {
    let value = |group| (group, values.get(&group).copied().unwrap_or_default());
    let all = namespaces.iter().map(|it| value(Some(*it)));
    let least = all.reduce(|one, other| if other.1 < one.1 { other } else { one });
    least.unwrap_or_else(|| value(None))
}

/// Finer than a [`Timestamp`]: small writes cost less than a millisecond.
fn seconds(at: Timestamp) -> f64 {
    at.as_millis() as f64 / 1e3
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1e3).ceil() as i64)
}

fn later(now: Timestamp, wait: f64) -> Timestamp {
    at(seconds(now) + wait.clamp(0.001, LONGEST))
}

#[cfg(test)]
mod tests;
