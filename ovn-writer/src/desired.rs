//! The desired content of the address sets: the statuses of the store, summed up by DNS name.
//!
//! There is no IO here, and no clock. The store is not trusted:
//!
//! - Addresses are normalised and pass the guards again ([`runtime::address_filter`]).
//! - An object speaks by addresses, or by a reason in its own entry. Until the objects of a name speak again, the last
//!   addresses stay desired. An absent or unreadable object does not speak, so it removes nothing.
//! - Of a name whose objects have not spoken since the start, the addresses of its rows stay desired
//!   ([`Desired::adopt`]).

mod name;
mod object;

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

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
    is_in_sync: bool,
    /// Existing objects that cannot be read; their last known state counts.
    unreadable: BTreeSet<ObjectKey>,
    skipped: HashMap<Skip, usize>,
}

/// The desired state of the sets of one name.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Whether the store has an object of the name, by the last complete list and the watch since then.
    pub is_present: bool,
    /// Whether the objects of the name speak, so that other addresses are surplus.
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
    pub fn apply(&mut self, event: &Event<DnsNameResolver>) -> HashSet<DnsName> {
        let mut changed = HashSet::default();
        match event {
            Event::Synced(objects) => {
                self.has_been_read = true;
                self.is_in_sync = true;
                self.listed(objects, &mut changed);
            }
            Event::Applied(object) => self.applied(object, &mut changed),
            Event::Deleted(key) => self.deleted(key, &mut changed),
            Event::Undecodable(objects) => self.unreadable.clone_from(objects),
            Event::OutOfSync(_) => self.is_in_sync = false,
        }
        changed
    }

    /// The desired state of the sets of this name. `None` if the store never had the name while this program ran, and
    /// it was not [adopted](Desired::adopt).
    pub fn wanted(&self, name: &DnsName) -> Option<Wanted<'_>> {
        let state = self.names.get(name)?;
        Some(Wanted {
            is_present: !state.objects.is_empty(),
            is_complete: self.is_complete(state),
            addresses: self.content(state),
            changes: state.changes(),
        })
    }

    /// The names of the store, and names that left it since this program started but still have rows.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &DnsName> + Clone {
        self.names.keys()
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
        self.is_in_sync
    }

    /// The number of objects, without those with an unusable name.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The number of objects whose name no address set can have.
    pub fn unusable(&self) -> usize {
        self.unusable.len()
    }

    /// How many addresses of statuses are left out for this reason.
    pub fn skipped(&self, reason: Skip) -> usize {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// Whether an object of the name has spoken, or its rows were [adopted](Desired::adopt).
    pub fn was_heard(&self, name: &DnsName) -> bool {
        self.names.get(name).is_some_and(|state| state.was_heard)
    }

    /// Adds a name with the addresses of its rows, which stay desired until an object of the name speaks.
    pub fn adopt(&mut self, name: &DnsName, addresses: &Addresses) {
        let state = self.names.entry(name.clone()).or_default();
        state.was_heard = true;
        state.hold(addresses);
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

    /// Removes an absent name.
    pub fn forget(&mut self, name: &DnsName) {
        if self.names.get(name).is_some_and(|it| it.objects.is_empty()) {
            self.names.remove(name);
        }
    }

    fn listed(&mut self, objects: &[DnsNameResolver], changed: &mut HashSet<DnsName>) {
        let listed: HashSet<_> = objects.iter().map(ObjectKey::of).collect();
        let is_there = |key: &&ObjectKey| listed.contains(*key) || self.unreadable.contains(*key);
        let known = self.objects.keys().map(Arc::as_ref);
        let known = known.chain(self.unusable.keys());
        let gone: Vec<_> = known.filter(|key| !is_there(key)).cloned().collect();
        for object in objects {
            self.applied(object, changed);
        }
        for key in gone {
            self.deleted(&key, changed);
        }
    }

    fn applied(&mut self, object: &DnsNameResolver, changed: &mut HashSet<DnsName>) {
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
            self.deleted(&key, changed);
        }
        let new = Resolver::read(name.clone(), object, &self.filter);
        for reason in &new.skipped {
            *self.skipped.entry(*reason).or_default() += 1;
        }
        let says_nothing = new.statement != Statement::Complete;
        let is_change = self.change(&name, |store, state| {
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

    fn deleted(&mut self, key: &ObjectKey, changed: &mut HashSet<DnsName>) {
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
            state.was_heard = true;
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
