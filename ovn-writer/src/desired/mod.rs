//! What the address sets should hold: the statuses of the store, added up by DNS name.
//!
//! There is no IO here, and no clock. The store is not trusted:
//!
//! - Addresses are brought into one spelling and pass the guards again ([`filter`]).
//! - What goes with an object stays wanted for a while ([`Options::removal_delay`]): an object that is deleted and made again,
//!   with another uid and at first without addresses, takes nothing out of the sets. While the store cannot be read nobody can
//!   see it return: that while does not count.
//! - A list that holds no object of those that were known is no proof that they are gone: it may be of another store, or of a
//!   folder that vanished. They count as [missing](Desired::missing) then, and all of them hold, until a list has one of them.

pub mod filter;
mod object;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use foldhash::{HashMap, HashSet};
use proto::api::{DnsName, DnsNameResolver, Family, NameError};
use runtime::store::{Event, ObjectKey};

pub use self::filter::{Filter, Skip};
use self::object::{Came, Object};
use crate::addresses::{Addresses, AddressesRef};

/// How many addresses that left statuses are remembered for each name until the database was looked at, not counting those that
/// left last.
///
/// Only rows that somebody else fills too need them; an address that is not remembered stays in such a row.
const MAX_LEFT: usize = 1024;

/// What is to be made of the store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which addresses may stand in sets.
    pub filter: Filter,
    /// How long the addresses of an object that went stay wanted.
    pub removal_delay: Duration,
    /// Whether a list that holds nothing of what was known is believed.
    pub allow_empty: bool,
}

impl Default for Options {
    /// 5 s, and nothing is believed.
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            removal_delay: Duration::from_secs(5),
            allow_empty: false,
        }
    }
}

/// The content of the store, as far as it concerns the sets.
#[derive(Debug, Default)]
pub struct Desired {
    options: Options,
    objects: HashMap<Arc<ObjectKey>, Object>,
    names: HashMap<DnsName, Name>,
    /// Objects whose `spec.name` no address set can have.
    unusable: HashMap<ObjectKey, NameError>,
    /// Objects that are known from before, and not in a list that had none of these.
    missing: HashSet<ObjectKey>,
    /// Whether the store was ever read, and whether it can be.
    has_been_read: bool,
    in_sync: bool,
    /// Whether the store was said to be out of reach, and has not been read since.
    is_cut_off: bool,
    /// Objects that are there and cannot be read: what is known of them holds.
    unreadable: BTreeSet<ObjectKey>,
    /// When something of a name is to end.
    deadlines: BTreeSet<(Instant, DnsName)>,
    skipped: HashMap<Skip, usize>,
}

/// One DNS name that the store has, or had since this program started.
#[derive(Debug, Default)]
struct Name {
    /// The objects of this name; almost always one.
    objects: Vec<Arc<ObjectKey>>,
    seen: bool,
    resolved: bool,
    /// If there is no object: until when the name counts as leaving.
    leaving: Option<Instant>,
    /// Few names have one at a time.
    past: Option<Box<Past>>,
}

/// What became of addresses that a name had.
#[derive(Debug, Default)]
struct Past {
    /// Those that left statuses.
    left: BTreeSet<IpAddr>,
    /// Those that went with an object, until when they are wanted all the same.
    held: BTreeMap<IpAddr, Instant>,
}

impl Name {
    fn past(&self) -> &Past {
        static NONE: Past = Past {
            left: BTreeSet::new(),
            held: BTreeMap::new(),
        };
        self.past.as_deref().unwrap_or(&NONE)
    }

    /// Keeps of the past what is to be kept.
    fn clear_past(&mut self, clear: impl FnOnce(&mut Past)) {
        if let Some(past) = &mut self.past {
            clear(past);
            if past.left.is_empty() && past.held.is_empty() {
                self.past = None;
            }
        }
    }
}

/// Whether the store has a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// An object has it.
    Present,
    /// No object has it, but that may be for a moment.
    Leaving,
    /// It is gone.
    Gone,
}

