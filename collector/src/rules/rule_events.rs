//! Tells the authors of EgressFirewalls what is wrong with them: when it changes, and again while it is so, as the API
//! server forgets Events after an hour.

use std::collections::{BTreeMap, BTreeSet};

use proto::api::EgressFirewall;
use runtime::{
    kube_events::{PendingReports, Reporter, Severity},
    store::ObjectKey,
};
use tokio::time::sleep_until;

use super::rule_set::Rules;
use crate::namespaces::NamespaceQuota;

/// The note of what cannot be read.
const UNREADABLE: &str = "it cannot be read: its names are not known, and DNSNameResolvers that no rule is known to use are kept until it can";

/// What is to be said.
#[derive(Debug)]
pub(super) struct RuleEvents {
    reporter: Reporter,
    pending: PendingReports<ObjectKey>,
    /// EgressFirewalls whose namespace went over its limits, with these limits, until that is said.
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

    /// There is something new to say of these.
    pub(super) fn changed(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.pending.extend(keys);
    }

    /// The namespace of these went over its limits.
    pub(super) fn over_limit(&mut self, keys: Vec<ObjectKey>, quota: NamespaceQuota) {
        for key in &keys {
            self.over_limit.insert(key.clone(), quota);
        }
        self.pending.extend(keys);
    }

    /// Waits until there is something to say, and says it. Cancelled, it has said nothing. `unreadable` are those that were
    /// never known and cannot be read.
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
            // While there is room for one alone, it shall not be the same each time.
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

/// The reason and the note of a namespace over its limits. They are the same each time, so the reporter repeats them rarely.
fn over_limit(NamespaceQuota { addresses, names }: NamespaceQuota) -> (&'static str, String) {
    let note = format!(
        "this namespace has more than the {addresses} addresses or {names} names that it may have (--max-addresses-per-namespace, \
         --max-names-per-namespace, annotations of the Namespace), or all namespaces together have too many addresses (--max-addresses, --etcd-quota): \
         names of its rules are left out, the last first, and names that its pods ask for under wildcards"
    );
    ("LimitExceeded", note)
}
