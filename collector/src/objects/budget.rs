//! Limits the rate of writes. etcd keeps every version of an object for some minutes, and refuses
//! all writes when it is full.
//!
//! Each writing namespace has the same share of the bytes. A write within the share goes at once,
//! except for large writes at the maximum debt. A write beyond the share goes at once while there
//! are bytes left, and a small one needs fewer left than a large one. The rest waits in a queue,
//! first come, first served. The longer a write has waited, the fewer bytes need to be left when
//! its turn comes.
//!
//! An object is charged when it is created. Its deletion and the status before that are free:
//! delayed, they would leave more in etcd.

use std::{collections::HashMap, time::Duration};

use runtime::clock::Timestamp;

use crate::{clients::Namespace, lookup::Group};

/// etcd's default limit for its database: `--quota-backend-bytes`.
pub const ETCD_QUOTA: u64 = 2 << 30;

/// How long an old version of an object may stay in etcd. An API server compacts every five
/// minutes, up to the time five minutes before.
const HISTORY: Duration = Duration::from_secs(600);

/// The part of etcd's quota that all objects and their history take at most.
const PART: f64 = 0.5;

/// The part of etcd's quota that all objects take at most. The rest of [`PART`] is for their history.
const MOST_STORED: f64 = 0.375;

/// The part of etcd's quota that is left to the objects at least, however few there are: 240 MB of the default.
const LEAST_STORED: f64 = 0.112;

/// Unspent bytes accumulate for this long.
const SAVED: Duration = Duration::from_secs(30);

/// Writes of up to this size may cause debt at once.
const SMALL: usize = 64 << 10;

/// A larger write counts as small after it has waited for this long.
const LARGE_WAITS: Duration = Duration::from_secs(30);

/// The most debt at which an overdue write still goes, in multiples of the most that can be saved.
const OVERDUE: f64 = 1.9;

/// Writes of up to this size within the share go at any debt.
const NEVER_TOO_MUCH: usize = 16 << 10;

/// How often a small write within the share is tried again at the most debt.
const TRY_AGAIN: f64 = 1.0;

/// The most debt, in multiples of the most that can be saved. Without a limit, other writes would
/// wait for hours after the cause of the debt is over.
const MOST_DEBT: f64 = 3.0;

/// The bytes are divided into at least this many shares. Otherwise the first of many namespaces
/// that begin to write at once would take the shares of the others.
const FEWEST_SHARES: usize = 8;

/// The golden ratio: the fractional parts of its multiples spread evenly.
const SPREAD: f64 = 0.618_034;

/// How often namespaces without recent writes are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// The longest time after its last write for which a namespace is beyond its share, unless that
/// write alone costs more. Also the longest wait in the queue.
const LONGEST: f64 = 60.0;

#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `--status-write-qps`: writes a second that only change times.
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
    /// At this rate, objects of this size and their history take half of etcd's quota. The history includes saved bytes (of all and of each
    /// namespace) and the debt.
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

/// Token buckets of writes and of bytes, and the bytes used by each namespace.
#[derive(Debug)]
pub(crate) struct Budget {
    rates: Rates,
    /// The most bytes that all objects took in this period of [`HISTORY`] and in the last one.
    stored: [usize; 2],
    /// When this period began.
    stored_since: Timestamp,
    writes: f64,
    /// Negative is a debt.
    bytes: f64,
    filled: Timestamp,
    /// When a namespace's share has paid for its writes, in seconds; only namespaces with recent
    /// writes.
    paid_at: HashMap<Group, f64>,
    /// When times were last written for a namespace; only recent ones.
    times_at: HashMap<Group, Timestamp>,
    forgotten_at: Timestamp,
    /// The end of the queue: the bytes that come until then belong to waiting writes.
    promised_until: f64,
    /// Where in the longest wait the next turn falls that would be later.
    spread: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteCost<'a> {
    /// The namespaces that it is for; the one with the most left of its share pays.
    pub(crate) payers: &'a [Namespace],
    pub(crate) bytes: usize,
    /// When the oldest news in it came.
    pub(crate) since: Timestamp,
}

