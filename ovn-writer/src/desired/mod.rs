//! What the address sets should hold: the statuses of the store, added up by DNS name.
//!
//! There is no IO here. The store is not trusted: addresses are brought into one spelling and pass the guards again.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
    net::IpAddr,
};

use proto::{
    address::{self, Forbidden},
    api::{DnsName, DnsNameResolver, Family, NameError},
};
use runtime::store::{Event, ObjectKey};

/// How many addresses that left a status are remembered for each name until the database was looked at.
///
/// Only rows that somebody else fills too need them; an address that is not remembered stays in such a row.
const MAX_LEFT: usize = 1024;

/// Why an address of a status is not in the sets.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Skip {
    /// It is not an address.
    Unparsable,
    /// The guards forbid it.
    Forbidden(Forbidden),
}

impl Skip {
    /// Every reason there is.
    pub const ALL: [Self; 7] = [
        Self::Unparsable,
        Self::Forbidden(Forbidden::Unspecified),
        Self::Forbidden(Forbidden::Loopback),
        Self::Forbidden(Forbidden::LinkLocal),
        Self::Forbidden(Forbidden::Multicast),
        Self::Forbidden(Forbidden::Broadcast),
        Self::Forbidden(Forbidden::CloudMetadata),
    ];

    /// A word for metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unparsable => "unparsable",
            Self::Forbidden(reason) => reason.as_str(),
        }
    }
}

/// The content of the store, as far as it concerns the sets.
#[derive(Debug, Default)]
pub struct Desired {
    objects: HashMap<ObjectKey, Object>,
    names: HashMap<DnsName, Name>,
    /// Objects whose `spec.name` no address set can have.
    unusable: HashMap<ObjectKey, NameError>,
    skipped: HashMap<Skip, usize>,
}

/// One `DNSNameResolver`.
#[derive(Debug)]
struct Object {
    name: DnsName,
    /// In order, each once.
    addresses: Box<[IpAddr]>,
    skipped: Vec<Skip>,
}

/// One DNS name that the store has, or had since this program started.
#[derive(Debug, Default)]
struct Name {
    /// The objects of this name; almost always one.
    objects: Vec<ObjectKey>,
    resolved: bool,
    left: BTreeSet<IpAddr>,
}

/// What is wanted of the sets of one name.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Whether an object has the name now. If not, one had it, and was seen to go.
    pub present: bool,
    /// Whether a status with an address was seen since this program started. As long as there was none, nothing follows from
    /// what a status lacks: the collector may not have written it yet.
    pub resolved: bool,
    /// The union of the addresses of both families, in order, each once.
    pub addresses: Cow<'a, [IpAddr]>,
    /// Addresses that were in a status, and are in none now.
    pub left: &'a BTreeSet<IpAddr>,
}

impl Wanted<'_> {
    /// The addresses of one family, in order.
    pub fn of_family(&self, family: Family) -> &[IpAddr] {
        // IPv4 addresses sort before IPv6 addresses.
        let v6 = self.addresses.partition_point(IpAddr::is_ipv4);
        let (v4, v6) = self.addresses.split_at_checked(v6).unwrap_or_default();
        match family {
            Family::V4 => v4,
            Family::V6 => v6,
        }
    }
}

impl Desired {
    /// Takes over what the store says, and returns the names of which something else is wanted now. A change of nothing but
    /// times and counts is none.
    pub fn apply(&mut self, event: Event<DnsNameResolver>) -> HashSet<DnsName> {
        let mut changed = HashSet::new();
        match event {
            Event::Synced(objects) => {
                let there: HashSet<_> = objects.iter().map(ObjectKey::of).collect();
                let known = self.objects.keys().chain(self.unusable.keys());
                let gone: Vec<_> = known.filter(|key| !there.contains(key)).cloned().collect();
                for object in &objects {
                    self.applied(object, &mut changed);
                }
                for key in gone {
                    self.deleted(&key, &mut changed);
                }
            }
            Event::Applied(object) => self.applied(&object, &mut changed),
            Event::Deleted(key) => self.deleted(&key, &mut changed),
            // The rows of a name that was never known are left as they are.
            Event::OutOfSync(_) | Event::Undecodable(_) => {}
        }
        changed
    }

