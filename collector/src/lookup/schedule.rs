//! When which name is looked up: names that are known in the order of time, and names that are not in turns of their namespaces.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
    time::Duration,
};

use foldhash::fast::FixedState;
use proto::api::DnsName;
use runtime::clock::Timestamp;
use smallvec::SmallVec;

use super::{
    due_names::{DueNames, QueuePosition},
    round_robin::Group,
};
use crate::clients::Namespace;

/// A look-up comes at most this long after the expiry it is for.
const MAX_JITTER: Duration = Duration::from_secs(1);

/// A wildcard's own name that gave nothing is looked up again after this.
const WILDCARD_RETRY: Duration = Duration::from_secs(30 * 60);

/// A wildcard's names are looked up one in so much time: 100 in a second ...
const WILDCARD_INTERVAL: Duration = Duration::from_millis(10);

/// ... but after a pause so much at once.
const BURST: Duration = Duration::from_secs(1);

/// Clients that get cut-off answers all the time cause a look-up this often, and a look-up that gets one is tried again after
/// this.
const HURRY_INTERVAL: Duration = Duration::from_secs(5);

/// A name is looked up at most this often, whatever its addresses, its TTLs and the grace are.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// A look-up has its turn with those of so many namespaces that use the name.
pub(crate) const MOST_NAMESPACES: usize = 1_024;

/// Names that are asked for since an answer was lost, and of which nothing else is known: more are not worth their memory, as a
/// wildcard has far fewer names, of which it is asked for 100 in a second.
const MAX_LOST: usize = 4_096;

/// The names to look up.
#[derive(Debug, Default)]
pub(crate) struct LookupScheduler {
    /// Whether names are looked up: this collector leads, and has a resolver.
    is_active: bool,
    names: HashMap<DnsName, Lookup>,
    /// How many of these were lost, and nothing else was said of them.
    lost: usize,
    queue: DueNames,
    /// The time when it was last told, which is some time ago.
    now: Timestamp,
    /// Names of which no address is known that are due at once, and wait for the time to be told again.
    arrived: BTreeSet<DnsName>,
    /// When the next look-up for a wildcard's names may be.
    budgets: HashMap<DnsName, Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lookup {
    position: Option<QueuePosition>,
    /// Of a name that has [arrived](LookupScheduler::arrived).
    group: Group,
    /// A look-up is under way: the name waits for it.
    running: bool,
    /// What it gives does not count.
    discarded: bool,
    /// Look-ups in a row that gave no address.
    barren: u32,
    not_before: Timestamp,
    /// When the last one was over.
    done: Timestamp,
    /// It is due at once, whatever else is said.
    hurried: bool,
    /// Its next look-up asks over TCP, too: there may be more addresses than a datagram has shown.
    over_tcp: bool,
    /// It is only here since its answer was lost.
    lost: bool,
}

/// When a name is to be looked up next, as far as what is known of it tells.
#[derive(Clone, Debug)]
pub(crate) enum NextLookup {
    /// Nothing is known of it, and these namespaces have it in rules: at once, or when it has waited for long enough.
    Initial(SmallVec<[Namespace; 4]>),
    /// When its first address expires. The look-up is spread over a part of the grace.
    Refresh { at: Timestamp, grace: Duration },
    /// Nothing asks for it. If it is forgotten, nothing is remembered of its look-ups.
    Never { is_forgotten: bool },
}

impl LookupScheduler {
    /// Whether names are looked up from now on. Every name must be rescheduled then.
    pub(crate) fn set_active(&mut self, is_active: bool) {
        self.is_active = is_active;
    }

    pub(crate) fn is_active(&self) -> bool {
        self.is_active
    }

    /// Sets when the name is looked up.
    pub(crate) fn reschedule(&mut self, name: &DnsName, next: NextLookup) {
        match next {
            NextLookup::Initial(namespaces) => self.enqueue_initial_lookup(name, &namespaces),
            NextLookup::Refresh { at, grace } => self.set(name, at, grace),
            NextLookup::Never { is_forgotten } => self.unset(name, is_forgotten),
        }
    }

    /// The name is to be looked up at `at`. A name whose look-ups give nothing waits longer each time.
    fn set(&mut self, name: &DnsName, at: Timestamp, grace: Duration) {
        let lookup = self.names.entry(name.clone()).or_default();
        self.lost -= usize::from(std::mem::take(&mut lookup.lost));
        let due = (at + jitter(name, at, grace)).max(lookup.not_before);
        let stays = lookup
            .position
            .is_some_and(|it| it.due == due && it.unknown.is_none());
        if !lookup.running && !lookup.hurried && !stays {
            self.put(name, Some(due), None);
        }
    }

