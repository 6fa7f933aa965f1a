//! When names are looked up, and how many at once.
//!
//! Names wait in lanes, each in order of time. A name whose last look-up was not over in time waits in
//! a small lane of its own, so unresponsive names delay only each other. New names alternate with
//! refreshes, and never take more than half of the places.

use std::{
    collections::{BTreeSet, HashSet},
    hash::BuildHasher,
    time::Duration,
};

use foldhash::fast::FixedState;
use proto::api::DnsName;
use proto::timestamp::Timestamp;

/// The most names of the first two lanes that are looked up at the same time.
const IN_FLIGHT: usize = 256;

/// The most new names.
const NEW_IN_FLIGHT: usize = IN_FLIGHT / 2;

/// The most unresponsive names.
const UNRESPONSIVE_IN_FLIGHT: usize = IN_FLIGHT / 10;

/// The most names that are looked up at the same time, of all lanes.
pub const CONCURRENCY: usize = IN_FLIGHT + UNRESPONSIVE_IN_FLIGHT;

/// The most names that wait because of a lost answer although they are not known. Names in rules do
/// not count.
const MOST_NEW: usize = 10_000;

/// A look-up begins at most this long after the expiry of the address.
const MAX_JITTER: Duration = Duration::from_secs(1);

/// The wait after a look-up of a wildcard itself that found no address.
const WILDCARD_RETRY: Duration = Duration::from_secs(30 * 60);

/// The least time between early look-ups of a name.
const EARLY_INTERVAL: Duration = Duration::from_secs(5);

/// The least time between look-ups of a name, whatever its addresses, TTLs and grace.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct LookupScheduler {
    /// Whether names are looked up: this collector leads, and has a resolver. A change must
    /// reschedule every name.
    pub is_active: bool,
    names: foldhash::HashMap<DnsName, Lookup>,
    /// By [`Lane`].
    queues: [Queue; 3],
    /// The time of the last call that had one.
    now: Timestamp,
    /// Names taken of the first two lanes.
    taken: u32,
}

/// Where a name waits or runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Lane {
    /// It has no address.
    #[default]
    New,
    /// Its addresses expire.
    Refresh,
    /// Its last look-up was not over in time.
    Unresponsive,
}

impl Lane {
    fn limit(self) -> usize {
        match self {
            Self::New => NEW_IN_FLIGHT,
            Self::Refresh => IN_FLIGHT,
            Self::Unresponsive => UNRESPONSIVE_IN_FLIGHT,
        }
    }
}

/// The names of a lane.
#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeSet<(Timestamp, DnsName)>,
    running: usize,
}

impl Queue {
    fn first(&self) -> Option<Timestamp> {
        self.waiting.first().map(|(due, _)| *due)
    }

