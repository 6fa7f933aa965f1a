//! The names in use, by the objects with rules of all namespaces; and the faults of these objects,
//! which are reported to their authors.
//!
//! - [`sources`]: the kinds of these objects. One task follows the objects of one source.
//! - `rule_object`: the relevant content of one object. [`validation`]: its faults. `retention`:
//!   the retention of its names.
//! - `rule_set`: all objects of a source. `users`: those that use a name.
//! - `wanted`: the names in use, and their changes.
//! - `events`: Events to authors. [`notices`]: what else than faults they are about.
//! - `rule_references`: which rules use a name, for `explain`.

mod by_source;
mod events;
pub(crate) mod interner;
pub mod notices;
mod retention;
mod rule_object;
mod rule_references;
mod rule_set;
pub mod sources;
#[cfg(test)]
mod tests;
mod users;
pub mod validation;
mod wanted;

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    pin::pin,
    sync::Arc,
};

use anyhow::bail;
use futures_util::{FutureExt, StreamExt};
use runtime::{
    admin::Gate,
    kube_events::Reporter,
    metrics::Label,
    store::{Event, ObjectKey, Scope, Store},
};
use tokio::sync::{
    broadcast::{self, error::RecvError},
    mpsc, watch,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::{
    by_source::BySource,
    retention::RetentionPolicy,
    rule_references::ReferencesRequest,
    sources::{RuleSource, Source},
    wanted::{ChangedUses, RuleChanges, Wanted, WantedName},
};
use self::{events::RuleEvents, notices::Notice, rule_set::Rules, validation::Faults};
pub(crate) use self::{
    sources::{SourceSet, is_policy},
    wanted::replace,
};
use names::Namespaces;

/// The most changes of objects that are published together.
const MAX_AT_ONCE: usize = 1000;

const KINDS: &[&str] = &[
    Source::EgressFirewall.kind(),
    Source::DnsResolver.kind(),
    Source::KubeOvn.kind(),
];

runtime::metrics! {
    pub const METRICS;

    gauge "egress_collector_rule_names_refused" [Label::one_of("kind", KINDS)]
        "DNS names in rules that are not valid for a DNSNameResolver: these rules have no effect";
    gauge "egress_collector_rule_objects_left_out" [Label::one_of("kind", KINDS)]
        "Objects with rules that have no effect as a whole, since all of their kind in the namespace have too many names together";
}

/// A summary of the objects of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// Why the objects cannot be read now, so that the last known ones apply. `None` if
    /// they can.
    pub out_of_sync: Option<String>,
    /// The number of objects, without those that were never decoded.
    pub objects: usize,
    /// The objects with faults.
    pub faults: BTreeMap<ObjectKey, Faults>,
    /// Those that cannot be decoded and never could.
    pub undecodable: BTreeSet<ObjectKey>,
}

/// The outputs of the task.
#[derive(Debug)]
pub struct Outputs {
    /// Changes of the names in use.
    pub changes: mpsc::Sender<RuleChanges>,
    pub overview: watch::Sender<BySource<Arc<Overview>>>,
    /// Reports Events to the authors of the objects.
    pub reporter: Reporter,
    /// Whether the program is not ready before the objects are known. Other sources go on without
    /// one whose definition is missing.
    pub is_needed: bool,
}

/// The other inputs of the task.
#[derive(Debug)]
pub struct Inputs {
    /// What authors of rules must know, for Events.
    pub notices: broadcast::Receiver<Notice>,
    /// Requests for the rules that use a name.
    pub questions: mpsc::Receiver<ReferencesRequest>,
}

/// Follows the objects of a source and publishes the names in use, until `shutdown`.
///
/// # Errors
/// The watch ended, which a store's never does.
pub async fn run<S: Store, K: RuleSource>(
    store: S,
    retention: RetentionPolicy,
    namespaces: Namespaces,
    outputs: Outputs,
    mut inputs: Inputs,
    gate: Gate,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut readiness = Readiness {
        gate,
        is_needed: outputs.is_needed,
        was_in_sync: false,
    };
    let rules = Rules::of::<K>(retention, namespaces);
    let mut state = RulesTask::<K>::new(rules);
    let rule_events = RuleEvents::new(outputs.reporter);
    let mut are_notices_open = true;
    let mut events = pin!(store.watch::<K>(Scope::All).fuse());
    loop {
        let rules = &mut state.rules;
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            notice = inputs.notices.recv(), if are_notices_open => {
                match notice {
                    Ok(notice) => rule_events.report_notice(&notice, rules),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => are_notices_open = false,
                }
                continue;
            }
            Some(asked) = inputs.questions.recv() => {
                let references = rule_references::references(rules, &asked);
                // The receiver may be gone.
                let _gone = asked.answer.send(references);
                continue;
            }
            event = events.next() => {
                let Some(event) = event else { bail!("the watch of {}s ended", K::SOURCE) };
                state.take(event);
                for _ in 1..MAX_AT_ONCE {
                    let Some(Some(event)) = events.next().now_or_never() else { break };
                    state.take(event);
                }
            }
        }
        let mut changed = state.update_undecodable();
        readiness.show(state.out_of_sync.as_deref(), &state.undecodable);
        let changes = state.take_changes();
        metrics::gauge!("egress_collector_rule_names_refused", "kind" => K::SOURCE.kind())
            .set(state.rules.refused as f64);
        metrics::gauge!("egress_collector_rule_objects_left_out", "kind" => K::SOURCE.kind())
            .set(state.rules.left_out as f64);
        outputs.overview.send_modify(|all| {
            let shown = Arc::make_mut(all.get_mut(K::SOURCE));
            changed.extend(state.show(shown));
        });
        rule_events.report_faults::<K>(changed, &state.rules, &state.undecodable);
        let sent = outputs.changes.send(changes);
        if !matches!(shutdown.run_until_cancelled(sent).await, Some(Ok(()))) {
            // The publisher has ended, and reports the reason itself.
            return Ok(());
        }
    }
}

