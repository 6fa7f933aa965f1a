//! Follows the Namespaces, and reports faults of the annotations to their authors.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    pin::pin,
    time::Duration,
};

use futures_util::{Stream, StreamExt};
use kube::ResourceExt;
use metrics::gauge;
use runtime::{
    kube_events::{Reporter, Severity},
    store::Event,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    NamespaceQuota, NamespaceQuotas, QuotaRules,
    annotations::{AnnotatedNamespace, AnnotationFault, EvaluatedAnnotations},
};
use crate::clients::{Clients, Namespace};

/// How long the collector waits for Namespaces that it cannot read since the start, for example for
/// lack of permission. Until then the default quota may be too low for some namespace, and names
/// that pods use would be left out.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub struct Outputs {
    pub quotas: NamespaceQuotas,
    /// Assigns numbers to namespaces.
    pub clients: Clients,
    /// Reports Events to the authors of Namespaces.
    pub reporter: Reporter,
}

/// Follows the Namespaces until the token is cancelled.
///
/// # Errors
/// None: failures are logged and retried.
pub async fn run(
    rules: QuotaRules,
    events: impl Stream<Item = Event<AnnotatedNamespace>>,
    outputs: Outputs,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let mut events = pin!(events);
    let mut task = Task {
        rules,
        outputs,
        known: BTreeMap::new(),
        is_unreadable: false,
        unread_until: None,
    };
    loop {
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Some(event) = events.next() => task.take(event),
            () = sleep_until(task.unread_until.unwrap_or_else(Instant::now)), if task.unread_until.is_some() => task.end_wait(),
        }
    }
}

/// A Namespace with annotations that set limits.
#[derive(Debug)]
struct LimitedNamespace {
    number: Namespace,
    outcome: EvaluatedAnnotations,
}

struct Task {
    rules: QuotaRules,
    outputs: Outputs,
    /// The Namespaces with such annotations.
    known: BTreeMap<String, LimitedNamespace>,
    /// The failure to read them was logged.
    is_unreadable: bool,
    /// Until when the task waits for them, if they were never read.
    unread_until: Option<Instant>,
}

impl Task {
    fn take(&mut self, event: Event<AnnotatedNamespace>) {
        match event {
            Event::Synced(all) => {
                self.is_unreadable = false;
                let names: BTreeSet<String> = all.iter().map(ResourceExt::name_any).collect();
                self.known.retain(|name, _| names.contains(name));
                for namespace in &all {
                    self.apply(namespace);
                }
                let quotas = self.known.values();
                let quotas = quotas.filter_map(|it| Some((it.number, it.outcome.quota?)));
                let quotas: HashMap<Namespace, NamespaceQuota> = quotas.collect();
                self.outputs.quotas.replace(quotas);
                self.unread_until = None;
            }
            Event::Applied(namespace) => {
                let name = namespace.name_any();
                let before = self.known.get(&name).map(|it| it.number);
                self.apply(&namespace);
                match (self.known.get(&name), before) {
                    (Some(known), _) => {
                        self.outputs.quotas.set(known.number, known.outcome.quota);
                    }
                    (None, Some(number)) => self.outputs.quotas.set(number, None),
                    (None, None) => {}
                }
            }
            Event::Deleted(key) => {
                if let Some(known) = self.known.remove(&key.name) {
                    self.outputs.quotas.set(known.number, None);
                }
            }
            Event::OutOfSync(reason) => {
                if !self.outputs.quotas.are_known() {
                    let until = Instant::now() + UNREAD_TIMEOUT;
                    self.unread_until.get_or_insert(until);
                }
                if !std::mem::replace(&mut self.is_unreadable, true) {
                    warn!(
                        objects = "Namespaces", %reason,
                        "cannot be read: limits by known annotations stay, and the flags apply to all others; allow the collector to watch them"
                    );
                }
            }
            // The last known annotations stay, and the watch logs these objects.
            Event::Undecodable(_) => {}
        }
        self.count();
    }

    fn apply(&mut self, namespace: &AnnotatedNamespace) {
        let name = namespace.name_any();
        let outcome = namespace.outcome(&self.rules);
        if outcome == EvaluatedAnnotations::default() {
            self.known.remove(&name);
            return;
        }
        let known = self.known.get(&name);
        if known.is_some_and(|known| known.outcome == outcome) {
            return;
        }
        info!(namespace = name, quota = ?outcome.quota, "annotations of a Namespace set its limits");
        for AnnotationFault { reason, note } in &outcome.faults {
            let about = namespace.about();
            let reporter = &self.outputs.reporter;
            reporter.report(about, Severity::Warning, reason, note.as_str());
        }
        let known = LimitedNamespace {
            number: self.outputs.clients.number(&name),
            outcome,
        };
        self.known.insert(name, known);
    }

    fn count(&self) {
        let outcomes = || self.known.values().map(|known| &known.outcome);
        let of = |reason| {
            let faults = outcomes().flat_map(|it| &it.faults);
            faults.filter(|fault| fault.reason == reason).count()
        };
        let used: usize = outcomes().map(|it| it.used).sum();
        for (outcome, count) in [
            ("used", used),
            ("clamped", of(AnnotationFault::CLAMPED)),
            ("ignored", of(AnnotationFault::IGNORED)),
        ] {
            gauge!("egress_collector_namespace_annotations", "outcome" => outcome)
                .set(count as f64);
        }
    }

    fn end_wait(&mut self) {
        if self.unread_until.take().is_some() {
            self.outputs.quotas.cannot_be_read();
        }
    }
}

#[cfg(test)]
mod tests;
