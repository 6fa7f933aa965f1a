//! The stored objects, as the watches and the own writes show them.

use std::collections::{BTreeMap, BTreeSet};

use runtime::store::ObjectKey;

use super::{Observed, Output};

/// The stored objects of one kind.
#[derive(Debug, Default)]
pub struct StoredKind {
    pub objects: BTreeMap<ObjectKey, Observed>,
    /// Objects that exist but do not decode.
    pub unreadable: BTreeSet<ObjectKey>,
}

impl StoredKind {
    /// Whether an object of this key exists that does not decode.
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        self.unreadable.contains(key)
    }
}

/// The stored objects of all kinds.
#[derive(Debug, Default)]
pub struct Stored {
    pub policies: StoredKind,
    pub sets: StoredKind,
    pub maps: StoredKind,
}

impl Stored {
    /// Those of a kind.
    pub fn of(&self, output: Output) -> &StoredKind {
        match output {
            Output::Policy => &self.policies,
            Output::Set => &self.sets,
            Output::Map => &self.maps,
        }
    }

    /// Those of a kind.
    pub fn of_mut(&mut self, output: Output) -> &mut StoredKind {
        match output {
            Output::Policy => &mut self.policies,
            Output::Set => &mut self.sets,
            Output::Map => &mut self.maps,
        }
    }

    /// The object of a kind and key.
    pub fn get(&self, output: Output, key: &ObjectKey) -> Option<&Observed> {
        self.of(output).objects.get(key)
    }

    /// Takes in the object of a kind and key, or that there is none.
    pub fn set(&mut self, output: Output, key: &ObjectKey, observed: Option<Observed>) {
        let objects = &mut self.of_mut(output).objects;
        match observed {
            Some(observed) => objects.insert(key.clone(), observed),
            None => objects.remove(key),
        };
    }

    /// Whether a policy of the namespace lets pods reach DNS.
    pub fn allows_dns(&self, namespace: &str) -> bool {
        let from = ObjectKey::before_all_in(namespace);
        let policies = self.policies.objects.range(from..);
        let mut policies = policies.take_while(|(key, _)| key.namespace == namespace);
        policies.any(|(_, policy)| policy.allows_dns)
    }
}