/// What is wanted of the sets of one name.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Whether the store has the name.
    pub standing: Standing,
    /// Whether an object with the name was seen since this program started. If not, the name was [adopted](Desired::adopt).
    pub seen: bool,
    /// Whether a status with an address was seen since this program started. As long as there was none, nothing follows from
    /// what a status lacks: the collector may not have written it yet.
    pub resolved: bool,
    /// The union of the addresses of both families.
    pub addresses: Cow<'a, Addresses>,
    /// Addresses that were in a status, and are in none now.
    pub left: &'a BTreeSet<IpAddr>,
}

impl Wanted<'_> {
    /// The addresses of one family.
    pub fn of_family(&self, family: Family) -> AddressesRef<'_> {
        self.addresses.all().of_family(family)
    }
}

impl Desired {
    /// Nothing is known yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// What is made of the store.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Takes over what the store says, and returns the names of which something else may be wanted now. A change of nothing but
    /// times and counts is none.
    pub fn apply(&mut self, event: &Event<DnsNameResolver>, now: Instant) -> HashSet<DnsName> {
        let mut changed = HashSet::default();
        match event {
            Event::Synced(objects) => {
                (self.has_been_read, self.in_sync) = (true, true);
                if std::mem::take(&mut self.is_cut_off) {
                    self.postpone(now);
                }
                self.listed(objects, now, &mut changed);
            }
            Event::Applied(object) => self.applied(object, now, &mut changed),
            Event::Deleted(key) => self.deleted(key, now, &mut changed),
            Event::Undecodable(objects) => self.unreadable.clone_from(objects),
            // The rows of a name that was never known are left as they are.
            Event::OutOfSync(_) => (self.in_sync, self.is_cut_off) = (false, true),
        }
        changed
    }