    /// What is wanted of the sets of this name; `None` if the store never had it while this program ran.
    pub fn wanted(&self, name: &DnsName) -> Option<Wanted<'_>> {
        let Name {
            objects,
            resolved,
            left,
        } = self.names.get(name)?;
        let addresses = |key| {
            self.objects
                .get(key)
                .map_or(&[][..], |object| &*object.addresses)
        };
        let addresses = match objects.as_slice() {
            [] => Cow::Borrowed(&[][..]),
            [one] => Cow::Borrowed(addresses(one)),
            many => {
                let union: BTreeSet<_> = many.iter().flat_map(addresses).copied().collect();
                Cow::Owned(union.into_iter().collect())
            }
        };
        Some(Wanted {
            present: !objects.is_empty(),
            resolved: *resolved,
            addresses,
            left,
        })
    }

    /// The names that the store has, or had since this program started.
    pub fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.names.keys()
    }

    /// The number of objects, those with an unusable name apart.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The number of objects whose name no address set can have.
    pub fn unusable(&self) -> usize {
        self.unusable.len()
    }

    /// How many addresses stand in statuses and are not wanted, for this reason.
    pub fn skipped(&self, reason: Skip) -> usize {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// The database was looked at: of the addresses that left, only those need be remembered that are still in a row; and
    /// nothing of a name that is gone if it has no rows.
    pub fn settle(&mut self, name: &DnsName, has_rows: bool, in_a_row: impl Fn(&IpAddr) -> bool) {
        let Some(state) = self.names.get_mut(name) else {
            return;
        };
        state.left.retain(in_a_row);
        if state.objects.is_empty() && !has_rows {
            self.names.remove(name);
        }
    }

    fn applied(&mut self, object: &DnsNameResolver, changed: &mut HashSet<DnsName>) {
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
        if self.objects.get(&key).is_some_and(|old| old.name != name) {
            self.deleted(&key, changed);
        }
        let (addresses, skipped) = addresses(object);
        let state = self.names.entry(name.clone()).or_default();
        state.resolved |= !addresses.is_empty() || skipped.iter().any(|s| *s != Skip::Unparsable);
        for address in &addresses {
            state.left.remove(address);
        }
        for reason in &skipped {
            *self.skipped.entry(*reason).or_default() += 1;
        }
        let new = Object {
            name: name.clone(),
            addresses,
            skipped,
        };
        match self.objects.get_mut(&key) {
            Some(old) => {
                let old = std::mem::replace(old, new);
                self.unskip(&old);
                if self
                    .objects
                    .get(&key)
                    .is_some_and(|new| new.addresses != old.addresses)
                {
                    self.leave(&name, &old.addresses);
                    changed.insert(name);
                }
            }
            None => {
                state.objects.push(key.clone());
                self.objects.insert(key, new);
                changed.insert(name);
            }
        }
    }

    fn deleted(&mut self, key: &ObjectKey, changed: &mut HashSet<DnsName>) {
        self.unusable.remove(key);
        let Some(old) = self.objects.remove(key) else {
            return;
        };
        self.unskip(&old);
        if let Some(state) = self.names.get_mut(&old.name) {
            state.objects.retain(|other| other != key);
        }
        self.leave(&old.name, &old.addresses);
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
    fn leave(&mut self, name: &DnsName, addresses: &[IpAddr]) {
        let Some(wanted) = self.wanted(name) else {
            return;
        };
        let gone = |address: &&IpAddr| wanted.addresses.binary_search(address).is_err();
        let gone: Vec<_> = addresses.iter().filter(gone).copied().collect();
        if let Some(state) = self.names.get_mut(name) {
            let room = MAX_LEFT.saturating_sub(state.left.len());
            state.left.extend(gone.into_iter().take(room));
        }
    }
}

/// The addresses of a status that may be programmed, in order, each once; and why the others may not.
fn addresses(object: &DnsNameResolver) -> (Box<[IpAddr]>, Vec<Skip>) {
    let entries = object
        .status
        .iter()
        .flat_map(|status| &status.resolved_names);
    let (mut addresses, mut skipped) = (Vec::new(), Vec::new());
    for resolved in entries.flat_map(|entry| &entry.resolved_addresses) {
        match resolved.ip.parse().map(address::canonical) {
            Err(_) => skipped.push(Skip::Unparsable),
            Ok(parsed) => match address::check(parsed) {
                Ok(()) => addresses.push(parsed),
                Err(reason) => skipped.push(Skip::Forbidden(reason)),
            },
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    (addresses.into_boxed_slice(), skipped)
}

#[cfg(test)]
mod tests;
