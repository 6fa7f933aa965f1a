//! The controller of all statuses: it owns the state and passes each event to the parts that it
//! concerns. It is synchronous and does no IO. [`control_loop`](crate::control_loop) feeds it, and
//! carries out its writes and look-ups.

mod config;
#[cfg(test)]
pub(crate) mod tests;

use metrics::counter;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    clock::Timestamp,
    kube_events::Reporter,
    store::{Event, ObjectKey},
};

pub use self::config::Config;
use crate::{
    lookup::{GapBackfill, LookupResult, Request},
    objects::{
        Inspection, Leadership, NameTable, NamesInUse, NamespaceUse, ObjectUpdate, StoredObjects,
        View, WritePlan, counted_addresses, guarded,
        publish::{Write, WriteOutcome},
        report,
    },
    observation::Observation,
    observe::{Backfill, names::NameIndex},
    rules::{BySource, Source, Wanted},
    stream_coverage::StreamCoverage,
};

/// The whole state.
#[derive(Debug)]
pub struct StatusController {
    pub(crate) names: NameTable,
    pub(crate) in_use: NamesInUse,
    pub(crate) objects: StoredObjects,
    pub(crate) namespaces: NamespaceUse,
    pub(crate) lead: Leadership,
    backfill: GapBackfill,
}

impl StatusController {
    /// An empty state of a standby.
    pub fn new(config: Config) -> Self {
        Self {
            namespaces: NamespaceUse::new(config.namespace_caps),
            names: NameTable::new(config.limits, config.guards, config.shared),
            in_use: NamesInUse::new(config.objects.sources.iter().map(|it| it.source)),
            objects: StoredObjects::new(config.objects),
            lead: Leadership::default(),
            backfill: GapBackfill::default(),
        }
    }

    /// Sets whether this collector leads. A new leader looks every name up before it removes any of
    /// its addresses.
    pub fn lead(&mut self, leads: bool, now: Timestamp) {
        if !self.lead.set(leads) {
            return;
        }
        self.names.lookups.is_active = leads && self.names.limits.lookups;
        if leads {
            self.names.take_over(now);
        }
        self.gap(now);
    }

    /// Sets which DNS servers stream here.
    pub fn set_coverage(&mut self, coverage: StreamCoverage, now: Timestamp) {
        self.lead.set_coverage(coverage, &mut self.names, now);
    }

    /// Nothing could be resolved for a while, or the wall clock was set: earlier look-ups do not
    /// count, and delayed work is done now.
    pub fn gap(&mut self, now: Timestamp) {
        self.objects.gap();
        self.names.gap(now);
        self.backfill.reset(now);
        self.lead.gap(now);
    }

    /// The program ends: writes that only wait for their spacing go at once.
    pub fn end(&mut self) {
        self.objects.end(&mut self.names);
    }

    /// Applies changes of the names in use.
    pub fn want(&mut self, wanted: &BySource<Wanted>, now: Timestamp) {
        self.in_use
            .want(wanted, &mut self.names, &mut self.namespaces, now);
    }

    /// Applies an answer to the name itself and to the wildcard above it.
    pub fn observe(&mut self, observation: &Observation) {
        let left = guarded(observation, &self.names.guards);
        let observation = left.as_ref().unwrap_or(observation);
        if observation.addresses.is_empty() {
            return;
        }
        let wildcard = observation.name.wildcard();
        for spec in std::iter::once(&observation.name).chain(wildcard.as_ref()) {
            let Some(entry) = self.names.entries.get(spec) else {
                continue;
            };
            let notices = &self.names.shared.notices;
            let admitted = self.namespaces.admit(entry, observation, notices);
            let before = counted_addresses(entry);
            let observation = admitted.as_ref().unwrap_or(observation);
            self.names.observe(spec, observation, self.lead.leads());
            if let Some(entry) = self.names.entries.get(spec) {
                self.namespaces.add(entry, before);
            }
        }
        self.names.observed(observation);
    }

    /// Applies a look-up of a name in both families. Failures count only for a leader.
    pub fn round(&mut self, round: &LookupResult, now: Timestamp) {
        if !self.names.lookups.is_discarded(&round.name) {
            for mut observation in round.observations() {
                observation.at = observation.at.min(now);
                self.observe(&observation);
            }
        }
        self.names.looked_up(round, self.lead.leads(), now);
    }

