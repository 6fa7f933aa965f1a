//! The names in the rules of one source, and their changes.

use std::{collections::BTreeMap, sync::Arc};

use foldhash::HashMap;
use names::Namespace;
use proto::api::DnsName;

use super::{RetentionPolicy, Source};

/// The names in the rules of one source. Before its first list, a name that is not here may be in use.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Every name in a rule that an object can have. Names of one object usually share their value.
    pub names: HashMap<DnsName, Arc<WantedName>>,
    /// The names in the rules of each namespace, sorted.
    pub names_of_namespaces: BTreeMap<Namespace, Arc<[DnsName]>>,
    /// Whether all objects are known, so that a name that is not in `names` is not in use.
    pub in_sync: bool,
    /// The objects of the source could not be read so far, as without their definition.
    pub has_failed: bool,
}

/// How rules use a name.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct WantedName {
    /// The longest retention of all rules with the name.
    pub retention: RetentionPolicy,
    /// The namespaces with the name in a rule, sorted.
    pub namespaces: Arc<[Namespace]>,
}

/// News of one source for the publisher.
#[derive(Clone, Debug)]
pub struct RuleChanges {
    pub source: Source,
    pub uses: ChangedUses,
    /// See [`Wanted::in_sync`].
    pub in_sync: bool,
    /// See [`Wanted::has_failed`].
    pub has_failed: bool,
}

/// The entries of [`Wanted`] that may have changed; `None` for a removed one.
#[derive(Clone, Debug, Default)]
pub struct ChangedUses {
    pub names: Vec<(DnsName, Option<Arc<WantedName>>)>,
    pub namespaces: Vec<(Namespace, Option<Arc<[DnsName]>>)>,
}

/// Sets or removes the value of the key.
pub(crate) fn replace<K: Clone + Ord, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(key),
    };
}