/// The state of the task.
struct RulesTask<K> {
    rules: Rules,
    /// Those that cannot be decoded now.
    unreadable: BTreeSet<ObjectKey>,
    /// Those that never could be decoded.
    undecodable: BTreeSet<ObjectKey>,
    /// Why the store cannot be read. Independent of objects that cannot be decoded.
    out_of_sync: Option<String>,
    /// The first read failed, or a later one.
    has_failed: bool,
    kind: PhantomData<K>,
}

impl<K: RuleSource> RulesTask<K> {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            unreadable: BTreeSet::new(),
            undecodable: BTreeSet::new(),
            out_of_sync: Some("they were not listed yet".to_owned()),
            has_failed: false,
            kind: PhantomData,
        }
    }

    fn take(&mut self, event: Event<K>) {
        let rules = &mut self.rules;
        match event {
            Event::Synced(objects) => {
                info!(kind = %K::SOURCE, objects = objects.len(), "the rules are in sync");
                self.out_of_sync = None;
                rules.reset(&objects, &self.unreadable);
            }
            Event::Applied(object) => rules.apply(&object),
            Event::Deleted(key) => rules.remove(&key),
            Event::Undecodable(keys) => self.unreadable = keys,
            Event::OutOfSync(reason) => {
                warn!(kind = %K::SOURCE, %reason, "cannot read the rules: the names in use stay as they are");
                (self.out_of_sync, self.has_failed) = (Some(reason), true);
            }
        }
    }

    /// Returns the objects with new reports.
    fn update_undecodable(&mut self) -> BTreeSet<ObjectKey> {
        let unreadable = self.unreadable.iter();
        let unknown = unreadable.filter(|key| self.rules.get(key).is_none());
        let unknown: BTreeSet<ObjectKey> = unknown.cloned().collect();
        let new = unknown.difference(&self.undecodable).cloned().collect();
        self.undecodable = unknown;
        new
    }

    fn take_changes(&mut self) -> RuleChanges {
        RuleChanges {
            source: K::SOURCE,
            uses: self.rules.take_changed_uses(),
            in_sync: self.out_of_sync.is_none(),
            has_failed: self.has_failed,
        }
    }

    /// Returns the objects whose faults changed.
    fn show(&mut self, overview: &mut Overview) -> BTreeSet<ObjectKey> {
        overview.out_of_sync.clone_from(&self.out_of_sync);
        overview.undecodable.clone_from(&self.undecodable);
        self.rules.show(overview)
    }
}

/// Sets a gate by whether the rules are known. Any tenant can make some rules unreadable. So after
/// the first success, unknown rules no longer end readiness.
struct Readiness {
    gate: Gate,
    is_needed: bool,
    was_in_sync: bool,
}

impl Readiness {
    fn show(&mut self, out_of_sync: Option<&str>, undecodable: &BTreeSet<ObjectKey>) {
        self.was_in_sync |= out_of_sync.is_none();
        match (out_of_sync, undecodable.first()) {
            (Some(reason), _) if !self.was_in_sync && self.is_needed => {
                self.gate.not_ready(reason);
            }
            (Some(reason), _) if !self.was_in_sync => {
                self.gate.impaired(format!("they cannot be read: {reason}"));
            }
            (Some(reason), _) => {
                let words = format!("they cannot be read, so their last known state applies: {reason}");
                self.gate.impaired(words);
            }
            (None, Some(first)) => self.gate.impaired(format!(
                "{} cannot be read and never could, such as {first}: the collector deletes its objects without a known rule after 10 min",
                undecodable.len()
            )),
            (None, None) => self.gate.ready(),
        }
    }
}