    /// The name that waits longest, or of those that are due the one that waits shortest.
    fn next(&self, now: Timestamp, newest: bool) -> Option<(Timestamp, DnsName)> {
        let first = self.waiting.first()?;
        if !newest {
            return Some(first.clone());
        }
        // The bound needs a name, and any will do.
        let after = (now + Duration::from_millis(1), first.1.clone());
        let mut latest = self.waiting.range(..after).rev();
        latest.find(|(due, _)| *due <= now).cloned()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Lookup {
    lane: Lane,
    /// When it is due, while it waits.
    due: Option<Timestamp>,
    /// A look-up is in progress: the name is not in a queue.
    running: bool,
    /// The result of the current look-up is to be ignored.
    discarded: bool,
    /// Look-ups in a row that found no address.
    fruitless: u32,
    not_before: Timestamp,
    /// The last one found no address: the next one is due when the back-off ends, however long the known addresses last.
    is_retry: bool,
    /// When the last one ended.
    done: Timestamp,
    /// The last one was not over in time.
    is_unresponsive: bool,
    /// It is due before the time that [`LookupScheduler::reschedule`] gives.
    is_early: bool,
}

/// When a name is to be looked up next, by its state.
#[derive(Clone, Copy, Debug)]
pub enum NextLookup {
    /// The name is new. It is due at once, or after its back-off.
    Initial,
    /// Due when its first address expires. The jitter is a part of the grace.
    Refresh { at: Timestamp, grace: Duration },
    /// No look-up is needed. If the name left the table, its back-off goes too.
    Never { is_removed: bool },
}

/// A name to look up now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DueName {
    pub name: DnsName,
    pub due: Timestamp,
    /// The look-up may take its whole time. Others end early if there is no answer.
    pub is_patient: bool,
}

impl LookupScheduler {
    pub fn reschedule(&mut self, name: &DnsName, next: NextLookup) {
        let (due, lane) = match next {
            NextLookup::Initial => (self.now, Lane::New),
            NextLookup::Refresh { at, grace } => (at + jitter(name, at, grace), Lane::Refresh),
            NextLookup::Never { is_removed } => return self.unset(name, is_removed),
        };
        let lookup = self.names.entry(name.clone()).or_default();
        if lookup.running || lookup.is_early {
            return;
        }
        // A new name keeps its time, so that it is not pushed back by each update.
        let waits = lookup.lane != Lane::Refresh && lane == Lane::New;
        let due = match lookup.due.filter(|_| waits) {
            Some(earlier) => earlier.min(due),
            None => due,
        };
        let due = if lookup.is_retry {
            lookup.not_before
        } else {
            due.max(lookup.not_before)
        };
        self.put(name, Some(due), lane);
    }

    /// Cancels the look-up, unless it is early. If `is_removed`, its back-off is dropped.
    fn unset(&mut self, name: &DnsName, is_removed: bool) {
        let Some(lookup) = self.names.get(name).filter(|it| !it.is_early) else {
            return;
        };
        let is_running = lookup.running;
        self.put(name, None, Lane::New);
        // A running look-up keeps its entry until it ends, so that no second one starts beside it.
        if is_removed && !is_running {
            self.names.remove(name);
        }
    }

    /// Makes the name due at `at`, whether or not it is known, but not within 5 s
    /// after its last look-up. An earlier time stays.
    pub fn schedule_early(&mut self, name: &DnsName, at: Timestamp) {
        let lookup = self.names.entry(name.clone()).or_default();
        let due = at.max(lookup.done + EARLY_INTERVAL);
        if lookup.running || lookup.due.is_some_and(|it| it <= due) {
            return;
        }
        lookup.is_early = true;
        let lane = lookup.lane;
        self.put(name, Some(due), lane);
    }

    /// [`LookupScheduler::schedule_early`] for a name whose answer was lost. Returns false if it is not known,
    /// and too many new names wait.
    pub fn schedule_lost(&mut self, name: &DnsName, now: Timestamp) -> bool {
        let fits = self.queue(Lane::New).waiting.len() < MOST_NEW;
        let is_taken = fits || self.names.contains_key(name);
        if is_taken {
            self.schedule_early(name, now);
        }
        is_taken
    }

    /// The name was evicted: it is not looked up, and the result of a running look-up is ignored. The
    /// caller must reschedule the name.
    pub fn discard(&mut self, name: &DnsName) {
        if let Some(lookup) = self.names.get_mut(name) {
            lookup.discarded = lookup.running;
            lookup.is_early = false;
        }
    }

    /// Whether the result of the running look-up is to be ignored.
    pub fn is_discarded(&self, name: &DnsName) -> bool {
        self.names.get(name).is_some_and(|lookup| lookup.discarded)
    }

    /// A client got addresses for the name, so the back-off of failed look-ups ends.
    pub fn reset_backoff(&mut self, name: &DnsName) {
        if let Some(lookup) = self.names.get_mut(name) {
            lookup.discarded = false;
            if !lookup.running && lookup.fruitless > 0 {
                lookup.fruitless = 0;
                lookup.is_retry = false;
                lookup.not_before = Timestamp::default();
            }
        }
    }

