//! The desired content of the address sets: the statuses of the store, summed up by DNS name.
//!
//! There is no IO here, and no clock. The store is not trusted:
//!
//! - Addresses are normalised and pass the guards again ([`runtime::address_filter`]).
//! - A status without an address is ignored, unless an entry of `spec.name` gives the reason. Until the objects of a
//!   name have such a status again, their last one counts.
//! - An absent or unreadable object removes nothing: its name is [away](Presence::Away), and [`crate::sync`] decides
//!   what follows.

mod name;
mod object;

use std::{borrow::Cow, collections::BTreeSet, sync::Arc, time::Instant};

use foldhash::{HashMap, HashSet};
use proto::api::{DnsName, DnsNameResolver, Family, NameError};
use runtime::store::{Event, ObjectKey};

use self::{
    name::Name,
    object::{Resolver, Statement},
};
use crate::addresses::{Addresses, AddressesRef};
pub use runtime::address_filter::{Filter, Skip};

/// The content of the store, as far as the sets need it.
#[derive(Debug, Default)]
pub struct Desired {
    pub(crate) filter: Filter,
    objects: HashMap<Arc<ObjectKey>, Resolver>,
    names: HashMap<DnsName, Name>,
    /// Objects whose `spec.name` no address set can have.
    unusable: HashMap<ObjectKey, NameError>,
    /// Whether the store was ever read; before that no address is desired.
    pub(crate) has_been_read: bool,
    in_sync_since: Option<Instant>,
    /// Since when every object has been known, if one was not. Before that, an absent name may have belonged to that
    /// object.
    pub(crate) readable_since: Option<Instant>,
    /// Existing objects that cannot be read; their last known state counts.
    unreadable: BTreeSet<ObjectKey>,
    skipped: HashMap<Skip, usize>,
}

/// Whether the store has an object of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    /// It has one.
    Present,
    /// It has none, by the last complete list and the watch since then.
    Away {
        /// Since when, without an interruption of the store; `None` during an interruption.
        since: Option<Instant>,
        /// Whether the last status said that the rule ended.
        rule_ended: bool,
        /// Whether an administrator permitted to empty the sets of the name.
        is_permitted: bool,
    },
}

/// The desired state of the sets of one name.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Whether the store has the name.
    pub presence: Presence,
    /// Whether an object of the name was seen since this program started.
    pub was_seen: bool,
    /// Whether every object of the name lists its addresses, so that other addresses are surplus.
    pub is_complete: bool,
    /// The union of the known addresses of both families.
    pub addresses: Cow<'a, Addresses>,
    /// The changes since the name was [compared](Desired::compared) with the database; `None` if it never was.
    pub changes: Option<Changes<'a>>,
}

/// The changes of a name in the store.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// Addresses that were added or removed.
    pub addresses: AddressesRef<'a>,
    /// Whether the objects of the name now list their addresses and did not before.
    pub became_complete: bool,
}

impl Wanted<'_> {
    /// The addresses of one family.
    pub fn of_family(&self, family: Family) -> AddressesRef<'_> {
        self.addresses.all().of_family(family)
    }

    /// Whether the store has an object of the name.
    pub fn is_present(&self) -> bool {
        self.presence == Presence::Present
    }
}