    /// What is wanted of the sets of this name; `None` if the store never had it while this program ran, and it was not
    /// [adopted](Desired::adopt).
    pub fn wanted(&self, name: &DnsName) -> Option<Wanted<'_>> {
        let state = self.names.get(name)?;
        let objects = || state.objects.iter().filter_map(|key| self.objects.get(key));
        let Past { left, held } = state.past();
        let addresses = match (objects().next(), held.is_empty()) {
            (Some(one), true) if state.objects.len() == 1 => Cow::Borrowed(&one.addresses),
            _ => {
                let held = held.keys().copied();
                let all = objects().flat_map(|object| object.addresses.all().iter());
                Cow::Owned(all.chain(held).collect())
            }
        };
        let standing = match state.leaving {
            _ if !state.objects.is_empty() => Standing::Present,
            Some(_) => Standing::Leaving,
            None => Standing::Gone,
        };
        Some(Wanted {
            standing,
            seen: state.seen,
            resolved: state.resolved,
            addresses,
            left,
        })
    }

    /// The names that the store has, or had since this program started.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &DnsName> + Clone {
        self.names.keys()
    }

    /// The objects that have the name.
    pub fn objects_of(&self, name: &DnsName) -> impl Iterator<Item = &ObjectKey> {
        let state = self.names.get(name).into_iter();
        state.flat_map(|state| state.objects.iter().map(|key| &**key))
    }

    /// Whether the store was ever read: nothing is wanted before.
    pub fn has_been_read(&self) -> bool {
        self.has_been_read
    }

    /// The number of objects, those with an unusable name apart.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The number of objects whose name no address set can have.
    pub fn unusable(&self) -> usize {
        self.unusable.len()
    }

    /// The number of objects that hold although the last list had none of them.
    pub fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Whether every object of the store is known. If not, nothing follows from the absence of a name.
    pub fn is_complete(&self) -> bool {
        let is_known = |key| self.objects.contains_key(key) || self.unusable.contains_key(key);
        self.in_sync && self.missing.is_empty() && self.unreadable.iter().all(is_known)
    }

    /// How many addresses stand in statuses and are not wanted, for this reason.
    pub fn skipped(&self, reason: Skip) -> usize {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// Takes a name over that the store does not have, as if an object of it had been deleted now.
    pub fn adopt(&mut self, name: &DnsName, now: Instant) {
        let until = now + self.options.removal_delay;
        let state = self.names.entry(name.clone()).or_default();
        if state.objects.is_empty() && state.leaving.is_none() {
            state.leaving = Some(until);
            self.deadlines.insert((until, name.clone()));
        }
    }

    /// When [`Desired::expire`] has something to do, if ever.
    pub fn next_deadline(&self) -> Option<Instant> {
        let (deadline, _) = self.deadlines.first().filter(|_| !self.is_cut_off)?;
        Some(*deadline)
    }

    /// Ends what ends now, and returns the names of which something else is wanted.
    pub fn expire(&mut self, now: Instant) -> HashSet<DnsName> {
        let mut changed = HashSet::default();
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            let Some((_, name)) = self.deadlines.pop_first() else {
                break;
            };
            let Some(state) = self.names.get_mut(&name) else {
                continue;
            };
            if state.leaving.is_some_and(|until| until <= now) {
                state.leaving = None;
                changed.insert(name.clone());
            }
            let mut gone = Vec::new();
            state.clear_past(|past| {
                past.held.retain(|address, until| {
                    let ends = *until <= now;
                    gone.extend(ends.then_some(*address));
                    !ends
                });
            });
            if !gone.is_empty() {
                let gone: Addresses = gone.into_iter().collect();
                self.leave(&name, gone.all());
                changed.insert(name);
            }
        }
        changed
    }

    /// What is to end gets its whole time anew: what returned while nobody could see it may still lack its addresses.
    fn postpone(&mut self, now: Instant) {
        let until = now + self.options.removal_delay;
        for (_, name) in std::mem::take(&mut self.deadlines) {
            if let Some(state) = self.names.get_mut(&name) {
                let leaving = state.leaving.iter_mut();
                let past = state.past.iter_mut();
                leaving
                    .chain(past.flat_map(|past| past.held.values_mut()))
                    .for_each(|end| *end = until);
                self.deadlines.insert((until, name));
            }
        }
    }

    /// The database was looked at: of the addresses that left, only those need be remembered that are still in a row.
    pub fn settle(&mut self, name: &DnsName, in_a_row: impl Fn(&IpAddr) -> bool) {
        if let Some(state) = self.names.get_mut(name) {
            state.clear_past(|past| past.left.retain(in_a_row));
        }
    }

    /// Forgets a name if it is gone, and says whether it was.
    pub fn forget(&mut self, name: &DnsName) -> bool {
        let gone = |state: &Name| state.objects.is_empty() && state.leaving.is_none();
        let is_gone = self.names.get(name).is_some_and(gone);
        if is_gone {
            self.names.remove(name);
        }
        is_gone
    }

    fn listed(
        &mut self,
        objects: &[DnsNameResolver],
        now: Instant,
        changed: &mut HashSet<DnsName>,
    ) {
        let mut there: HashSet<_> = objects.iter().map(ObjectKey::of).collect();
        there.extend(self.unreadable.iter().cloned());
        let known = self.objects.keys().map(Arc::as_ref);
        let known = known.chain(self.unusable.keys());
        let (still, gone): (Vec<_>, Vec<_>) = known.cloned().partition(|key| there.contains(key));
        let is_proof = if self.missing.is_empty() {
            !still.is_empty()
        } else {
            // What came with the list that had none of these proves nothing of them.
            still.iter().any(|key| self.missing.contains(key))
        };
        for object in objects {
            self.applied(object, now, changed);
        }
        if is_proof || self.options.allow_empty {
            self.missing.clear();
            for key in gone {
                self.deleted(&key, now, changed);
            }
        } else {
            self.missing = gone.into_iter().collect();
        }
    }

    fn applied(&mut self, object: &DnsNameResolver, now: Instant, changed: &mut HashSet<DnsName>) {
        let key = ObjectKey::of(object);
        let name = match DnsName::parse(&object.spec.name) {
            Ok(name) => name,
            Err(error) => {
                // What was known of it holds, as if it did not decode.
                if self.unusable.get(&key) != Some(&error) {
                    tracing::warn!(object = %key, name = object.spec.name, %error, "an object is ignored");
                    self.unusable.insert(key, error);
                }
                return;
            }
        };
        self.unusable.remove(&key);
        self.missing.remove(&key);
        let known = self.objects.get_mut(&key);
        if known
            .as_ref()
            .is_some_and(|known| !known.is_same(&name, object))
        {
            self.deleted(&key, now, changed);
        } else if let Some(known) = known
            && let Some(came) = known.grow(object, &self.options.filter)
        {
            let is_change = !came.addresses.all().is_empty();
            self.came(&name, &came);
            changed.extend(is_change.then_some(name));
            return;
        }
        let (new, came) = Object::read(name.clone(), object, &self.options.filter);
        self.came(&name, &came);
        let Some(old) = self.objects.get_mut(&key) else {
            let state = self.names.entry(name.clone()).or_default();
            let key = Arc::new(key);
            state.objects.reserve_exact(1);
            state.objects.push(key.clone());
            self.objects.insert(key, new);
            changed.insert(name);
            return;
        };
        let is_change = old.addresses != new.addresses;
        let old = std::mem::replace(old, new);
        self.unskip(&old);
        if is_change {
            self.leave(&name, old.addresses.all());
            changed.insert(name);
        }
    }

    /// A status of the name has these, perhaps since now.
    fn came(&mut self, name: &DnsName, came: &Came) {
        let state = self.names.entry(name.clone()).or_default();
        state.seen = true;
        state.leaving = None;
        state.resolved |= came.is_resolved();
        let addresses = came.addresses.all();
        state.clear_past(|past| {
            past.left.retain(|address| !addresses.contains(*address));
            past.held.retain(|address, _| !addresses.contains(*address));
        });
        for reason in &came.skipped {
            *self.skipped.entry(*reason).or_default() += 1;
        }
    }

    fn deleted(&mut self, key: &ObjectKey, now: Instant, changed: &mut HashSet<DnsName>) {
        self.unusable.remove(key);
        self.missing.remove(key);
        let Some(old) = self.objects.remove(key) else {
            return;
        };
        self.unskip(&old);
        let until = now + self.options.removal_delay;
        let Some(state) = self.names.get_mut(&old.name) else {
            return;
        };
        state.objects.retain(|other| **other != *key);
        if state.objects.is_empty() {
            state.leaving = Some(until);
        }
        let elsewhere = |address: &IpAddr| {
            let objects = state.objects.iter().filter_map(|key| self.objects.get(key));
            objects
                .into_iter()
                .any(|object| object.addresses.all().contains(*address))
        };
        let addresses = old.addresses.all().iter();
        let held: Vec<_> = addresses
            .filter(|address| !elsewhere(address))
            .map(|address| (address, until))
            .collect();
        if !held.is_empty() {
            state.past.get_or_insert_default().held.extend(held);
        }
        self.deadlines.insert((until, old.name.clone()));
        changed.insert(old.name);
    }

    fn unskip(&mut self, object: &Object) {
        for reason in &object.skipped {
            if let Some(count) = self.skipped.get_mut(reason) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Remembers those of the addresses that are no longer wanted of the name.
    fn leave(&mut self, name: &DnsName, addresses: AddressesRef<'_>) {
        let Some(wanted) = self.wanted(name) else {
            return;
        };
        let gone = addresses.without(wanted.addresses.all());
        if let Some(state) = self.names.get_mut(name) {
            // All of one change, or none: a set that loses tens of thousands at once loses all of them.
            if !gone.is_empty() && state.past().left.len() < MAX_LEFT {
                state.past.get_or_insert_default().left.extend(gone);
            }
        }
    }
}

#[cfg(test)]
mod tests;
