//! The owner of all names and objects. It is synchronous and does no IO: the [task](super::task) feeds it, and carries
//! out its writes and look-ups.

use std::{mem, net::IpAddr, sync::Arc};

use metrics::{counter, gauge};
use names::{Added, Changes, LookupResult, Names, Namespaces, Observation, Request};
use proto::api::DnsName;
use runtime::{clock::Timestamp, kube_events::Reporter};
use tracing::{info, warn};

use super::{
    Config, HeldAnswer, NewAddresses,
    evictions::EvictionLog,
    guards::Guards,
    metrics::{count, count_refused, report},
    name_objects::NameObjects,
    objects::Objects,
    queue::WorkQueue,
    rule_uses::RuleUses,
};
use crate::{
    cluster::networks::{Networks, Purpose},
    flush::coverage::StreamCoverage,
    listen::PeerIds,
    matching::{Backfill, answer_cache::AnswerCache, index::NameIndex},
    rules::{
        RuleChanges,
        notices::{Notice, Notices},
    },
};

/// The most addresses named in the log after a change of the guards.
const MAX_NAMED: usize = 20;

/// The names, their objects, and when each object is written.
#[derive(Debug)]
pub struct Publisher {
    pub(crate) names: Names,
    pub(super) by_name: foldhash::HashMap<DnsName, Box<NameObjects>>,
    pub(crate) objects: Objects,
    pub(crate) rules: RuleUses,
    /// Names whose objects are to be checked.
    pub(super) dirty: WorkQueue,
    pub(super) evictions: EvictionLog,
    pub(super) guards: Guards,
    index: NameIndex,
    is_index_changed: bool,
    /// Answers that no rule wanted when they came.
    remembered: AnswerCache,
    /// The numbers of namespaces.
    pub(super) namespaces: Namespaces,
    /// Reports names that are left out, and refused addresses, to the authors of rules.
    pub(super) notices: Notices,
    /// The latest new addresses.
    pub(super) recent: NewAddresses,
    /// The peers by their numbers, for facts.
    pub(super) peers: PeerIds,
    /// Answers that wait until the statuses have their addresses.
    pub(super) held: Vec<HeldAnswer>,
}

impl Publisher {
    /// An empty state of a standby.
    pub fn new(config: Config) -> Self {
        let sources = config.objects.sources.iter().map(|it| it.source);
        Self {
            names: Names::new(config.limits, config.namespace_caps),
            by_name: foldhash::HashMap::default(),
            rules: RuleUses::new(sources),
            objects: Objects::new(config.objects),
            dirty: WorkQueue::default(),
            evictions: EvictionLog::default(),
            guards: config.guards,
            index: NameIndex::default(),
            is_index_changed: false,
            remembered: config.shared.remembered,
            namespaces: config.shared.namespaces,
            notices: config.shared.notices,
            recent: config.shared.new_addresses,
            peers: config.shared.peers,
            held: Vec::new(),
        }
    }

    /// Sets whether this collector leads. A new leader looks every name up before it removes any of its addresses.
    pub fn set_leads(&mut self, leads: bool, now: Timestamp) {
        if leads == self.names.leads() {
            return;
        }
        info!(leader = leads, "leadership");
        self.names.set_leads(leads);
        // Dropping the answers releases them.
        self.held.clear();
        if leads {
            for (name, of_name) in &self.by_name {
                for object in &of_name.objects {
                    let admit = |ip| self.guards.admit(ip);
                    self.names.take_over(name, &object.status, admit, now);
                }
            }
        }
        self.on_clock_jump(now);
    }

    /// Sets which DNS servers stream here.
    pub fn set_coverage(&mut self, coverage: StreamCoverage, now: Timestamp) {
        self.names.set_server_missing(coverage.is_missing, now);
    }

    /// Nothing could be resolved for a while, or the wall clock was set: earlier look-ups do not count, and delayed work
    /// is done now.
    pub fn on_clock_jump(&mut self, now: Timestamp) {
        self.objects.paused_until = None;
        for of_name in self.by_name.values_mut() {
            of_name.on_clock_jump(now);
        }
        self.names.on_clock_jump(now);
    }

    /// The program ends: writes that only wait for their bytes go at once.
    pub fn end(&mut self) {
        self.objects.is_ending = true;
        let unwritten = self.by_name.iter();
        let unwritten = unwritten.filter(|(_, it)| it.unwritten_since.is_some());
        self.dirty.extend(unwritten.map(|(name, _)| name).cloned());
    }

    /// Applies changes of the names in rules.
    pub fn apply_rules(&mut self, changes: RuleChanges, now: Timestamp) {
        let Self {
            rules,
            names,
            by_name,
            dirty,
            ..
        } = self;
        rules.apply(changes, names, by_name, dirty, now);
    }

    /// Refuses the addresses of the cluster's own networks from now on. Known addresses that are refused now leave the
    /// statuses with the next writes.
    pub fn set_networks(&mut self, networks: Arc<Networks>) {
        for purpose in Purpose::ALL {
            let count = if self.guards.refuses(purpose) {
                networks.count(purpose)
            } else {
                0
            };
            gauge!("egress_collector_guarded_networks", "purpose" => purpose.as_str())
                .set(count as f64);
        }
        self.guards = self.guards.with(networks);
        let purged = self.names.purge(|ip| self.guards.admit(ip));
        for (name, ip, reason) in purged.iter().take(MAX_NAMED) {
            warn!(%name, %ip, reason, "removing a known address: the collector refuses it from now on, and rules with this name no longer apply to it");
        }
        if purged.len() > MAX_NAMED {
            warn!(
                addresses = purged.len() - MAX_NAMED,
                "removing further known addresses that the collector refuses from now on"
            );
        }
        for (.., reason) in purged {
            count_refused(reason);
        }
    }