impl Budget {
    pub(crate) fn new(rates: Rates) -> Self {
        Self {
            rates,
            stored: [0; 2],
            stored_since: Timestamp::default(),
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

    /// Sets the rate by the most bytes that all objects took lately: they and their history share a
    /// part of etcd's quota. Deleted objects stay in the history.
    pub(crate) fn set_stored(&mut self, bytes: usize, now: Timestamp) {
        if self.stored_since + HISTORY <= now {
            self.stored = [0, self.stored[0]];
            self.stored_since = now;
        }
        let most = self.stored[0].max(bytes);
        self.stored[0] = most;
        if let Some(quota) = self.rates.etcd_quota {
            self.rates.bytes = Rates::bytes_within(quota, most.max(self.stored[1]));
        }
    }

    /// Takes a write that only changes times, or tells when to try again behind `ahead` waiting
    /// writes. Beyond its share, it leaves half of the most that can be saved.
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

    /// The namespace whose times were written longest ago, and when that was.
    pub(crate) fn last_times(&self, namespaces: &[Namespace]) -> (Group, Timestamp) {
        least(&self.times_at, namespaces)
    }

    /// Takes a write of addresses or of a new object, or returns when its turn is. `turn` keeps
    /// that time until the write is taken; it is zero if the write does not wait.
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
        let is_small = cost.bytes <= SMALL;
        if is_small && self.is_within_share(cost, now) {
            // It waits for a few bytes only, and no write beyond its share goes at this debt.
            return Err(later(now, TRY_AGAIN));
        }
        let overdue_at = cost.since + LARGE_WAITS;
        let is_small = is_small || overdue_at <= now;
        // More debt is allowed the longer a write has waited. Otherwise writes whose turns are a
        // moment earlier could starve it.
        let overdue = now.since(overdue_at).as_secs_f64() / HISTORY.as_secs_f64();
        // Bounded, so that overdue writes leave room for the shares.
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
        // Spread, so that the writes checked first in a moment do not take all new bytes.
        self.spread = (self.spread + SPREAD).fract();
        let longest = LONGEST * (1.0 + self.spread) / 2.0;
        let turn = self.promised_until.max(payable).min(now + longest);
        self.promised_until = turn + cost.bytes as f64 / self.rates.bytes;
        Err(at(turn))
    }

    /// Charges a write, also one that another collector made.
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

    /// 1 while the debt is at most what can be saved, 0 from twice that on. It scales the savings
    /// of namespaces and half of their shares. Otherwise many namespaces that save and spend in
    /// step would write more than there is, and the debt would starve waiting writes.
    fn solvency(&self) -> f64 {
        (2.0 + self.bytes / self.most()).clamp(0.0, 1.0)
    }

    pub(crate) fn gap(&mut self) {
        self.paid_at.clear();
        self.times_at.clear();
        self.forgotten_at = Timestamp::default();
        self.stored_since = Timestamp::default();
        self.promised_until = 0.0;
    }

    fn most(&self) -> f64 {
        self.rates.bytes * SAVED.as_secs_f64()
    }

    /// Whether a write goes without waiting: it is within the share, and either small or within the
    /// most debt. Otherwise a thousand namespaces with a full wildcard each would fill etcd with
    /// their first writes.
    pub(crate) fn waits_for_nothing(&self, cost: &WriteCost<'_>, now: Timestamp) -> bool {
        let after = self.bytes - cost.bytes as f64;
        let is_too_much = cost.bytes > NEVER_TOO_MUCH && after < -MOST_DEBT * self.most();
        !is_too_much && self.is_within_share(cost, now)
    }

    fn is_within_share(&self, cost: &WriteCost<'_>, now: Timestamp) -> bool {
        self.least_used(cost.payers).1 <= seconds(now)
    }

    /// The namespace that used least of its share, and the time when that is paid.
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

/// The namespace with the smallest value, and the value; the default without namespaces.
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