    /// Observations were lost. A leader looks the names up. A standby looks every name up when it
    /// begins to lead.
    pub fn missed(&mut self, missing: Backfill, now: Timestamp) {
        if missing.anything {
            self.backfill.is_owed = true;
            self.names.hold(now);
            if self.names.entries.keys().any(DnsName::is_wildcard) {
                counter!("egress_collector_wildcard_gaps_total").increment(1);
            }
        }
        for name in missing.names {
            self.names.ask_lost(&name, now);
        }
    }

    /// Gives names that became wanted the addresses that pods use already: those of other names in
    /// use, and cached answers. A reader that still has the old index may cache one answer more; the
    /// next query of a client brings it.
    pub fn recall(&mut self, now: Timestamp) {
        let newly_wanted = std::mem::take(&mut self.names.newly_wanted);
        self.names.share(&newly_wanted, now);
        for name in &newly_wanted {
            let min_ttl = self.names.limits.min_ttl;
            let recalled = self.names.shared.remembered.recall(name, now, min_ttl);
            counter!("egress_collector_answers_recalled_total").increment(recalled.len() as u64);
            for observation in &recalled {
                self.observe(observation);
            }
        }
    }

    /// Applies an event of the watch of a source's objects.
    pub fn event(&mut self, source: Source, event: Event<DnsNameResolver>, now: Timestamp) {
        self.update(now).event(source, event);
    }

    /// Applies the result of a write.
    pub fn written(
        &mut self,
        key: &ObjectKey,
        write: &Write,
        outcome: WriteOutcome,
        now: Timestamp,
    ) {
        self.update(now).written(key, write, outcome);
    }

    fn update(&mut self, now: Timestamp) -> ObjectUpdate<'_> {
        ObjectUpdate {
            objects: &mut self.objects,
            names: &mut self.names,
            lead: &mut self.lead,
            now,
        }
    }

    /// Removes expired addresses, and begins a backfill if one is due.
    pub fn tick(&mut self, now: Timestamp) {
        let Self {
            names,
            in_use,
            objects,
            namespaces,
            lead,
            backfill,
        } = self;
        lead.tick(names, now);
        let is_all_known = in_use.are_known() && objects.are_known();
        if lead.leads() && is_all_known && backfill.next().is_some_and(|at| at <= now) {
            names.backfill(backfill, now);
        }
        if is_all_known && namespaces.is_changed() {
            namespaces.reconcile(names, now);
        }
        names.expire(lead.leads(), now);
        namespaces.count(names, now);
    }

    /// The writes to start now: at most one for each object.
    pub fn writes(&mut self, now: Timestamp) -> Vec<Write> {
        let (objects, names) = (&mut self.objects, &mut self.names);
        WritePlan::new(objects, names, &self.in_use, &self.lead, now).make()
    }

    /// When [`StatusController::tick`] or [`StatusController::next_request`] has something to do.
    pub fn next_wake(&self) -> Option<Timestamp> {
        // A backfill needs to know the names in use and their objects.
        let is_all_known = self.in_use.are_known() && self.objects.are_known();
        let backfills = self.lead.leads() && is_all_known;
        let all = [
            self.names.wakes.next(),
            self.objects.paused_until,
            self.backfill.next().filter(|_| backfills),
            self.names.lookups.next(),
        ];
        all.into_iter().flatten().min()
    }

    /// The next name to look up, if one is due.
    pub fn next_request(&mut self, now: Timestamp) -> Option<Request> {
        self.names.next_request(now)
    }

    /// The names in use and those of all objects, for the readers, if they changed since the last
    /// call.
    pub fn take_index(&mut self) -> Option<NameIndex> {
        self.names.index.take()
    }

    /// Reports evictions.
    pub fn report_evictions(&mut self, reporter: &Reporter) {
        let NameTable {
            entries,
            shared,
            evictions,
            ..
        } = &mut self.names;
        evictions.report(entries, self.objects.policy(), shared, reporter);
    }

    #[cfg(test)]
    pub(crate) fn backfill_is_owed(&self) -> bool {
        self.backfill.is_owed
    }

    pub(crate) fn inspect(&self) -> Inspection<'_> {
        Inspection {
            names: &self.names,
            objects: &self.objects,
            namespaces: &self.namespaces,
            lead: &self.lead,
        }
    }

    pub fn view(&self, now: Timestamp) -> View {
        self.inspect().view(now)
    }

    pub fn report(&self) {
        report(self.inspect());
    }
}