    /// Nothing is known of the name, which these namespaces have in rules: it is to be looked up at once, or when it has waited for long
    /// enough.
    fn enqueue_initial_lookup(&mut self, name: &DnsName, namespaces: &[Namespace]) {
        let group = self.queue.least(namespaces);
        let lookup = self.names.entry(name.clone()).or_default();
        self.lost -= usize::from(std::mem::take(&mut lookup.lost));
        let stays = lookup
            .position
            .is_some_and(|it| it.unknown.is_some() && it.due >= lookup.not_before);
        if lookup.running || lookup.hurried || stays {
            return;
        }
        let not_before = lookup.not_before;
        lookup.group = group;
        if not_before > self.now {
            self.put(name, Some(not_before), Some(group));
        } else {
            self.put(name, None, None);
            self.arrived.insert(name.clone());
        }
    }

    /// The name is not to be looked up, unless it was asked for whatever else is said; if it is `forgotten`, nothing is remembered
    /// of it.
    fn unset(&mut self, name: &DnsName, forgotten: bool) {
        if self.names.get(name).is_some_and(|lookup| lookup.hurried) {
            return;
        }
        self.put(name, None, None);
        // One that is under way is forgotten when it is over, so that it is not asked for twice.
        let is_running = self.names.get(name).is_some_and(|lookup| lookup.running);
        if forgotten && !is_running {
            let lookup = self.names.remove(name);
            self.lost -= usize::from(lookup.is_some_and(|lookup| lookup.lost));
            self.budgets.remove(name);
        }
    }

    /// The name is to be looked up now, whatever it waits for, or a while after it just was.
    pub(crate) fn hurry(&mut self, name: &DnsName, now: Timestamp) {
        let ready = |lookup: &&mut Lookup| !lookup.running && !lookup.hurried;
        if let Some(lookup) = self.names.get_mut(name).filter(ready) {
            let due = now.max(lookup.done + HURRY_INTERVAL);
            if lookup.position.is_none_or(|it| due < it.at()) {
                lookup.hurried = true;
                self.put(name, Some(due), None);
            }
        }
    }

    /// The next look-up of the name, or the one after that which is under way, asks over TCP, too.
    pub(crate) fn use_tcp(&mut self, name: &DnsName) {
        if let Some(lookup) = self.names.get_mut(name) {
            lookup.over_tcp = true;
        }
    }

    /// Whether a name that was just taken is to be asked for over TCP, too.
    pub(crate) fn takes_tcp(&mut self, name: &DnsName) -> bool {
        let lookup = self.names.get_mut(name);
        lookup.is_some_and(|lookup| std::mem::take(&mut lookup.over_tcp))
    }

    /// The name is to be looked up at `at` or, if it just was, a while after that; whether or not anything is known of it. What
    /// is due earlier stays.
    pub(crate) fn ask(&mut self, name: &DnsName, at: Timestamp) {
        let is_due = |due: Timestamp| due <= at;
        if self.due(name).is_some_and(is_due) {
            return;
        }
        self.names.entry(name.clone()).or_default();
        self.hurry(name, at);
    }

    /// The same now for a name whose answer was lost. Returns false if it is one too many of those of which nothing is known.
    pub(crate) fn ask_lost(&mut self, name: &DnsName, now: Timestamp) -> bool {
        if !self.names.contains_key(name) {
            if self.lost >= MAX_LOST {
                return false;
            }
            let lost = true;
            let lookup = Lookup {
                lost,
                ..Lookup::default()
            };
            self.names.insert(name.clone(), lookup);
            self.lost += 1;
        }
        self.ask(name, now);
        true
    }

    /// The name was evicted. What a look-up gives that is under way would bring it back, with no client that asked for it.
    pub(crate) fn discard(&mut self, name: &DnsName) {
        if let Some(lookup) = self.names.get_mut(name) {
            lookup.discarded = lookup.running;
        }
    }

    /// Whether what the look-up gives that is under way does not count.
    pub(crate) fn is_discarded(&self, name: &DnsName) -> bool {
        self.names.get(name).is_some_and(|lookup| lookup.discarded)
    }

    /// A client got addresses for the name: what our own look-ups gave before no longer counts.
    pub(crate) fn reset_backoff(&mut self, name: &DnsName) {
        if let Some(lookup) = self.names.get_mut(name) {
            lookup.discarded = false;
        }
        let barren = |lookup: &&mut Lookup| !lookup.running && lookup.barren > 0;
        if let Some(lookup) = self.names.get_mut(name).filter(barren) {
            lookup.barren = 0;
            lookup.not_before = Timestamp::default();
        }
    }

    /// The clock was set, or nothing could be looked up for a while: nothing is due by the old time, and nothing waits for it.
    /// Every name must be set anew. Returns whether any was to be asked for again, whatever it waits for: that is forgotten.
    pub(crate) fn gap(&mut self, now: Timestamp) -> bool {
        let was_asking = self.names.values().any(|lookup| lookup.hurried);
        self.queue.clear();
        self.arrived.clear();
        self.budgets.clear();
        self.now = now;
        // Nobody sets these anew.
        self.names.retain(|_, lookup| !lookup.lost);
        self.lost = 0;
        for lookup in self.names.values_mut() {
            lookup.position = None;
            lookup.hurried = false;
            lookup.not_before = Timestamp::default();
            lookup.done = lookup.done.min(now);
        }
        was_asking
    }

