//! Reports the faults of objects with rules to their authors when they change.

use std::collections::BTreeSet;

use runtime::{
    kube_events::{Reporter, Severity},
    store::ObjectKey,
};

use super::{RuleSource, rule_set::Rules};
use crate::objects::NamespaceCaps;

/// The Events to be raised.
#[derive(Debug)]
pub(super) struct RuleEvents {
    reporter: Reporter,
    /// Objects with new faults.
    pending: BTreeSet<ObjectKey>,
    /// Objects whose namespace is at a cap, until that is reported.
    at_cap: BTreeSet<ObjectKey>,
}

impl RuleEvents {
    pub(super) fn new(reporter: Reporter) -> Self {
        Self {
            reporter,
            pending: BTreeSet::new(),
            at_cap: BTreeSet::new(),
        }
    }

    /// The faults of these changed.
    pub(super) fn changed(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.pending.extend(keys);
    }

    /// The namespace of these is at a cap.
    pub(super) fn at_cap(&mut self, keys: Vec<ObjectKey>) {
        self.at_cap.extend(keys.iter().cloned());
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
            let capped = self.at_cap.remove(&key).then(namespace_at_cap);
            let Some(rule_object) = rules.get(&key) else {
                if unreadable.contains(&key) {
                    warn(key.reference::<K>(), ("Unreadable", undecodable::<K>()));
                }
                continue;
            };
            let faults = rule_object.faults.notes();
            let faults = faults.map(|(fault, note)| (fault.reason(), note));
            for note in faults.chain(capped) {
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

/// The reason and the note for a namespace at a cap.
fn namespace_at_cap() -> (&'static str, String) {
    let NamespaceCaps {
        names,
        wildcards,
        addresses,
    } = NamespaceCaps::default();
    let note = format!(
        "this namespace or policy is at a cap: {names} names or {wildcards} wildcards in rules, or {addresses} addresses of names. The \
         collector leaves further names and addresses out: an Allow rule opens nothing for them, and a Deny rule blocks nothing. Use fewer \
         names. `egress explain NAME` shows what is left out"
    );
    ("LimitExceeded", note)
}
