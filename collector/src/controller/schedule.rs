//! When which name is looked up: names that are known in the order of time, and names that are not in turns of their namespaces.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
    time::Duration,
};

use foldhash::fast::FixedState;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::round_robin::{Group, RoundRobin};
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

/// While many names are due, one in so many is a name of which nothing is known. Those that are known must be asked again
/// before anything new is seen of them, however many new ones there are.
const NEW_IN: u32 = 4;

/// Names that are asked for since an answer was lost, and of which nothing else is known: more are not worth their memory, as a
/// wildcard has far fewer names, of which it is asked for 100 in a second.
const MAX_LOST: usize = 4_096;

/// Names of which nothing is known are looked up one in so many microseconds, 2,500 in a second. What is looked up together
/// expires together, and the jitter is only a second: ten thousand names at full speed would be due again at a rate that no
/// core keeps up with. A store takes longer to make so many objects anyway.
const NEW_INTERVAL: i64 = 400;

/// After a pause they may be so many microseconds ahead of that: fifty at once.
const NEW_BURST: i64 = 49 * NEW_INTERVAL;

/// The names to look up.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    names: HashMap<DnsName, Lookup>,
    /// How many of these were lost, and nothing else was said of them.
    lost: usize,
    /// Names with addresses.
    known: Queue,
    /// Names of which no address is known.
    unknown: RoundRobin,
    /// The time when it was last told, which is some time ago.
    now: Timestamp,
    /// Names of which no address is known that are due at once, and wait for the time to be told again.
    arrived: BTreeSet<DnsName>,
    /// When the next of them may be taken, in microseconds since the Unix epoch.
    next_new: i64,
    /// How many were taken while names of both kinds were due.
    taken: u32,
    /// When the next look-up for a wildcard's names may be.
    budgets: HashMap<DnsName, Timestamp>,
}

type Queue = BTreeSet<(Timestamp, DnsName)>;

#[derive(Clone, Copy, Debug, Default)]
struct Lookup {
    place: Option<Place>,
    /// Of a name that has [arrived](Schedule::arrived).
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

/// Where a name stands in a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place {
    /// Nothing is known of it, and it has its turn with this namespace's.
    unknown: Option<Group>,
    due: Timestamp,
    /// When its wildcard's rate lets it, if that is later.
    turn: Timestamp,
}

impl Place {
    fn at(self) -> Timestamp {
        self.turn.max(self.due)
    }
}

impl Schedule {
    /// The name is to be looked up at `at`. A name whose look-ups give nothing waits longer each time.
    pub(super) fn set(&mut self, name: &DnsName, at: Timestamp, grace: Duration) {
        let lookup = self.names.entry(name.clone()).or_default();
        self.lost -= usize::from(std::mem::take(&mut lookup.lost));
        let due = (at + jitter(name, at, grace)).max(lookup.not_before);
        let stays = lookup
            .place
            .is_some_and(|place| place.due == due && place.unknown.is_none());
        if !lookup.running && !lookup.hurried && !stays {
            self.put(name, Some(due), None);
        }
    }

