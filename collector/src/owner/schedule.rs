//! When which name is looked up: a queue in the order of time.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
    time::Duration,
};

use foldhash::fast::FixedState;
use proto::api::DnsName;
use runtime::clock::Timestamp;

/// A look-up comes at most this long after the expiry it is for.
const MAX_JITTER: Duration = Duration::from_secs(1);

/// A wildcard's own name that gave nothing is looked up again after this.
const WILDCARD_RETRY: Duration = Duration::from_secs(30 * 60);

/// Look-ups a second for the names that one wildcard brought in.
const WILDCARD_RATE: u32 = 100;

/// Clients that get cut-off answers all the time cause a look-up this often.
const HURRY_INTERVAL: Duration = Duration::from_secs(5);

/// A name is looked up at most this often, whatever its addresses, its TTLs and the grace are.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// How far they may run ahead of that rate.
const BURST: Duration = Duration::from_secs(1);

/// The names to look up.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    names: HashMap<DnsName, Lookup>,
    queue: BTreeSet<(Timestamp, DnsName)>,
    /// When the next look-up for a wildcard's names may be.
    budgets: HashMap<DnsName, Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lookup {
    due: Option<Timestamp>,
    /// A look-up is under way: the name waits for it.
    running: bool,
    /// Look-ups in a row that gave no address.
    barren: u32,
    not_before: Timestamp,
    /// When the last one was over.
    done: Timestamp,
    /// It is due at once, whatever else is said.
    hurried: bool,
}

impl Schedule {
    /// The name is to be looked up at `at`. A name whose look-ups give nothing waits longer each time.
    pub(super) fn set(&mut self, name: &DnsName, at: Timestamp, grace: Duration) {
        let lookup = self.names.entry(name.clone()).or_default();
        if !lookup.running && !lookup.hurried {
            let due = (at + jitter(name, at, grace)).max(lookup.not_before);
            self.queue_at(name, Some(due));
        }
    }

    /// The name is not to be looked up; if it is `forgotten`, nothing is remembered of it.
    pub(super) fn unset(&mut self, name: &DnsName, forgotten: bool) {
        self.queue_at(name, None);
        if forgotten {
            self.names.remove(name);
            self.budgets.remove(name);
        }
    }

    /// The name is to be looked up now, whatever it waits for, unless it just was.
    pub(super) fn hurry(&mut self, name: &DnsName, now: Timestamp) {
        let ready = |lookup: &&mut Lookup| !lookup.running && lookup.done + HURRY_INTERVAL <= now;
        if let Some(lookup) = self.names.get_mut(name).filter(ready) {
            lookup.hurried = true;
            self.queue_at(name, Some(now));
        }
    }

    /// A client got addresses for the name: what our own look-ups gave before no longer counts.
    pub(super) fn answered(&mut self, name: &DnsName) {
        let barren = |lookup: &&mut Lookup| !lookup.running && lookup.barren > 0;
        if let Some(lookup) = self.names.get_mut(name).filter(barren) {
            lookup.barren = 0;
            lookup.not_before = Timestamp::default();
        }
    }

    fn queue_at(&mut self, name: &DnsName, due: Option<Timestamp>) {
        let Some(lookup) = self.names.get_mut(name).filter(|lookup| lookup.due != due) else {
            return;
        };
        if let Some(old) = lookup.due.take() {
            self.queue.remove(&(old, name.clone()));
        }
        lookup.due = due;
        self.queue.extend(due.map(|due| (due, name.clone())));
    }

    /// Takes the next name whose time has come, with how late that is. `found_by` tells which wildcard alone wants it.
    pub(super) fn pop(
        &mut self,
        now: Timestamp,
        found_by: impl Fn(&DnsName) -> Option<DnsName>,
    ) -> Option<(DnsName, Duration)> {
        loop {
            let (at, name) = self.queue.first().filter(|(at, _)| *at <= now)?.clone();
            if let Some(wildcard) = found_by(&name) {
                let slot = self.budgets.entry(wildcard).or_default();
                if *slot > now + BURST {
                    // Over the budget: later, and in the order of the queue.
                    let later = *slot;
                    self.queue_at(&name, Some(later));
                    continue;
                }
                *slot = (*slot).max(now) + Duration::from_secs(1) / WILDCARD_RATE;
            }
            self.queue_at(&name, None);
            if let Some(lookup) = self.names.get_mut(&name) {
                lookup.running = true;
                lookup.hurried = false;
            }
            return Some((name, now.since(at)));
        }
    }

    /// The look-up of the name is over. Without an address the next one waits: 30 min for a wildcard's own name, which
    /// few zones have; 5 s ten times and then up to 2 min for others.
    pub(super) fn done(&mut self, name: &DnsName, fruitful: bool, now: Timestamp) {
        let Some(lookup) = self.names.get_mut(name) else {
            return;
        };
        lookup.running = false;
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

    /// When [`Schedule::pop`] has something.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// When the name is looked up.
    pub(super) fn due(&self, name: &DnsName) -> Option<Timestamp> {
        self.names.get(name)?.due
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

/// Spreads look-ups over up to min(1 s, grace / 4). The same for the same expiry, so that computing it again moves nothing.
fn jitter(name: &DnsName, at: Timestamp, grace: Duration) -> Duration {
    let range = MAX_JITTER.min(grace / 4).as_millis() as u64 + 1;
    Duration::from_millis(FixedState::default().hash_one((name, at)) % range)
}
