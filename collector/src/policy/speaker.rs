//! Tells the authors of EgressFirewalls what is wrong with them: when it changes, and again while it is so, as the API
//! server forgets Events after an hour.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use proto::api::EgressFirewall;
use runtime::{
    report::{Reporter, Severity},
    store::ObjectKey,
};
use tokio::time::{Instant, sleep_until};

use super::rules::Rules;

/// How often what is still so is said again.
pub(super) const AGAIN: Duration = Duration::from_secs(30 * 60);

/// How long to wait when more was said than could be taken.
const BUSY: Duration = Duration::from_secs(1);

/// What is to be said.
#[derive(Debug)]
pub(super) struct Speaker {
    reporter: Reporter,
    pending: BTreeSet<ObjectKey>,
    /// The last of which something was said; those behind it come next, so that none waits for ever.
    last: Option<ObjectKey>,
    /// No sooner than this, if the reports did not fit.
    busy_until: Option<Instant>,
    again: Instant,
}

impl Speaker {
    pub(super) fn new(reporter: Reporter) -> Self {
        Self {
            reporter,
            pending: BTreeSet::new(),
            last: None,
            busy_until: None,
            again: Instant::now() + AGAIN,
        }
    }

    /// There is something new to say of these.
    pub(super) fn changed(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.pending.extend(keys);
    }

    /// Waits until there is something to say, and says it. Cancelled, it has said nothing. `unreadable` are those that were
    /// never known and cannot be read.
    pub(super) async fn speak(&mut self, rules: &Rules, unreadable: &BTreeSet<ObjectKey>) {
        let at = match (self.pending.is_empty(), self.busy_until) {
            (true, _) => self.again,
            (false, Some(later)) => later,
            (false, None) => Instant::now(),
        };
        sleep_until(at).await;
        if self.again <= Instant::now() {
            self.again = Instant::now() + AGAIN;
            let faulty = rules.faulty().map(|(key, _)| key);
            self.pending.extend(faulty.chain(unreadable).cloned());
        }
        self.busy_until = None;
        while let Some(key) = self.next() {
            let taken = match rules.get(&key) {
                Some(firewall) => firewall
                    .faults
                    .notes()
                    .all(|(fault, note)| self.warn(firewall.about.clone(), fault.reason(), note)),
                None if unreadable.contains(&key) => {
                    self.warn(reference(&key), UNREADABLE.0, UNREADABLE.1)
                }
                None => true,
            };
            if !taken {
                self.busy_until = Some(Instant::now() + BUSY);
                return;
            }
            self.pending.remove(&key);
            self.last = Some(key);
        }
    }

    fn next(&self) -> Option<ObjectKey> {
        let last = self.last.as_ref();
        let behind = last.and_then(|last| self.pending.range((Excluded(last), Unbounded)).next());
        behind.or_else(|| self.pending.first()).cloned()
    }

    /// Whether it was taken.
    fn warn(&self, about: ObjectReference, reason: &'static str, note: impl Into<String>) -> bool {
        self.reporter.report(about, Severity::Warning, reason, note)
    }
}

/// The reason and the note of what cannot be read.
const UNREADABLE: (&str, &str) = (
    "Unreadable",
    "it cannot be read: its names are not known, and DNSNameResolvers that no rule is known to use are kept until it can",
);

fn reference(key: &ObjectKey) -> ObjectReference {
    ObjectReference {
        api_version: Some(EgressFirewall::api_version(&()).into_owned()),
        kind: Some(EgressFirewall::kind(&()).into_owned()),
        namespace: Some(key.namespace.clone()),
        name: Some(key.name.clone()),
        ..ObjectReference::default()
    }
}
