//! Reports the faults of objects with rules to their authors when they change.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use runtime::{
    kube_events::{Reporter, Severity},
    store::ObjectKey,
};

use super::{RuleSource, rule_object::RuleObject, rule_set::Rules};
use names::Namespace;
use names::NamespaceCaps;

/// Raises Events on objects with rules.
#[derive(Debug)]
pub(super) struct RuleEvents(Reporter);

impl RuleEvents {
    pub(super) fn new(reporter: Reporter) -> Self {
        Self(reporter)
    }

    /// Reports the faults of these, which changed. `unreadable` are those that never could be decoded.
    pub(super) fn report_faults<K: RuleSource>(
        &self,
        keys: impl IntoIterator<Item = ObjectKey>,
        rules: &Rules,
        unreadable: &BTreeSet<ObjectKey>,
    ) {
        for key in keys {
            match rules.get(&key) {
                Some(rule_object) => self.report(rule_object, None),
                None if unreadable.contains(&key) => {
                    self.warn(key.reference::<K>(), "Unreadable", undecodable::<K>());
                }
                None => {}
            }
        }
    }

    /// Reports to the authors of a namespace's rules that it is at a cap, beside the faults.
    pub(super) fn report_cap(&self, namespace: Namespace, rules: &Rules) {
        for rule_object in rules.of_namespace(namespace) {
            self.report(rule_object, Some(namespace_at_cap()));
        }
    }

    fn report(&self, rule_object: &RuleObject, cap: Option<(&'static str, String)>) {
        let faults = rule_object.faults.notes();
        let faults = faults.map(|(fault, note)| (fault.reason(), note));
        for (reason, note) in faults.chain(cap) {
            self.warn(rule_object.about.clone(), reason, note);
        }
    }

    /// Reports to some objects with rules.
    pub(super) fn warn_all<'a>(
        &self,
        about: impl Iterator<Item = &'a ObjectReference>,
        reason: &'static str,
        note: &str,
    ) {
        for about in about {
            self.warn(about.clone(), reason, note.to_owned());
        }
    }

    fn warn(&self, about: ObjectReference, reason: &'static str, note: String) {
        self.0.report(about, Severity::Warning, reason, note);
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