    /// Takes the name out of its queue and puts it in at another time, or nowhere.
    fn put(&mut self, name: &DnsName, due: Option<Timestamp>, unknown: Option<Group>) {
        let Some(lookup) = self.names.get_mut(name) else {
            return;
        };
        self.arrived.remove(name);
        let turn = Timestamp::default();
        let new = due.map(|due| QueuePosition { unknown, due, turn });
        let old = std::mem::replace(&mut lookup.position, new);
        if let Some(old) = old {
            self.queue.remove(old, name);
            // A turn that is not used is for others.
            let budget = name
                .wildcard()
                .and_then(|above| self.budgets.get_mut(&above));
            if let Some(budget) = budget.filter(|_| old.turn > old.due) {
                *budget = budget.before(WILDCARD_INTERVAL);
            }
        }
        if let Some(new) = new {
            self.queue.insert(new, name.clone());
        }
    }

    /// Names that are due at once are so from now on.
    fn arrive(&mut self, now: Timestamp) {
        self.now = now;
        for name in std::mem::take(&mut self.arrived) {
            let group = self.names.get(&name).and_then(|lookup| lookup.group);
            self.put(&name, Some(now), Some(group));
        }
    }

    /// Whether [`LookupScheduler::pop`] may have something. Names that are due at once are due from this call on.
    pub(crate) fn is_due(&mut self, now: Timestamp) -> bool {
        self.arrive(now);
        self.next().is_some_and(|at| at <= now)
    }

    /// Takes the next name whose time has come, with when that was. `found_by` tells which wildcard alone wants it.
    pub(crate) fn pop(
        &mut self,
        now: Timestamp,
        found_by: impl Fn(&DnsName) -> Option<DnsName>,
    ) -> Option<(DnsName, Timestamp)> {
        self.arrive(now);
        loop {
            let (name, is_unknown) = self.queue.pop(now)?;
            let lookup = self.names.get_mut(&name)?;
            let position = lookup.position.take()?;
            if let Some(wildcard) = found_by(&name).filter(|_| position.turn <= position.due) {
                let budget = self.budgets.entry(wildcard).or_default();
                let turn = (*budget).max(now.before(BURST));
                *budget = turn + WILDCARD_INTERVAL;
                if turn > now {
                    // In the order in which they were due, and for good: who is put off again and again is never asked.
                    let position = QueuePosition { turn, ..position };
                    lookup.position = Some(position);
                    self.queue.insert(position, name);
                    continue;
                }
            }
            lookup.running = true;
            lookup.hurried = false;
            if is_unknown {
                self.queue.count_new(now);
            }
            return Some((name, position.due));
        }
    }

    /// The look-up of the name is over. Without an address the next one waits: 30 min for a wildcard's own name, which
    /// few zones have; 5 s ten times and then up to 2 min for others.
    pub(crate) fn done(&mut self, name: &DnsName, fruitful: bool, now: Timestamp) {
        let Some(lookup) = self.names.get_mut(name) else {
            return;
        };
        self.now = now;
        (lookup.running, lookup.discarded) = (false, false);
        lookup.done = now;
        if fruitful {
            lookup.barren = 0;
            lookup.not_before = now + MIN_INTERVAL;
        } else {
            let wait = if name.is_wildcard() {
                WILDCARD_RETRY
            } else {
                retry_after(lookup.barren)
            };
            lookup.not_before = now + wait;
            lookup.barren = lookup.barren.saturating_add(1);
        }
    }

    /// When [`LookupScheduler::pop`] has something, or may have.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let arrived = (!self.arrived.is_empty()).then(Timestamp::default);
        self.queue.next().into_iter().chain(arrived).min()
    }

    /// When the name is looked up; long ago if that is at once.
    pub(crate) fn due(&self, name: &DnsName) -> Option<Timestamp> {
        let position = self.names.get(name)?.position;
        let at_once = || self.arrived.contains(name).then(Timestamp::default);
        position.map(QueuePosition::at).or_else(at_once)
    }

    /// Look-ups of the name in a row that gave no address.
    pub(crate) fn barren(&self, name: &DnsName) -> u32 {
        self.names.get(name).map_or(0, |lookup| lookup.barren)
    }

    /// Names that are waiting or under way.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// After look-ups that gave nothing: 5 s ten times, then doubling up to 2 min.
fn retry_after(barren: u32) -> Duration {
    let doublings = (barren + 1).saturating_sub(10).min(5);
    (Duration::from_secs(5) * 2_u32.pow(doublings)).min(Duration::from_secs(120))
}

/// Spreads look-ups over up to min(1 s, grace / 4).
fn jitter(name: &DnsName, at: Timestamp, grace: Duration) -> Duration {
    spread(name, at, MAX_JITTER.min(grace / 4))
}

/// A part of the range, in whole milliseconds. The same for the same time, so that computing it again moves nothing.
pub(crate) fn spread(name: &DnsName, at: Timestamp, range: Duration) -> Duration {
    let millis = u64::try_from(range.as_millis()).unwrap_or(u64::MAX - 1);
    Duration::from_millis(FixedState::default().hash_one((name, at)) % (millis + 1))
}

#[cfg(test)]
mod tests;
