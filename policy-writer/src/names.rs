//! The addresses of DNS names, by the statuses of their `DNSNameResolver` objects.
//!
//! Only a readable status takes an address out. An object that is away, unreadable, or without a statement takes none
//! out: the last statement about its name holds. A status says something if it has an address, or if the entry of
//! `spec.name` gives a reason for having none. `NoRule` is no such reason, since the name is in a `domainList`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use proto::api::{DnsName, DnsNameResolver, NO_RULE, NameError, ResolvedName};
use runtime::{
    address_filter::{Filter, Skip},
    store::{Event, ObjectKey},
};

use crate::output::covers;

/// The addresses of all names that have, or had, an object.
#[derive(Debug, Default)]
pub struct Names {
    filter: Filter,
    objects: BTreeMap<ObjectKey, NameObject>,
    names: HashMap<DnsName, Name>,
    unreadable: BTreeSet<ObjectKey>,
    /// Whether the objects were listed once.
    has_been_read: bool,
}

#[derive(Debug)]
struct NameObject {
    name: DnsName,
    uid: Option<String>,
}

/// The last statement about one name.
#[derive(Debug, Default)]
pub struct Name {
    objects: BTreeSet<ObjectKey>,
    /// Of each object's last statement. Those of a deleted object stay under its key until another object speaks.
    addresses: BTreeMap<ObjectKey, BTreeSet<IpAddr>>,
    /// Why addresses of the last statements were left out.
    skipped: BTreeSet<&'static str>,
    failure: Option<String>,
    is_answered: bool,
}

impl Name {
    /// The addresses, each as often as objects have it.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.values().flatten().copied()
    }

    /// Why the guards left addresses out.
    pub fn skipped(&self) -> impl Iterator<Item = &'static str> {
        self.skipped.iter().copied()
    }

    /// Why its look-ups fail.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether it has an object now.
    pub fn has_object(&self) -> bool {
        !self.objects.is_empty()
    }
}

/// The meaning of a status.
struct Statement {
    addresses: BTreeSet<IpAddr>,
    skipped: BTreeSet<&'static str>,
    failure: Option<String>,
}

impl Names {
    /// No names. `filter` decides which addresses may be used.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            ..Self::default()
        }
    }

    /// The guards.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether the objects were listed once.
    pub fn has_been_read(&self) -> bool {
        self.has_been_read
    }

    /// The last statement about a name.
    pub fn get(&self, name: &DnsName) -> Option<&Name> {
        self.names.get(name)
    }

    /// Whether a readable status has said something about the name since the start.
    pub fn is_answered(&self, name: &DnsName) -> bool {
        self.names.get(name).is_some_and(|name| name.is_answered)
    }

    /// Applies an event, and returns the names of which something changed.
    pub fn apply(&mut self, event: &Event<DnsNameResolver>) -> BTreeSet<DnsName> {
        let mut changed = BTreeSet::new();
        match event {
            Event::Synced(objects) => {
                self.has_been_read = true;
                let listed: BTreeSet<_> = objects.iter().map(ObjectKey::of).collect();
                let is_there =
                    |key: &ObjectKey| listed.contains(key) || covers(&self.unreadable, key);
                let gone: Vec<_> = self
                    .objects
                    .keys()
                    .filter(|key| !is_there(key))
                    .cloned()
                    .collect();
                for key in gone {
                    self.deleted(&key, &mut changed);
                }
                for object in objects {
                    self.applied(object, &mut changed);
                }
            }
            Event::Applied(object) => self.applied(object, &mut changed),
            Event::Deleted(key) => self.deleted(key, &mut changed),
            Event::Undecodable(keys) => self.unreadable.clone_from(keys),
            Event::OutOfSync(_) => {}
        }
        changed
    }

    /// Forgets a name that no `domainList` has any more, unless it has an object.
    pub fn forget(&mut self, name: &DnsName) {
        if self.names.get(name).is_some_and(|name| !name.has_object()) {
            self.names.remove(name);
        }
    }

    fn applied(&mut self, object: &DnsNameResolver, changed: &mut BTreeSet<DnsName>) {
        let key = ObjectKey::of(object);
        let parsed: Result<DnsName, NameError> = DnsName::parse(&object.spec.name);
        // The collector never writes a status for another spelling.
        let Some(name) = parsed.ok().filter(|name| name.as_str() == object.spec.name) else {
            return;
        };
        let uid = object.metadata.uid.clone();
        let is_other = |known: &NameObject| {
            let uids = known.uid.as_deref().zip(uid.as_deref());
            known.name != name || uids.is_some_and(|(one, other)| one != other)
        };
        if self.objects.get(&key).is_some_and(is_other) {
            self.deleted(&key, changed);
        }
        let statement = self.statement(object);
        let known = NameObject {
            name: name.clone(),
            uid,
        };
        self.objects.insert(key.clone(), known);
        let entry = self.names.entry(name.clone()).or_default();
        if entry.objects.insert(key.clone()) {
            changed.insert(name.clone());
        }
        let Some(statement) = statement else {
            return;
        };
        let before = entry.addresses.clone();
        // Only objects that exist count beside the one that speaks.
        let objects = &entry.objects;
        entry.addresses.retain(|other, _| objects.contains(other));
        entry.addresses.insert(key, statement.addresses);
        let words = (statement.failure, statement.skipped);
        if before != entry.addresses
            || !entry.is_answered
            || (&entry.failure, &entry.skipped) != (&words.0, &words.1)
        {
            changed.insert(name);
        }
        entry.is_answered = true;
        (entry.failure, entry.skipped) = words;
    }

    fn deleted(&mut self, key: &ObjectKey, changed: &mut BTreeSet<DnsName>) {
        let Some(object) = self.objects.remove(key) else {
            return;
        };
        if let Some(name) = self.names.get_mut(&object.name) {
            name.objects.remove(key);
            changed.insert(object.name);
        }
    }

    /// The meaning of the status; `None` if it has none.
    fn statement(&self, object: &DnsNameResolver) -> Option<Statement> {
        let entries = || {
            object
                .status
                .iter()
                .flat_map(|status| &status.resolved_names)
        };
        let (mut addresses, mut skipped) = (BTreeSet::new(), BTreeSet::new());
        let mut has_address = false;
        for resolved in entries().flat_map(|entry| &entry.resolved_addresses) {
            match self.filter.admit(&resolved.ip) {
                Ok(address) => {
                    addresses.insert(address);
                }
                Err(skip) => {
                    // An address that the guards refuse still says something.
                    has_address |= skip != Skip::Unparsable;
                    skipped.insert(skip.as_str());
                }
            }
        }
        has_address |= !addresses.is_empty();
        let mut own = entries().filter(|entry| entry.dns_name == object.spec.name);
        let failure = own.find_map(ResolvedName::failure).map(str::to_owned);
        let has_reason = failure.as_deref().is_some_and(|reason| reason != NO_RULE);
        (has_address || has_reason).then_some(Statement {
            addresses,
            skipped,
            failure,
        })
    }
}

#[cfg(test)]
mod tests;
