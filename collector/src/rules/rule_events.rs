//! Reports the faults of EgressFirewalls to their authors: when they change, and repeatedly, as the
//! API server forgets Events after an hour.

use std::collections::{BTreeMap, BTreeSet};

use proto::api::EgressFirewall;
use runtime::{
    kube_events::{PendingReports, Reporter, Severity},
    store::ObjectKey,
};
use tokio::time::sleep_until;

use super::rule_set::Rules;
use crate::namespaces::NamespaceQuota;

/// The note for an object that cannot be decoded.
const UNREADABLE: &str = "the collector cannot read it: its names are unknown, and DNSNameResolvers without a known rule are kept until it is corrected";

/// The Events to be raised.
#[derive(Debug)]
pub(super) struct RuleEvents {
    reporter: Reporter,
    pending: PendingReports<ObjectKey>,
    /// EgressFirewalls whose namespace exceeded its quota, with that quota, until that is reported.
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
    pub(super) async fn speak(&mut self, rules: &Rules, unreadable: &BTreeSet<ObjectKey>) {
        sleep_until(self.pending.due()).await;
        let (reporter, over_limit) = (&self.reporter, &mut self.over_limit);
        let warn = |about, (reason, note)| reporter.report(about, Severity::Warning, reason, note);
        let faulty = || {
            let faulty = rules.faulty().map(|(key, _)| key);
            faulty.chain(unreadable).cloned()
        };
        self.pending.report(faulty, |key| {
            let Some(firewall) = rules.get(key) else {
                over_limit.remove(key);
                return !unreadable.contains(key)
                    || warn(
                        key.reference::<EgressFirewall>(),
                        ("Unreadable", UNREADABLE.to_owned()),
                    );
            };
            let faults = firewall.faults.notes();
            let faults = faults.map(|(fault, note)| (fault.reason(), note));
            let over = over_limit.get(key).map(|quota| self::over_limit(*quota));
            let mut notes: Vec<_> = faults.chain(over).collect();
            // Shuffled: if there is room for only one, it must not be the same each time.
            fastrand::shuffle(&mut notes);
            let mut notes = notes.into_iter();
            let are_taken = notes.all(|note| warn(firewall.about.clone(), note));
            if are_taken {
                over_limit.remove(key);
            }
            are_taken
        });
    }
}

/// The reason and the note for a namespace over its quota. They are constant, so the reporter
/// repeats them rarely.
fn over_limit(NamespaceQuota { addresses, names }: NamespaceQuota) -> (&'static str, String) {
    let note = format!(
        "this namespace exceeds its limit of {addresses} addresses or {names} names (--max-addresses-per-namespace, \
         --max-names-per-namespace, annotations of the Namespace), or all namespaces together exceed --max-addresses or 3/8 of --etcd-quota. \
         Names of its rules are left out, the last first, and names that its pods query under wildcards"
    );
    ("LimitExceeded", note)
}
