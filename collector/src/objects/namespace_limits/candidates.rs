//! What may be left out of namespaces that have too much: what no other namespace pays for. One look at all names finds it, however many
//! these namespaces are.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    super::{entry::Entry, names::NameTable},
    charged::{NOTHING, each_cost},
};
use crate::{clients::Namespace, namespaces::NamespaceQuota};

/// Namespaces that have too much.
pub(super) type TooMuch = HashSet<Namespace, FixedState>;

/// What may be left out of some namespaces.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Names in rules of these namespaces alone.
    names: HashSet<DnsName>,
    /// Wildcards that found names which these namespaces alone pay for, by the namespaces that do.
    found: HashSet<(Namespace, DnsName)>,
    /// What other namespaces pay for, too.
    shared: HashMap<Namespace, NamespaceQuota, FixedState>,
}

impl Candidates {
    /// What may be left out of the namespaces that have too much.
    pub(super) fn new(names: &NameTable, over: &TooMuch, now: Timestamp) -> Self {
        let mut candidates = Self {
            shared: over.iter().map(|namespace| (*namespace, NOTHING)).collect(),
            ..Self::default()
        };
        let in_use = |entry: &Entry| entry.wanted && !entry.left_out;
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

    /// What the namespace has that may not be left out.
    pub(super) fn shared(&self, namespace: Namespace) -> NamespaceQuota {
        self.shared.get(&namespace).copied().unwrap_or(NOTHING)
    }
}