    /// The clock was set, or look-ups were impossible for a while: all times and back-offs are
    /// dropped. The caller must reschedule every name.
    pub fn reset(&mut self, now: Timestamp) {
        for queue in &mut self.queues {
            queue.waiting.clear();
        }
        self.names.retain(|_, lookup| lookup.running);
        self.now = now;
    }

    /// Moves the name to another time in the queue, or removes it.
    fn put(&mut self, name: &DnsName, due: Option<Timestamp>, lane: Lane) {
        let Some(lookup) = self.names.get_mut(name) else {
            return;
        };
        let lane = if lookup.is_unresponsive {
            Lane::Unresponsive
        } else {
            lane
        };
        if lookup.running || (lookup.due, lookup.lane) == (due, lane) {
            return;
        }
        let (old_due, old_lane) = (lookup.due, lookup.lane);
        (lookup.due, lookup.lane) = (due, lane);
        if let Some(old_due) = old_due {
            let waiting = &mut self.queue_mut(old_lane).waiting;
            waiting.remove(&(old_due, name.clone()));
        }
        if let Some(due) = due {
            self.queue_mut(lane).waiting.insert((due, name.clone()));
        }
    }

    fn queue(&self, lane: Lane) -> &Queue {
        let [new, refresh, unresponsive] = &self.queues;
        match lane {
            Lane::New => new,
            Lane::Refresh => refresh,
            Lane::Unresponsive => unresponsive,
        }
    }

    fn queue_mut(&mut self, lane: Lane) -> &mut Queue {
        let [new, refresh, unresponsive] = &mut self.queues;
        match lane {
            Lane::New => new,
            Lane::Refresh => refresh,
            Lane::Unresponsive => unresponsive,
        }
    }

    /// Whether another look-up of the lane may begin.
    fn has_capacity(&self, lane: Lane) -> bool {
        let shared = self.queue(Lane::New).running + self.queue(Lane::Refresh).running;
        let is_shared = lane != Lane::Unresponsive;
        self.queue(lane).running < lane.limit() && !(is_shared && shared >= IN_FLIGHT)
    }

    /// Takes the next due name, if there is room for it.
    pub fn pop(&mut self, now: Timestamp) -> Option<DueName> {
        self.now = now;
        let may_begin = |lane: Lane| {
            let first = self.queue(lane).first().filter(|_| self.has_capacity(lane));
            first.is_some_and(|at| at <= now)
        };
        let lane = match (may_begin(Lane::New), may_begin(Lane::Refresh)) {
            (true, true) if self.taken.is_multiple_of(2) => Lane::Refresh,
            (true, _) => Lane::New,
            (false, true) => Lane::Refresh,
            (false, false) if may_begin(Lane::Unresponsive) => Lane::Unresponsive,
            (false, false) => return None,
        };
        if lane != Lane::Unresponsive {
            self.taken = self.taken.wrapping_add(1);
        }
        // Of thousands of new names at once, the oldest and the newest take turns: so names that come
        // after them are not late.
        let newest = lane == Lane::New && self.taken.is_multiple_of(4);
        let next = self.queue(lane).next(now, newest)?;
        let queue = self.queue_mut(lane);
        queue.waiting.remove(&next);
        queue.running += 1;
        let (due, name) = next;
        let lookup = self.names.get_mut(&name)?;
        lookup.due = None;
        lookup.running = true;
        lookup.is_early = false;
        Some(DueName {
            is_patient: lane == Lane::Unresponsive,
            // A name that was new before the first call has no time yet.
            due: if due == Timestamp::default() {
                now
            } else {
                due
            },
            name,
        })
    }

