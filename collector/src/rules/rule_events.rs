//! Reports the faults of objects with rules to their authors: when they change, and repeatedly, as the
//! API server forgets Events after an hour.

use std::collections::{BTreeMap, BTreeSet};

use runtime::{
    kube_events::{PendingReports, Reporter, Severity},
    store::ObjectKey,
};
use tokio::time::sleep_until;

use super::{RuleSource, rule_set::Rules};
use crate::namespaces::NamespaceQuota;

/// The Events to be raised.
#[derive(Debug)]
pub(super) struct RuleEvents {
    reporter: Reporter,
    pending: PendingReports<ObjectKey>,
    /// Objects whose namespace exceeded its quota, with that quota, until that is reported.
    over_limit: BTreeMap<ObjectKey, NamespaceQuota>,
}

impl RuleEvents {
    pub(super) fn new(reporter: Reporter) -> Self {
        Self {
            reporter,
            pending: PendingReports::default(),
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

    /// Waits until there is something to report, and reports it. If cancelled, it has reported
    /// nothing. `unreadable` are those that never could be decoded.
    pub(super) async fn speak<K: RuleSource>(
        &mut self,
        rules: &Rules,
        unreadable: &BTreeSet<ObjectKey>,
    ) {
        sleep_until(self.pending.due()).await;
        let (reporter, over_limit) = (&self.reporter, &mut self.over_limit);
        let warn = |about, (reason, note)| reporter.report(about, Severity::Warning, reason, note);
        let faulty = || {
            let faulty = rules.faulty().map(|(key, _)| key);
            faulty.chain(unreadable).cloned()
        };
        self.pending.report(faulty, |key| {
            let Some(rule_object) = rules.get(key) else {
                over_limit.remove(key);
                return !unreadable.contains(key)
                    || warn(key.reference::<K>(), ("Unreadable", undecodable::<K>()));
            };
            let faults = rule_object.faults.notes();
            let faults = faults.map(|(fault, note)| (fault.reason(), note));
            let over = over_limit.get(key).map(|quota| self::over_limit(*quota));
            let mut notes: Vec<_> = faults.chain(over).collect();
            // Shuffled: if there is room for only one, it must not be the same each time.
            fastrand::shuffle(&mut notes);
            let mut notes = notes.into_iter();
            let are_taken = notes.all(|note| warn(rule_object.about.clone(), note));
            if are_taken {
                over_limit.remove(key);
            }
            are_taken
        });
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

/// The reason and the note for a namespace over its quota. They are constant, so the reporter
/// repeats them rarely.
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