    /// Nothing is known of the name, which these namespaces have in rules: it is to be looked up at once, or when it has waited for long
    /// enough.
    pub(super) fn enqueue_initial_lookup(&mut self, name: &DnsName, namespaces: &[Namespace]) {
        let group = self.unknown.least(namespaces);
        let lookup = self.names.entry(name.clone()).or_default();
        self.lost -= usize::from(std::mem::take(&mut lookup.lost));
        let stays = lookup
            .place
            .is_some_and(|place| place.unknown.is_some() && place.due >= lookup.not_before);
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
    pub(super) fn unset(&mut self, name: &DnsName, forgotten: bool) {
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
    pub(super) fn hurry(&mut self, name: &DnsName, now: Timestamp) {
        let ready = |lookup: &&mut Lookup| !lookup.running && !lookup.hurried;
        if let Some(lookup) = self.names.get_mut(name).filter(ready) {
            let due = now.max(lookup.done + HURRY_INTERVAL);
            if lookup.place.is_none_or(|place| due < place.at()) {
                lookup.hurried = true;
                self.put(name, Some(due), None);
            }
        }
    }

    /// The next look-up of the name, or the one after that which is under way, asks over TCP, too.
    pub(super) fn use_tcp(&mut self, name: &DnsName) {
        if let Some(lookup) = self.names.get_mut(name) {
            lookup.over_tcp = true;
        }
    }

    /// Whether a name that was just taken is to be asked for over TCP, too.
    pub(super) fn takes_tcp(&mut self, name: &DnsName) -> bool {
        let lookup = self.names.get_mut(name);
        lookup.is_some_and(|lookup| std::mem::take(&mut lookup.over_tcp))
    }

    /// The name is to be looked up at `at` or, if it just was, a while after that; whether or not anything is known of it. What
    /// is due earlier stays.
    pub(super) fn ask(&mut self, name: &DnsName, at: Timestamp) {
        let is_due = |due: Timestamp| due <= at;
        if self.due(name).is_some_and(is_due) {
            return;
        }
        self.names.entry(name.clone()).or_default();
        self.hurry(name, at);
    }

    /// The same now for a name whose answer was lost. Returns false if it is one too many of those of which nothing is known.
    pub(super) fn ask_lost(&mut self, name: &DnsName, now: Timestamp) -> bool {
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
    pub(super) fn discard(&mut self, name: &DnsName) {
        if let Some(lookup) = self.names.get_mut(name) {
            lookup.discarded = lookup.running;
        }
    }

    /// Whether what the look-up gives that is under way does not count.
    pub(super) fn is_discarded(&self, name: &DnsName) -> bool {
        self.names.get(name).is_some_and(|lookup| lookup.discarded)
    }

    /// A client got addresses for the name: what our own look-ups gave before no longer counts.
    pub(super) fn answered(&mut self, name: &DnsName) {
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
    pub(super) fn gap(&mut self, now: Timestamp) -> bool {
        let was_asking = self.names.values().any(|lookup| lookup.hurried);
        self.known.clear();
        self.unknown.clear();
        self.arrived.clear();
        self.budgets.clear();
        self.next_new = 0;
        self.now = now;
        // Nobody sets these anew.
        self.names.retain(|_, lookup| !lookup.lost);
        self.lost = 0;
        for lookup in self.names.values_mut() {
            lookup.place = None;
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
        let new = due.map(|due| Place { unknown, due, turn });
        let old = std::mem::replace(&mut lookup.place, new);
        if let Some(old) = old {
            match old.unknown {
                Some(group) => self.unknown.remove(old.at(), name, group),
                None => drop(self.known.remove(&(old.at(), name.clone()))),
            }
            // A turn that is not used is for others.
            let budget = name
                .wildcard()
                .and_then(|above| self.budgets.get_mut(&above));
            if let Some(budget) = budget.filter(|_| old.turn > old.due) {
                *budget = budget.before(WILDCARD_INTERVAL);
            }
        }
        if let Some(new) = new {
            self.enqueue(new, name.clone());
        }
    }

    fn enqueue(&mut self, place: Place, name: DnsName) {
        match place.unknown {
            Some(group) => self.unknown.insert(place.at(), name, group),
            None => drop(self.known.insert((place.at(), name))),
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

    /// Whether [`Schedule::pop`] may have something. Names that are due at once are due from this call on.
    pub(super) fn is_due(&mut self, now: Timestamp) -> bool {
        self.arrive(now);
        self.next().is_some_and(|at| at <= now)
    }

    /// Takes the next name whose time has come, with when that was. `found_by` tells which wildcard alone wants it.
    pub(super) fn pop(
        &mut self,
        now: Timestamp,
        found_by: impl Fn(&DnsName) -> Option<DnsName>,
    ) -> Option<(DnsName, Timestamp)> {
        self.arrive(now);
        loop {
            let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
            let unknown = match (is_due(self.next_known()), is_due(self.next_unknown())) {
                (false, false) => return None,
                (true, true) => {
                    self.taken = self.taken.wrapping_add(1);
                    self.taken.is_multiple_of(NEW_IN)
                }
                (_, unknown) => unknown,
            };
            let name = match unknown {
                true => match self.unknown.pop(now) {
                    Some((name, _)) => name,
                    // Those that were due were taken out.
                    None => continue,
                },
                false => self.known.pop_first()?.1,
            };
            let lookup = self.names.get_mut(&name)?;
            let place = lookup.place.take()?;
            if let Some(wildcard) = found_by(&name).filter(|_| place.turn <= place.due) {
                let budget = self.budgets.entry(wildcard).or_default();
                let turn = (*budget).max(now.before(BURST));
                *budget = turn + WILDCARD_INTERVAL;
                if turn > now {
                    // In the order in which they were due, and for good: who is put off again and again is never asked.
                    let place = Place { turn, ..place };
                    lookup.place = Some(place);
                    self.enqueue(place, name);
                    continue;
                }
            }
            lookup.running = true;
            lookup.hurried = false;
            if unknown {
                let now = now.as_millis().saturating_mul(1000);
                self.next_new = self.next_new.max(now - NEW_BURST) + NEW_INTERVAL;
            }
            return Some((name, place.due));
        }
    }

    /// The look-up of the name is over. Without an address the next one waits: 30 min for a wildcard's own name, which
    /// few zones have; 5 s ten times and then up to 2 min for others.
    pub(super) fn done(&mut self, name: &DnsName, fruitful: bool, now: Timestamp) {
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

    /// When [`Schedule::pop`] has something, or may have.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let arrived = (!self.arrived.is_empty()).then(Timestamp::default);
        let next = self.next_known().into_iter().chain(self.next_unknown());
        next.chain(arrived).min()
    }

    fn next_known(&self) -> Option<Timestamp> {
        self.known.first().map(|(at, _)| *at)
    }

    fn next_unknown(&self) -> Option<Timestamp> {
        // Rounded up: before that it is too early.
        let let_at = Timestamp::from_millis(self.next_new.saturating_add(999).div_euclid(1000));
        self.unknown.first().map(|at| let_at.max(at))
    }

    /// When the name is looked up; long ago if that is at once.
    pub(super) fn due(&self, name: &DnsName) -> Option<Timestamp> {
        let place = self.names.get(name)?.place;
        let at_once = || self.arrived.contains(name).then(Timestamp::default);
        place.map(Place::at).or_else(at_once)
    }

    /// Look-ups of the name in a row that gave no address.
    pub(super) fn barren(&self, name: &DnsName) -> u32 {
        self.names.get(name).map_or(0, |lookup| lookup.barren)
    }

    /// Names that are waiting or under way.
    pub(super) fn len(&self) -> usize {
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
pub(super) fn spread(name: &DnsName, at: Timestamp, range: Duration) -> Duration {
    let millis = u64::try_from(range.as_millis()).unwrap_or(u64::MAX - 1);
    Duration::from_millis(FixedState::default().hash_one((name, at)) % (millis + 1))
}

#[cfg(test)]
mod tests;
