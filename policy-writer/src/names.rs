//! The names of `DNSResolver` objects ([`Request`]), and the addresses that `DNSNameResolver` objects have for them.
//!
//! Only a readable status takes an address out. Of an object that is away, unreadable, or without a statement the last
//! statement holds. A status states something if it has an address, or if the entry of `spec.name` gives a reason for
//! having none.

mod request;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use proto::api::{DnsName, DnsNameResolver, ResolvedName};
use runtime::{
    address_filter::{Filter, Skip},
    store::{Event, ObjectKey},
};

pub use self::request::{Listed, Request};

/// The addresses of all names that have, or had, an object.
#[derive(Debug, Default)]
pub struct Names {
    filter: Filter,
    objects: BTreeMap<ObjectKey, DnsName>,
    names: HashMap<DnsName, Name>,
    unreadable: BTreeSet<ObjectKey>,
}

/// The last statements about one name.
#[derive(Debug, Default)]
pub struct Name {
    objects: BTreeSet<ObjectKey>,
    /// Those of a deleted object stay until another object states something.
    statements: BTreeMap<ObjectKey, Statement>,
    /// Why a status has no address and states nothing: the guards refuse every answer.
    refused: Option<String>,
}

/// The content of a status.
#[derive(Clone, Debug, PartialEq)]
struct Statement {
    addresses: BTreeSet<IpAddr>,
    /// Why the guards refuse others.
    skipped: BTreeSet<&'static str>,
    failure: Option<String>,
}

impl Name {
    /// The addresses, each as often as objects have it.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let statements = self.statements.values();
        statements.flat_map(|it| it.addresses.iter().copied())
    }

    /// Whether an object exists.
    pub fn has_object(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Whether a readable status has stated something since the start.
    pub fn is_answered(&self) -> bool {
        !self.statements.is_empty()
    }

    /// The guard that refuses every answer, while nothing was stated.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref().filter(|_| !self.is_answered())
    }

    /// Why it has no addresses, or not all.
    pub fn trouble(&self) -> Option<String> {
        if !self.has_object() {
            return Some("its DNSNameResolver is away; its last addresses stay".to_owned());
        }
        if !self.is_answered() {
            let refused = self.refused.clone();
            return refused.or_else(|| Some("its DNSNameResolver has no status yet".to_owned()));
        }
        let mut failures = self.statements.values();
        if let Some(failure) = failures.find_map(|it| it.failure.as_deref()) {
            return Some(format!("its look-ups fail: {failure}"));
        }
        let skipped = self.statements.values().flat_map(|it| &it.skipped);
        let skipped: Vec<_> = skipped.copied().collect();
        (!skipped.is_empty()).then(|| format!("addresses are refused: {}", skipped.join(", ")))
    }
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

    /// The last statements about a name.
    pub fn get(&self, name: &DnsName) -> Option<&Name> {
        self.names.get(name)
    }

    /// The addresses of a name of a list.
    pub fn addresses(&self, listed: &Listed) -> BTreeSet<IpAddr> {
        let name = listed.name.as_ref().ok();
        let known = name.and_then(|name| self.names.get(name));
        known.into_iter().flat_map(Name::addresses).collect()
    }

    /// Whether a readable status has stated something about the name since the start. A text that is no name needs none.
    pub fn is_answered(&self, listed: &Listed) -> bool {
        match &listed.name {
            Ok(name) => self.names.get(name).is_some_and(Name::is_answered),
            Err(_) => true,
        }
    }

    /// Applies an event, and returns the names of which something changed.
    pub fn apply(&mut self, event: &Event<DnsNameResolver>) -> BTreeSet<DnsName> {
        let mut changed = BTreeSet::new();
        match event {
            Event::Synced(objects) => {
                let listed: BTreeSet<_> = objects.iter().map(ObjectKey::of).collect();
                for key in absent(self.objects.keys(), &listed, &self.unreadable) {
                    self.delete(&key, &mut changed);
                }
                for object in objects {
                    self.put(object, &mut changed);
                }
            }
            Event::Applied(object) => self.put(object, &mut changed),
            Event::Deleted(key) => self.delete(key, &mut changed),
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

    fn put(&mut self, object: &DnsNameResolver, changed: &mut BTreeSet<DnsName>) {
        let key = ObjectKey::of(object);
        let name = DnsName::parse(&object.spec.name).ok();
        // The collector never writes a status for another spelling.
        let Some(name) = name.filter(|name| name.as_str() == object.spec.name) else {
            return;
        };
        if self.objects.get(&key).is_some_and(|known| *known != name) {
            self.delete(&key, changed);
        }
        let statement = self.statement(object);
        self.objects.insert(key.clone(), name.clone());
        let entry = self.names.entry(name.clone()).or_default();
        let mut is_changed = entry.objects.insert(key.clone());
        let resolved = object.status.iter().flat_map(|it| &it.resolved_names);
        let refused = resolved.filter_map(ResolvedName::refused).next();
        is_changed |= entry.refused.as_deref() != refused;
        entry.refused = refused.map(str::to_owned);
        if let Some(statement) = statement {
            let before = entry.statements.clone();
            // Only objects that exist count beside this one.
            let objects = &entry.objects;
            entry.statements.retain(|other, _| objects.contains(other));
            entry.statements.insert(key, statement);
            is_changed |= before != entry.statements;
        }
        if is_changed {
            changed.insert(name);
        }
    }

    fn delete(&mut self, key: &ObjectKey, changed: &mut BTreeSet<DnsName>) {
        let Some(name) = self.objects.remove(key) else {
            return;
        };
        if let Some(entry) = self.names.get_mut(&name) {
            entry.objects.remove(key);
            changed.insert(name);
        }
    }

    /// What the status states; `None` if it states nothing.
    fn statement(&self, object: &DnsNameResolver) -> Option<Statement> {
        let status = object.status.iter();
        let entries: Vec<_> = status.flat_map(|it| &it.resolved_names).collect();
        let (mut addresses, mut skipped) = (BTreeSet::new(), BTreeSet::new());
        let mut has_address = false;
        for resolved in entries.iter().flat_map(|entry| &entry.resolved_addresses) {
            let admitted = self.filter.admit(&resolved.ip);
            // An address that the guards refuse is an answer, too.
            has_address |= admitted != Err(Skip::Unparsable);
            match admitted {
                Ok(address) => addresses.insert(address),
                Err(skip) => skipped.insert(skip.as_str()),
            };
        }
        let mut own = entries.iter().filter(|it| it.dns_name == object.spec.name);
        let failure = own
            .find_map(|it| ResolvedName::failure(it))
            .map(str::to_owned);
        (has_address || failure.is_some()).then_some(Statement {
            addresses,
            skipped,
            failure,
        })
    }
}

/// The known objects that a list does not have, and that are not unreadable.
pub fn absent<'a>(
    known: impl Iterator<Item = &'a ObjectKey>,
    listed: &BTreeSet<ObjectKey>,
    unreadable: &BTreeSet<ObjectKey>,
) -> Vec<ObjectKey> {
    let is_there = |key: &ObjectKey| listed.contains(key) || unreadable.contains(key);
    known.filter(|key| !is_there(key)).cloned().collect()
}

#[cfg(test)]
mod tests;
