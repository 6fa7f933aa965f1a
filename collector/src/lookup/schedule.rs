//! When names are looked up: names with addresses in order of time, new names in turns of their
//! namespaces.

use std::{
    collections::{BTreeMap, HashMap},
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

/// A look-up begins at most this long after the expiry of the address.
const MAX_JITTER: Duration = Duration::from_secs(1);

/// The wait after a look-up of a wildcard itself that found no address.
const WILDCARD_RETRY: Duration = Duration::from_secs(30 * 60);

/// The interval of look-ups for the names of one wildcard: 100 a second ...
const WILDCARD_INTERVAL: Duration = Duration::from_millis(10);

/// ... with this burst after a pause.
const BURST: Duration = Duration::from_secs(1);

/// The least time between look-ups that truncated answers cause, whether to clients or to the
/// collector.
const HURRY_INTERVAL: Duration = Duration::from_secs(5);

/// The least time between look-ups of a name, whatever its addresses, TTLs and grace.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The most namespaces that are considered for the turn of a name.
pub(crate) const MOST_NAMESPACES: usize = 1_024;

/// The most names that are here only because an answer was lost. A wildcard has far fewer names,
/// and its names are looked up at 100 a second.
const MAX_LOST: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct LookupScheduler {
    /// Whether names are looked up: this collector leads, and has a resolver. A change must
    /// reschedule every name.
    pub(crate) is_active: bool,
    names: HashMap<DnsName, Lookup>,
    /// The number of names that are here only because an answer was lost.
    lost: usize,
    queue: DueNames,
    /// The time of the last call that had one.
    now: Timestamp,
    /// New names that are due at once, with their groups. They enter the queue with the next call
    /// that has the time.
    arrived: BTreeMap<DnsName, Group>,
    /// When the next look-up for a name of a wildcard is allowed.
    budgets: HashMap<DnsName, Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lookup {
    position: Option<QueuePosition>,
    /// A look-up is in progress: the name is not in the queue.
    running: bool,
    /// The result of the current look-up is to be ignored.
    discarded: bool,
    /// Look-ups in a row that found no address.
    barren: u32,
    not_before: Timestamp,
    /// When the last one ended.
    done: Timestamp,
    /// Why the name is due before the time that [`LookupScheduler::reschedule`] gives, if it is.
    hurry: Option<Hurry>,
    /// The next look-up also uses TCP: there may be more addresses than a datagram holds.
    over_tcp: bool,
    /// The name is here only because its answer was lost.
    lost: bool,
}

/// Why a name is due early. A later reason replaces an earlier one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Hurry {
    /// Some answers may have been lost. If the name is evicted, there is no reason left.
    Gap,
    /// A client got an answer that the collector does not have.
    Answer,
}

/// When a name is to be looked up next, by its state.
#[derive(Clone, Debug)]
pub(crate) enum NextLookup {
    /// The name is new, and in rules of these namespaces. It is due at once, or after its back-off.
    Initial(SmallVec<[Namespace; 4]>),
    /// Due when its first address expires. The jitter is a part of the grace.
    Refresh { at: Timestamp, grace: Duration },
    /// No look-up is needed. If the name is forgotten, its back-off goes too.
    Never { is_forgotten: bool },
}

impl LookupScheduler {
    pub(crate) fn reschedule(&mut self, name: &DnsName, next: NextLookup) {
        match next {
            NextLookup::Initial(namespaces) => self.enqueue_initial_lookup(name, &namespaces),
            NextLookup::Refresh { at, grace } => self.set(name, at, grace),
            NextLookup::Never { is_forgotten } => self.unset(name, is_forgotten),
        }
    }

    /// Sets the time of the look-up. The back-off of a name without answers may delay it.
    fn set(&mut self, name: &DnsName, at: Timestamp, grace: Duration) {
        let lookup = self.names.entry(name.clone()).or_default();
        self.lost -= usize::from(std::mem::take(&mut lookup.lost));
        let due = (at + jitter(name, at, grace)).max(lookup.not_before);
        let stays = lookup
            .position
            .is_some_and(|it| it.due == due && it.unknown.is_none());
        if !lookup.running && lookup.hurry.is_none() && !stays {
            self.put(name, Some(due), None);
        }
    }

    /// The name is new, and in rules of these namespaces: due at once, or after its back-off.
    fn enqueue_initial_lookup(&mut self, name: &DnsName, namespaces: &[Namespace]) {
        let group = self.queue.least(namespaces);
        let lookup = self.names.entry(name.clone()).or_default();
        self.lost -= usize::from(std::mem::take(&mut lookup.lost));
        let stays = lookup
            .position
            .is_some_and(|it| it.unknown.is_some() && it.due >= lookup.not_before);
        if lookup.running || lookup.hurry.is_some() || stays {
            return;
        }
        let not_before = lookup.not_before;
        if not_before > self.now {
            self.put(name, Some(not_before), Some(group));
        } else {
            self.put(name, None, None);
            self.arrived.insert(name.clone(), group);
        }
    }

    /// Cancels the look-up, unless it is hurried. If `forgotten`, the back-off of the name goes
    /// too.
    fn unset(&mut self, name: &DnsName, forgotten: bool) {
        if self.names.get(name).is_some_and(|it| it.hurry.is_some()) {
            return;
        }
        self.put(name, None, None);
        // A running look-up keeps its entry until it ends, so that no second one starts beside it.
        let is_running = self.names.get(name).is_some_and(|lookup| lookup.running);
        if forgotten && !is_running {
            let lookup = self.names.remove(name);
            self.lost -= usize::from(lookup.is_some_and(|lookup| lookup.lost));
            self.budgets.remove(name);
        }
    }

    /// Makes the name due now regardless of its back-off, but not within [`HURRY_INTERVAL`] after
    /// its last look-up.
    pub(crate) fn hurry(&mut self, name: &DnsName, now: Timestamp) {
        self.hurry_for(name, now, Hurry::Answer);
    }

    fn hurry_for(&mut self, name: &DnsName, now: Timestamp, hurry: Hurry) {
        let Some(lookup) = self.names.get_mut(name).filter(|it| !it.running) else {
            return;
        };
        if lookup.hurry >= Some(hurry) {
            return;
        }
        let due = now.max(lookup.done + HURRY_INTERVAL);
        // A turn that is fixed stays, or the name could starve.
        let is_fixed = |it: QueuePosition| lookup.hurry.is_some() && it.turn > it.due;
        let moves = lookup
            .position
            .is_none_or(|it| due < it.at() && !is_fixed(it));
        if moves || lookup.hurry.is_some() {
            lookup.hurry = Some(hurry);
        }
        if moves {
            self.put(name, Some(due), None);
        }
    }

    /// The next look-up of the name uses TCP too.
    pub(crate) fn use_tcp(&mut self, name: &DnsName) {
        if let Some(lookup) = self.names.get_mut(name) {
            lookup.over_tcp = true;
        }
    }

    /// Whether the look-up that just began uses TCP too.
    pub(crate) fn takes_tcp(&mut self, name: &DnsName) -> bool {
        let lookup = self.names.get_mut(name);
        lookup.is_some_and(|lookup| std::mem::take(&mut lookup.over_tcp))
    }

    /// Makes the name due at `at`, whether or not it is known, but not within [`HURRY_INTERVAL`]
    /// after its last look-up. An earlier time stays.
    pub(crate) fn ask(&mut self, name: &DnsName, at: Timestamp) {
        self.ask_for(name, at, Hurry::Answer);
    }

    /// [`LookupScheduler::ask`] because some answers may have been lost.
    pub(crate) fn ask_after_gap(&mut self, name: &DnsName, at: Timestamp) {
        self.ask_for(name, at, Hurry::Gap);
    }

    fn ask_for(&mut self, name: &DnsName, at: Timestamp, hurry: Hurry) {
        if self.arrived.contains_key(name) {
            return;
        }
        self.names.entry(name.clone()).or_default();
        self.hurry_for(name, at, hurry);
    }

    /// [`LookupScheduler::ask`] for a name whose answer was lost. Returns false if there are too
    /// many of these.
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

    /// The name was evicted. The result of a look-up that runs, or that is due after a gap, would
    /// bring it back, with no client that queried it. A name whose answer was lost stays in the
    /// queue, if not too many do. The caller must reschedule the name.
    pub(crate) fn discard(&mut self, name: &DnsName) {
        let Some(lookup) = self.names.get_mut(name) else {
            return;
        };
        lookup.discarded = lookup.running;
        if lookup.hurry == Some(Hurry::Answer) && (lookup.lost || self.lost < MAX_LOST) {
            self.lost += usize::from(!std::mem::replace(&mut lookup.lost, true));
        } else {
            lookup.hurry = None;
        }
    }

    /// Whether the result of the running look-up is to be ignored.
    pub(crate) fn is_discarded(&self, name: &DnsName) -> bool {
        self.names.get(name).is_some_and(|lookup| lookup.discarded)
    }

    /// A client got addresses for the name, so the back-off of failed look-ups ends.
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

    /// The clock was set, or look-ups were impossible for a while: all times and back-offs are
    /// dropped. The caller must reschedule every name. Returns whether any name was hurried: that
    /// is dropped too.
    pub(crate) fn gap(&mut self, now: Timestamp) -> bool {
        let was_asking = self.names.values().any(|it| it.hurry.is_some());
        self.queue = DueNames::default();
        self.arrived.clear();
        self.budgets.clear();
        self.now = now;
        // The caller does not reschedule these.
        self.names.retain(|_, lookup| !lookup.lost);
        self.lost = 0;
        for lookup in self.names.values_mut() {
            lookup.position = None;
            lookup.hurry = None;
            lookup.not_before = Timestamp::default();
            lookup.done = lookup.done.min(now);
        }
        was_asking
    }

    /// Moves the name to another time in the queue, or removes it.
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
            // Gives back the turn of its wildcard if it is not used.
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

    /// Moves the names that are due at once into the queue.
    fn arrive(&mut self, now: Timestamp) {
        self.now = now;
        for (name, group) in std::mem::take(&mut self.arrived) {
            self.put(&name, Some(now), Some(group));
        }
    }

    /// Whether [`LookupScheduler::pop`] may return a name. Names that are due at once get this
    /// time.
    pub(crate) fn is_due(&mut self, now: Timestamp) -> bool {
        self.arrive(now);
        self.next().is_some_and(|at| at <= now)
    }

    /// Takes the next due name, with its due time. `found_by` gives the wildcard if no rule has the
    /// name itself.
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
                    // The turn is fixed in order of due times: if it were assigned again later, a
                    // name could starve.
                    let position = QueuePosition { turn, ..position };
                    lookup.position = Some(position);
                    self.queue.insert(position, name);
                    continue;
                }
            }
            lookup.running = true;
            lookup.hurry = None;
            if is_unknown {
                self.queue.count_new(now);
            }
            return Some((name, position.due));
        }
    }

    /// The look-up has ended. Without an address the name backs off. A wildcard itself waits 30
    /// min, since few zones have one. Other names wait 5 s ten times, then up to 2 min.
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

    /// The earliest time at which [`LookupScheduler::pop`] may return a name.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let arrived = (!self.arrived.is_empty()).then(Timestamp::default);
        self.queue.next().into_iter().chain(arrived).min()
    }

    /// When the name is due; the epoch if it is due at once.
    pub(crate) fn due(&self, name: &DnsName) -> Option<Timestamp> {
        let position = self.names.get(name)?.position;
        let at_once = || self.arrived.contains_key(name).then(Timestamp::default);
        position.map(QueuePosition::at).or_else(at_once)
    }

    pub(crate) fn barren(&self, name: &DnsName) -> u32 {
        self.names.get(name).map_or(0, |lookup| lookup.barren)
    }

    /// Names that wait or are looked up now.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// The back-off: 5 s ten times, then doubling up to 2 min.
fn retry_after(barren: u32) -> Duration {
    let doublings = (barren + 1).saturating_sub(10).min(5);
    (Duration::from_secs(5) * 2_u32.pow(doublings)).min(Duration::from_secs(120))
}

/// Spreads look-ups over up to min(1 s, grace / 4).
fn jitter(name: &DnsName, at: Timestamp, grace: Duration) -> Duration {
    spread(name, at, MAX_JITTER.min(grace / 4))
}

/// A share of the range in whole milliseconds, derived from name and time: computing it again gives
/// the same.
pub(crate) fn spread(name: &DnsName, at: Timestamp, range: Duration) -> Duration {
    let millis = u64::try_from(range.as_millis()).unwrap_or(u64::MAX - 1);
    Duration::from_millis(FixedState::default().hash_one((name, at)) % (millis + 1))
}

#[cfg(test)]
mod tests;