    /// Applies an answer to the name itself and to the wildcard above it.
    pub fn apply_answer(&mut self, answer: &Observation) {
        let is_as_admitted = |(ip, _): &(_, u32)| self.guards.admit(*ip) == Ok(*ip);
        let added = if answer.addresses.iter().all(is_as_admitted) {
            self.names.apply_answer(answer)
        } else {
            let mut answer = answer.clone();
            let refused = answer.refuse(|ip| self.guards.admit(ip));
            self.report_refused(&answer.name, &refused);
            self.names.apply_answer(&answer)
        };
        self.record(added);
    }

    /// Counts refused addresses, and reports them once to the authors of the rules.
    fn report_refused(&mut self, name: &DnsName, refused: &[(IpAddr, &'static str)]) {
        for (_, reason) in refused {
            count_refused(reason);
        }
        if let Some((_, reason)) = refused.last() {
            counter!("egress_collector_rebinding_attempts_total").increment(1);
            self.names.note_refused(name, reason);
            self.notices.notify(Notice::Refused(name.clone(), reason));
        }
    }

    fn record(&self, added: Vec<Added>) {
        for added in added {
            if let Some(entry) = self.names.get(&added.rule_name) {
                self.recent.answered(added, entry, &self.namespaces);
            }
        }
    }

    /// Applies a look-up of a name in both families.
    pub fn apply_lookup(&mut self, mut result: LookupResult, now: Timestamp) {
        let refused = result.refuse(|ip| self.guards.admit(ip));
        self.report_refused(&result.name, &refused);
        let added = self.names.apply_lookup(&result, now);
        self.record(added);
    }

    /// Answers were lost. A leader looks the names up. A standby looks every name up when it begins to lead.
    pub fn on_stream_gap(&mut self, lost: Backfill, now: Timestamp) {
        self.names.on_stream_gap(lost.anything, lost.names, now);
    }

    /// Gives names that became wanted the addresses that pods use already: those of other names in use, and cached
    /// answers. A reader that still has the old index may cache one answer more; the next query of a client brings it.
    pub fn recall(&mut self, now: Timestamp) {
        self.apply_changes();
        let new = mem::take(&mut self.dirty.awaiting_answers);
        self.names.share(&new, now);
        for name in &new {
            let min_ttl = self.names.limits().min_ttl;
            let recalled = self.remembered.recall(name, now, min_ttl);
            counter!("egress_collector_answers_recalled_total").increment(recalled.len() as u64);
            for answer in &recalled {
                self.apply_answer(answer);
            }
        }
        self.apply_changes();
    }

    /// Removes expired addresses, and looks names up again after a gap.
    pub fn advance(&mut self, now: Timestamp) {
        self.names.advance(self.are_all_known(), now);
        self.apply_changes();
    }

    /// Whether the names in rules and the objects are known, as far as they can be read.
    fn are_all_known(&self) -> bool {
        self.rules.are_known() && self.objects.are_known()
    }

    /// When [`Publisher::advance`] or [`Publisher::next_due`] has something to do.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let all = [
            self.objects.paused_until,
            self.names.next_wake(self.are_all_known()),
        ];
        all.into_iter().flatten().min()
    }

    /// The next name to look up, if one is due.
    pub fn next_due(&mut self, now: Timestamp) -> Option<Request> {
        self.names.next_due(now)
    }

    /// The names in use and those of all objects, for the readers, if they changed since the last call.
    pub fn take_index(&mut self) -> Option<NameIndex> {
        self.apply_changes();
        mem::take(&mut self.is_index_changed).then(|| self.index.clone())
    }

    /// Takes over what changed in the table of names.
    pub(super) fn apply_changes(&mut self) {
        let Changes {
            dirty,
            indexed,
            new,
            evicted,
            at_cap,
            counts,
        } = self.names.take_changes();
        for (name, since) in dirty {
            if let Some(since) = since {
                let of_name = self.by_name.entry(name.clone()).or_default();
                of_name.unwritten_since.get_or_insert(since);
            }
            self.dirty.insert(name);
        }
        for (name, is_added) in indexed {
            self.is_index_changed = true;
            if is_added {
                self.index.insert(&name)
            } else {
                self.index.remove(&name)
            }
        }
        self.dirty.awaiting_answers.extend(new);
        self.evictions.unreported.extend(evicted);
        for namespace in at_cap {
            self.notices.notify(Notice::AtCap(namespace));
        }
        count(&counts);
    }

    /// Reports evictions.
    pub fn report_evictions(&mut self, reporter: &Reporter) {
        self.apply_changes();
        let Self {
            evictions,
            names,
            by_name,
            objects,
            notices,
            ..
        } = self;
        evictions.report(names, by_name, objects.policy(), notices, reporter);
    }

    /// Whether no write waits or is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.objects.in_flight.is_empty()
    }

    /// The number of names whose write failed and is put off.
    pub(crate) fn unwritten(&self) -> usize {
        let by_name = self.by_name.values();
        by_name.filter(|of_name| of_name.failures > 0).count()
    }

    /// Sets the gauges.
    pub fn report(&self) {
        report(self);
    }
}

#[cfg(test)]
pub(crate) mod tests;
