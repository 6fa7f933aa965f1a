//! The names that may be left out: those that no namespace within its quota pays for. One pass over
//! all names finds them for any number of namespaces.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    super::{entry::Entry, names::NameTable},
    charged::{NOTHING, each_cost},
};
use crate::{clients::Namespace, namespaces::NamespaceQuota};

/// Namespaces over their quota.
pub(super) type TooMuch = HashSet<Namespace, FixedState>;

/// The names that may be left out.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Names in rules of these namespaces only.
    names: HashSet<DnsName>,
    /// Pairs of namespace and wildcard, where only these namespaces pay for names that the wildcard
    /// found.
    found: HashSet<(Namespace, DnsName)>,
    /// The usage that other namespaces pay for too.
    shared: HashMap<Namespace, NamespaceQuota, FixedState>,
}

impl Candidates {
    pub(super) fn new(names: &NameTable, over: &TooMuch, now: Timestamp) -> Self {
        let mut candidates = Self {
            shared: over.iter().map(|namespace| (*namespace, NOTHING)).collect(),
            ..Self::default()
        };
        let in_use = |entry: &Entry| entry.is_wanted() && !entry.left_out;
        for (spec, entry) in names.entries.iter().filter(|(_, entry)| in_use(entry)) {
            each_cost(entry, &names.shared.clients, now, |cost| {
                if cost.payers.iter().any(|it| !over.contains(it)) {
                    for namespace in cost.payers {
                        if let Some(shared) = candidates.shared.get_mut(namespace) {
                            shared.addresses += cost.of(*namespace);
                            shared.names += cost.names;
                        }
                    }
                } else if cost.names > 0 {
                    candidates.names.insert(spec.clone());
                } else {
                    let payers = cost.payers.iter();
                    let found = payers.map(|namespace| (*namespace, spec.clone()));
                    candidates.found.extend(found);
                }
            });
        }
        candidates
    }

    /// Whether the name may be left out.
    pub(super) fn has(&self, name: &DnsName) -> bool {
        self.names.contains(name)
    }

    /// Whether names that the wildcard found for the namespace may be left out.
    pub(super) fn has_found(&self, namespace: Namespace, spec: &DnsName) -> bool {
        spec.is_wildcard() && self.found.contains(&(namespace, spec.clone()))
    }

    /// The usage of the namespace that may not be left out.
    pub(super) fn shared(&self, namespace: Namespace) -> NamespaceQuota {
        self.shared.get(&namespace).copied().unwrap_or(NOTHING)
    }
}
