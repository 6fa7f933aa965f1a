//! Reports the faults of objects with rules to their authors when they change.

use std::collections::{BTreeMap, BTreeSet};

use runtime::{
    kube_events::{Reporter, Severity},
    store::ObjectKey,
};

use super::{RuleSource, rule_set::Rules};
use crate::namespaces::NamespaceQuota;

/// The Events to be raised.
#[derive(Debug)]
pub(super) struct RuleEvents {
    reporter: Reporter,
    /// Objects with new faults.
    pending: BTreeSet<ObjectKey>,
    /// Objects whose namespace exceeded its quota, with that quota, until that is reported.
    over_limit: BTreeMap<ObjectKey, NamespaceQuota>,
}

impl RuleEvents {
    pub(super) fn new(reporter: Reporter) -> Self {
        Self {
            reporter,
            pending: BTreeSet::new(),
            over_limit: BTreeMap::new(),
        }
    }

    /// The faults of these changed.
    pub(super) fn changed(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.pending.extend(keys);
    }

    /// The namespace of these exceeded its quota.
    pub(super) fn over_limit(&mut self, keys: Vec<ObjectKey>, quota: NamespaceQuota) {
        for key in &keys {
            self.over_limit.insert(key.clone(), quota);
        }
        self.pending.extend(keys);
    }

    /// Reports what is new. `unreadable` are those that never could be decoded.
    pub(super) fn report<K: RuleSource>(
        &mut self,
        rules: &Rules,
        unreadable: &BTreeSet<ObjectKey>,
    ) {
        let warn = |about, (reason, note): (_, String)| {
            self.reporter.report(about, Severity::Warning, reason, note);
        };
        for key in std::mem::take(&mut self.pending) {
            let over = self.over_limit.remove(&key);
            let Some(rule_object) = rules.get(&key) else {
                if unreadable.contains(&key) {
                    warn(key.reference::<K>(), ("Unreadable", undecodable::<K>()));
                }
                continue;
            };
            let faults = rule_object.faults.notes();
            let faults = faults.map(|(fault, note)| (fault.reason(), note));
            for note in faults.chain(over.map(over_limit)) {
                warn(rule_object.about.clone(), note);
            }
        }
    }
}

/// The note for an object that cannot be decoded.
fn undecodable<K: RuleSource>() -> String {
    let (source, kind, version) = (K::SOURCE, K::kind(&()), K::api_version(&()));
    let resource = kind.to_ascii_lowercase();
    format!(
        "the collector cannot decode this {source}. Compare its fields with `kubectl explain {resource}.spec --api-version={version} --recursive`; the \
         administrator finds the reason in the collector's log. Names that no other {source} has get no new addresses, and lose the known \
         ones after ten minutes"
    )
}

/// The reason and the note for a namespace over its quota.
fn over_limit(NamespaceQuota { addresses, names }: NamespaceQuota) -> (&'static str, String) {
    let note = format!(
        "this namespace or policy exceeds its limits of {addresses} addresses or {names} names, or all namespaces together have too many. The collector \
         leaves names out: first names under wildcards, then those of the last rules. It removes their addresses, so an Allow rule opens \
         nothing for them, and a Deny rule blocks nothing. Use fewer names. For an administrator: `egress explain NAME` shows usage and \
         limit. --max-addresses-per-namespace, --max-names-per-namespace and annotations of the Namespace set the limits of a namespace, \
         --max-addresses-per-policy and --max-names-per-policy those of a policy, --max-addresses and --etcd-quota those of all"
    );
    ("LimitExceeded", note)
}