    /// The look-up has ended. A name that was not answered in time for the first time is due again at
    /// once, in its lane. Without an address the name backs off. A wildcard itself waits 30 min, since
    /// few zones have one. Other names wait 5 s ten times, then up to 2 min.
    pub fn done(&mut self, name: &DnsName, fruitful: bool, is_unresponsive: bool, now: Timestamp) {
        self.now = now;
        let Some(lookup) = self.names.get_mut(name) else {
            return;
        };
        let was_running = std::mem::take(&mut lookup.running);
        lookup.discarded = false;
        lookup.done = now;
        let was_unresponsive = std::mem::replace(&mut lookup.is_unresponsive, is_unresponsive);
        let lane = lookup.lane;
        lookup.is_retry = !fruitful;
        if fruitful {
            lookup.fruitless = 0;
            lookup.not_before = now + MIN_INTERVAL;
        } else if is_unresponsive && !was_unresponsive {
            lookup.not_before = now;
        } else {
            let wait = if name.is_wildcard() {
                WILDCARD_RETRY
            } else {
                retry_after(lookup.fruitless)
            };
            lookup.not_before = now + wait;
            lookup.fruitless = lookup.fruitless.saturating_add(1);
        }
        let queue = self.queue_mut(lane);
        queue.running = queue.running.saturating_sub(usize::from(was_running));
    }

    /// The earliest time at which [`LookupScheduler::pop`] may return a name.
    pub fn next(&self) -> Option<Timestamp> {
        let lanes = [Lane::New, Lane::Refresh, Lane::Unresponsive];
        let lanes = lanes.into_iter().filter(|lane| self.has_capacity(*lane));
        lanes.filter_map(|lane| self.queue(lane).first()).min()
    }

    /// When the name is due.
    pub fn due(&self, name: &DnsName) -> Option<Timestamp> {
        self.names.get(name)?.due
    }

    pub fn fruitless(&self, name: &DnsName) -> u32 {
        self.names.get(name).map_or(0, |lookup| lookup.fruitless)
    }

    /// Names that wait or are looked up now.
    pub fn count(&self) -> usize {
        self.names.len()
    }
}

/// The look-ups of all names are spread over this time.
const BACKFILL_TIME: Duration = Duration::from_secs(10);

/// All names are looked up again at most once in this time.
const BACKFILL_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct GapBackfill {
    /// Events may have been lost, and the backfill has not begun.
    pub is_owed: bool,
    not_before: Timestamp,
}

impl GapBackfill {
    /// When the next backfill may begin, if one is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.is_owed.then_some(self.not_before)
    }

    /// Schedules look-ups of all wanted names, and returns their number.
    pub fn begin<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a DnsName>,
        lookups: &mut LookupScheduler,
        now: Timestamp,
    ) -> usize {
        self.is_owed = false;
        self.not_before = now + BACKFILL_INTERVAL;
        if !lookups.is_active {
            return 0;
        }
        let names: HashSet<&DnsName> = wanted.collect();
        let count = names.len();
        for name in names {
            lookups.schedule_early(name, now + spread(name, now, BACKFILL_TIME));
        }
        count
    }

    /// The clock was set, or the lead changed: no wait remains. Look-ups that a recent backfill
    /// scheduled were dropped, so it begins again.
    pub fn reset(&mut self, now: Timestamp) {
        self.is_owed |= self.not_before > now;
        self.not_before = now;
    }
}

/// The back-off: 5 s ten times, then doubling up to 2 min.
fn retry_after(fruitless: u32) -> Duration {
    let doublings = (fruitless + 1).saturating_sub(10).min(5);
    (Duration::from_secs(5) * 2_u32.pow(doublings)).min(Duration::from_secs(120))
}

/// Spreads look-ups over up to min(1 s, grace / 4).
fn jitter(name: &DnsName, at: Timestamp, grace: Duration) -> Duration {
    spread(name, at, MAX_JITTER.min(grace / 4))
}

/// A share of the range in whole milliseconds, derived from name and time: computing it again gives
/// the same.
pub fn spread(name: &DnsName, at: Timestamp, range: Duration) -> Duration {
    let millis = u64::try_from(range.as_millis()).unwrap_or(u64::MAX - 1);
    Duration::from_millis(FixedState::default().hash_one((name, at)) % (millis + 1))
}

#[cfg(test)]
mod tests;
