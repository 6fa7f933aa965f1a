//! The watches of the objects, one for each source of names, and the conditions of readiness that
//! follow from them.

use std::collections::BTreeSet;

use futures_util::{
    StreamExt,
    stream::{BoxStream, SelectAll, select_all},
};
use proto::api::{DnsNameResolver, KubeOvnDnsNameResolver};
use runtime::{
    admin::{Gate, Health},
    store::{Event, Scope, Store},
};

use super::policy::ObjectPolicy;
use crate::rules::Source;

/// The events of the objects of all sources.
pub(super) fn events<S: Store>(
    store: &S,
    policy: &ObjectPolicy,
) -> SelectAll<BoxStream<'static, (Source, Event<DnsNameResolver>)>> {
    select_all(policy.sources.iter().map(|policy| {
        let source = policy.source;
        match source {
            Source::EgressFirewall | Source::DnsResolver => {
                let scope = Scope::Namespace(policy.namespace.clone());
                let events = store.watch::<DnsNameResolver>(scope);
                events.map(move |event| (source, event)).boxed()
            }
            Source::KubeOvn => {
                let events = store.watch::<KubeOvnDnsNameResolver>(Scope::All);
                let events = events.map(|event| event.map(DnsNameResolver::from));
                events.map(move |event| (source, event)).boxed()
            }
        }
    }))
}

/// The conditions that the objects of each source are listed.
pub struct ObjectGates {
    gates: Vec<(Source, Gate)>,
    /// The sources whose objects were listed once.
    were_listed: BTreeSet<Source>,
}

impl ObjectGates {
    /// One condition for each source.
    pub fn new(health: &Health, sources: &[Source]) -> Self {
        let gates = sources.iter().map(|source| {
            let gate = health.gate(source.objects_gate(), "they were not listed yet");
            (*source, gate)
        });
        Self {
            gates: gates.collect(),
            were_listed: BTreeSet::new(),
        }
    }

    /// Shows what a watch says about the objects of a source.
    ///
    /// A 503 would take every collector out of its Service, and CoreDNS would lose its readers. So
    /// objects that were listed once, or those of one source among several, only impair.
    pub(super) fn show(&mut self, source: Source, event: &Event<DnsNameResolver>) {
        let is_one_of_several = self.gates.len() > 1;
        let Some((_, gate)) = self.gates.iter().find(|(of, _)| *of == source) else {
            return;
        };
        match event {
            Event::Synced(_) => {
                self.were_listed.insert(source);
                gate.ready();
            }
            Event::OutOfSync(reason) if self.were_listed.contains(&source) => {
                let words =
                    format!("they cannot be read, so their last known state applies: {reason}");
                gate.impaired(words);
            }
            Event::OutOfSync(reason) if is_one_of_several => {
                gate.impaired(format!("they cannot be read: {reason}"));
            }
            Event::OutOfSync(reason) => gate.not_ready(reason),
            Event::Applied(_) | Event::Deleted(_) | Event::Undecodable(_) => {}
        }
    }
}