impl Desired {
    /// An empty state. `filter` decides which addresses sets may have.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            ..Self::default()
        }
    }

    /// Applies an event of the store, and returns the names whose desired state may have changed. A change of only
    /// times and counts does not count.
    pub fn apply(&mut self, event: &Event<DnsNameResolver>, now: Instant) -> HashSet<DnsName> {
        let mut changed = HashSet::default();
        let was_blocked = self.has_unknown_object();
        match event {
            Event::Synced(objects) => {
                self.has_been_read = true;
                if self.in_sync_since.is_none() {
                    self.in_sync_since = Some(now);
                    changed.extend(self.away().cloned());
                }
                self.listed(objects, now, &mut changed);
            }
            Event::Applied(object) => self.applied(object, now, &mut changed),
            Event::Deleted(key) => self.deleted(key, now, &mut changed),
            Event::Undecodable(objects) => self.unreadable.clone_from(objects),
            Event::OutOfSync(_) => self.in_sync_since = None,
        }
        // The last unreadable object became readable: this event comes before the one that says so.
        if was_blocked && !self.has_unknown_object() {
            self.readable_since = Some(now);
            changed.extend(self.away().cloned());
        }
        changed
    }

    /// The desired state of the sets of this name. `None` if the store never had the name while this program ran, and
    /// it was not [adopted](Desired::adopt).
    pub fn wanted(&self, name: &DnsName) -> Option<Wanted<'_>> {
        let state = self.names.get(name)?;
        let presence = match state.away() {
            Some(away) if state.objects.is_empty() => Presence::Away {
                since: self.in_sync_since.map(|since| since.max(away.since)),
                rule_ended: away.rule_ended,
                is_permitted: away.is_permitted,
            },
            _ => Presence::Present,
        };
        Some(Wanted {
            presence,
            was_seen: state.was_seen,
            is_complete: self.is_complete(state),
            addresses: self.content(state),
            changes: state.changes(),
        })
    }

    /// The names of the store, and names that left it since this program started but still have rows.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &DnsName> + Clone {
        self.names.keys()
    }

    /// The known names without an object.
    pub fn away(&self) -> impl Iterator<Item = &DnsName> {
        let names = self.names.iter();
        names.filter_map(|(name, state)| state.objects.is_empty().then_some(name))
    }

    pub fn objects_of(&self, name: &DnsName) -> impl Iterator<Item = &ObjectKey> {
        let state = self.names.get(name).into_iter();
        state.flat_map(|state| state.objects.iter().map(|key| &**key))
    }

    /// Why addresses in the statuses of a name are in no set.
    pub fn skips_of(&self, name: &DnsName) -> impl Iterator<Item = Skip> {
        let objects = self
            .objects_of(name)
            .filter_map(|key| self.objects.get(key));
        objects.flat_map(|object| object.skipped.iter().copied())
    }

    /// Whether the store is being read: its list was complete, and its watch runs.
    pub fn is_in_sync(&self) -> bool {
        self.in_sync_since.is_some()
    }

    /// The number of objects, without those with an unusable name.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The number of objects whose name no address set can have.
    pub fn unusable(&self) -> usize {
        self.unusable.len()
    }

    /// Whether there is an unreadable object whose DNS name is unknown: any absent name may belong to it.
    pub fn has_unknown_object(&self) -> bool {
        let is_known = |key| self.objects.contains_key(key) || self.unusable.contains_key(key);
        !self.unreadable.iter().all(is_known)
    }

    /// How many addresses of statuses are left out for this reason.
    pub fn skipped(&self, reason: Skip) -> usize {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// Adds a name that has rows of this program and no object, as if its object had been deleted now.
    pub fn adopt(&mut self, name: &DnsName, now: Instant) {
        let state = self.names.entry(name.clone()).or_default();
        if state.objects.is_empty() && state.away().is_none() {
            state.leave(now, false);
        }
    }

    /// Records whether an administrator permits to empty the sets of an absent name. The permission ends when the name
    /// returns, or the sets are empty.
    pub fn permit(&mut self, name: &DnsName, yes: bool) {
        if let Some(state) = self.names.get_mut(name) {
            state.permit(yes);
        }
    }

    /// Records that the sets of the name were emptied: the last addresses of its absent or silent objects no longer
    /// count.
    pub fn release(&mut self, name: &DnsName) {
        if self.names.contains_key(name) {
            self.change(name, |_, state| state.release());
        }
    }

    /// Records whether the name was compared with the database, or must be compared as if for the first time.
    pub fn compared(&mut self, name: &DnsName, yes: bool) {
        if let Some(state) = self.names.get_mut(name) {
            state.compared(yes);
        }
    }

    /// Every name must be compared as if for the first time.
    pub fn compare_all(&mut self) {
        self.names
            .values_mut()
            .for_each(|state| state.compared(false));
    }

    /// Records whether a set of the name is in use, and returns the previous value.
    pub fn set_in_use(&mut self, name: &DnsName, is_in_use: bool) -> bool {
        let state = self.names.get_mut(name);
        state.is_some_and(|state| std::mem::replace(&mut state.is_in_use, is_in_use))
    }

    /// Removes an absent name.
    pub fn forget(&mut self, name: &DnsName) {
        if self.names.get(name).is_some_and(|it| it.objects.is_empty()) {
            self.names.remove(name);
        }
    }

    fn listed(
        &mut self,
        objects: &[DnsNameResolver],
        now: Instant,
        changed: &mut HashSet<DnsName>,
    ) {
        let listed: HashSet<_> = objects.iter().map(ObjectKey::of).collect();
        let is_there = |key: &&ObjectKey| listed.contains(*key) || self.unreadable.contains(*key);
        let known = self.objects.keys().map(Arc::as_ref);
        let known = known.chain(self.unusable.keys());
        let gone: Vec<_> = known.filter(|key| !is_there(key)).cloned().collect();
        for object in objects {
            self.applied(object, now, changed);
        }
        for key in gone {
            self.deleted(&key, now, changed);
        }
    }

    fn applied(&mut self, object: &DnsNameResolver, now: Instant, changed: &mut HashSet<DnsName>) {
        let key = ObjectKey::of(object);
        let name = match DnsName::parse(&object.spec.name) {
            Ok(name) => name,
            Err(error) => {
                // Its last known state stays, as if it did not decode.
                if self.unusable.get(&key) != Some(&error) {
                    tracing::warn!(object = %key, name = object.spec.name, %error, "an object is ignored: its spec.name is not a valid DNS name");
                    self.unusable.insert(key, error);
                }
                return;
            }
        };
        self.unusable.remove(&key);
        let known = self.objects.get(&key);
        if known.is_some_and(|known| !known.is_same(&name, object)) {
            self.deleted(&key, now, changed);
        }
        let new = Resolver::read(name.clone(), object, &self.filter);
        for reason in &new.skipped {
            *self.skipped.entry(*reason).or_default() += 1;
        }
        let says_nothing = new.statement != Statement::Complete;
        let is_change = self.change(&name, |store, state| {
            state.was_seen = true;
            state.returned();
            let old = match store.objects.get_mut(&key) {
                Some(old) => Some(std::mem::replace(old, new)),
                None => {
                    let key = Arc::new(key);
                    state.objects.reserve_exact(1);
                    state.objects.push(key.clone());
                    store.objects.insert(key, new);
                    None
                }
            };
            if let Some(old) = old {
                unskip(&mut store.skipped, &old);
                if says_nothing {
                    state.hold(&old.addresses);
                }
            }
        });
        if is_change {
            changed.insert(name);
        }
    }

    fn deleted(&mut self, key: &ObjectKey, now: Instant, changed: &mut HashSet<DnsName>) {
        self.unusable.remove(key);
        let Some(old) = self.objects.remove(key) else {
            return;
        };
        unskip(&mut self.skipped, &old);
        let name = old.name.clone();
        // The object is already out of the store: its addresses count as held before and after.
        if let Some(state) = self.names.get_mut(&name) {
            state.hold(&old.addresses);
        }
        self.change(&name, |_, state| {
            state.objects.retain(|other| **other != *key);
            if state.objects.is_empty() {
                state.leave(now, old.statement == Statement::RuleEnded);
            }
        });
        changed.insert(name);
    }

    /// Changes the objects of a name and records the changed addresses. Returns whether anything else changed in the
    /// desired state.
    fn change(&mut self, name: &DnsName, change: impl FnOnce(&mut Self, &mut Name)) -> bool {
        let is_new = !self.names.contains_key(name);
        let mut state = self.names.remove(name).unwrap_or_default();
        let before = self.content(&state).into_owned();
        let (was_complete, was_away) = (self.is_complete(&state), state.objects.is_empty());
        change(self, &mut state);
        let is_complete = self.is_complete(&state);
        if is_complete {
            state.release();
        }
        let after = self.content(&state);
        let mut moved = before.all().without(after.all());
        moved.extend(after.all().without(before.all()));
        drop(after);
        let became_complete = is_complete && !was_complete;
        let is_change = is_new
            || was_complete != is_complete
            || was_away != state.objects.is_empty()
            || !moved.is_empty();
        state.changed(moved, became_complete);
        self.names.insert(name.clone(), state);
        is_change
    }

    fn is_complete(&self, state: &Name) -> bool {
        let objects = state.objects.iter().filter_map(|key| self.objects.get(key));
        let mut statements = objects
            .map(|it| it.statement)
            .filter(|it| *it != Statement::Ignored)
            .peekable();
        statements.peek().is_some() && statements.all(|it| it == Statement::Complete)
    }

    fn content<'a>(&'a self, state: &'a Name) -> Cow<'a, Addresses> {
        let objects = || state.objects.iter().filter_map(|key| self.objects.get(key));
        match (objects().next(), state.held()) {
            (Some(one), None) if state.objects.len() == 1 => Cow::Borrowed(&one.addresses),
            (None, Some(held)) => Cow::Borrowed(held),
            (_, held) => {
                let held = held.into_iter().flat_map(|held| held.all().iter());
                let all = objects().flat_map(|object| object.addresses.all().iter());
                Cow::Owned(all.chain(held).collect())
            }
        }
    }
}

/// The addresses that the object left out do not count any more.
fn unskip(skipped: &mut HashMap<Skip, usize>, object: &Resolver) {
    for reason in &object.skipped {
        if let Some(count) = skipped.get_mut(reason) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
