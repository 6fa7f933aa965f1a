//! The names in use, and their latest changes: a reader of an earlier version needs only these.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use proto::api::DnsName;

use super::RetentionPolicy;
use names::Namespace;

/// The most changes kept. A reader that missed more must read everything again.
const MAX_CHANGES: usize = 1 << 16;

/// The names in use. Before the first list of EgressFirewalls, a name that is not here may be in
/// use.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Every name in a rule that an object can have. Names of one object usually share their value.
    pub names: BTreeMap<DnsName, Arc<WantedName>>,
    /// The retention of objects that set none.
    pub defaults: RetentionPolicy,
    /// The names in the rules of each namespace, sorted.
    pub names_of_namespaces: BTreeMap<Namespace, Arc<[DnsName]>>,
    /// Whether the EgressFirewalls of the store are known, so that a name that is not in `names` is
    /// not in use.
    pub in_sync: bool,
    /// The objects of the source could not be read so far, as without their definition.
    pub has_failed: bool,
    pub changes: Changes,
}

/// How rules use a name.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct WantedName {
    /// The longest retention of all rules with the name.
    pub retention: RetentionPolicy,
    /// The namespaces with the name in a rule, sorted.
    pub namespaces: Arc<[Namespace]>,
}

/// The latest changes of names in use.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    version: Version,
    last: VecDeque<RuleChange>,
}

/// The number of changes. The default is for a reader that has seen none.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Version(u64);

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RuleChange {
    /// The entries of [`Wanted`] for this name, possibly removed.
    Name(DnsName),
    /// The names in the rules of this namespace.
    Names(Namespace),
}

impl Changes {
    pub fn version(&self) -> Version {
        self.version
    }

    /// The changes after this version; `None` if they are no longer kept, so that everything may
    /// differ.
    pub fn since(&self, seen: Version) -> Option<impl Iterator<Item = &RuleChange>> {
        let count = self.version.0.checked_sub(seen.0)?;
        let count = usize::try_from(count).ok()?;
        let first = self.last.len().checked_sub(count)?;
        (seen != Version::default()).then(|| self.last.range(first..))
    }

    fn add(&mut self, change: RuleChange) {
        self.version.0 += 1;
        if self.last.len() == MAX_CHANGES {
            self.last.pop_front();
        }
        self.last.push_back(change);
    }
}

impl Wanted {
    /// Sets how a name is used, `None` if it is not. Returns whether that is new.
    pub(super) fn set(&mut self, name: &DnsName, in_use: Option<Arc<WantedName>>) -> bool {
        if self.names.get(name) == in_use.as_ref() {
            return false;
        }
        replace(&mut self.names, name, in_use);
        self.changes.add(RuleChange::Name(name.clone()));
        true
    }

    /// Sets the names of a namespace. Returns whether they are new.
    pub(super) fn set_names_of(
        &mut self,
        namespace: Namespace,
        names: Option<Arc<[DnsName]>>,
    ) -> bool {
        if self.names_of_namespaces.get(&namespace) == names.as_ref() {
            return false;
        }
        replace(&mut self.names_of_namespaces, &namespace, names);
        self.changes.add(RuleChange::Names(namespace));
        true
    }
}

impl WantedName {
    /// A name of rules with this retention, without namespaces.
    pub fn with_retention(retention: RetentionPolicy) -> Self {
        Self {
            retention,
            ..Self::default()
        }
    }
}

#[cfg(test)]
impl Wanted {
    /// The use of a name, to be changed.
    pub(crate) fn name_mut(&mut self, name: &DnsName) -> &mut WantedName {
        Arc::make_mut(self.names.entry(name.clone()).or_default())
    }
}

/// Sets or removes the value of the key.
pub(super) fn replace<K: Clone + Ord, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(key),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(changes: &Changes, seen: Version) -> Option<Vec<String>> {
        let changes = changes.since(seen)?.map(|change| match change {
            RuleChange::Name(name) => name.to_string(),
            RuleChange::Names(_) => "names".to_owned(),
        });
        Some(changes.collect())
    }

    #[test]
    fn changes_are_told_to_a_reader_that_saw_a_version_before_them() {
        let mut wanted = Wanted::default();
        let name = |i: usize| DnsName::parse(&format!("n{i}.example.com")).unwrap();
        let in_use = || Some(Arc::default());
        assert!(wanted.set(&name(0), in_use()));
        assert!(!wanted.set(&name(0), in_use()));
        assert_eq!(names(&wanted.changes, Version::default()), None);
        let seen = wanted.changes.version();
        assert_eq!(names(&wanted.changes, seen), Some(Vec::new()));
        wanted.set(&name(1), in_use());
        wanted.set(&name(0), None);
        let expected = ["n1.example.com.", "n0.example.com."];
        assert_eq!(names(&wanted.changes, seen).unwrap(), expected);
        for i in 2..=MAX_CHANGES {
            wanted.set(&name(i), in_use());
        }
        assert_eq!(names(&wanted.changes, seen), None);
    }
}
