//! Applies answers, guards and time to the table of names.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use metrics::{counter, gauge};
use proto::api::DnsName;
use runtime::{
    clock::Timestamp,
    cluster_cidrs::{Networks, Purpose},
};
use tracing::{debug, warn};

use super::NameTable;
use crate::{
    guards::Guards,
    observation::Observation,
    state::{Eviction, UpdateEffect},
};

/// The most addresses named in the log after a change of the guards.
const MAX_NAMED: usize = 20;

impl NameTable {
    /// Applies an answer to the name `spec`, of rules or objects.
    pub(crate) fn observe(&mut self, spec: &DnsName, observation: &Observation, leads: bool) {
        let Some(entry) = self.entries.get_mut(spec).filter(|it| !it.left_out) else {
            return;
        };
        let recent = &self.shared.new_addresses;
        recent.answered(entry, observation, &self.shared.namespaces);
        let (memory, limits) = (&mut entry.memory, &entry.in_use.limits);
        let learned = memory.observe(observation, limits);
        let is_crowded = memory.size().is_crowded(memory.list(), limits);
        if learned.urgent && leads {
            entry.writes.unwritten_since.get_or_insert(observation.at);
        }
        self.learned(spec, &learned, observation.at);
        if is_crowded {
            self.enforce(spec, observation.at);
        }
    }

    /// Called after an answer was applied to every name that it is for.
    pub(crate) fn observed(&mut self, observation: &Observation) {
        if observation.client.is_some() {
            self.lookups.reset_backoff(&observation.name);
        }
        self.reschedule(&observation.name);
        // For a look-up of the collector only the datagram was truncated: TCP brought the rest.
        if observation.truncated && observation.client.is_some() {
            self.ask_over_tcp(&observation.name, observation.at);
        }
    }

    /// Handles the effect of an update of a name.
    pub(in crate::objects) fn learned(
        &mut self,
        spec: &DnsName,
        learned: &UpdateEffect,
        now: Timestamp,
    ) {
        if self.lookups.is_active {
            for name in &learned.from_others {
                self.lookups.ask(name, now);
                self.lookups.use_tcp(name);
            }
        }
        if learned.evicted_addresses + learned.evicted_names > 0 {
            let entry = self.entries.get_mut(spec);
            self.evictions.count(entry.map(|it| &mut **it), learned);
        }
        for name in &learned.gone {
            let is_in_use = self.entries.get(name).is_some_and(|it| !it.left_out);
            if name != spec && !is_in_use {
                self.lookups.discard(name);
            }
            self.reschedule(name);
        }
        if learned.urgent || learned.times {
            self.dirty.insert(spec.clone());
        }
    }

    /// Enforces the limits of a name.
    pub(in crate::objects) fn enforce(&mut self, spec: &DnsName, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(spec) else {
            return;
        };
        let (memory, limits) = (&mut entry.memory, &entry.in_use.limits);
        let learned = Eviction::new(memory, limits, now).enforce();
        self.learned(spec, &learned, now);
    }

    /// Handles the names whose time has come. If this collector `removes`, expired addresses go.
    pub(crate) fn expire(&mut self, removes: bool, now: Timestamp) {
        while let Some(spec) = self.wakes.pop(now) {
            let Some(entry) = self.entries.get_mut(&spec) else {
                continue;
            };
            entry.writes.wake = None;
            if removes {
                let expired = entry.memory.expire(now, &entry.in_use.limits);
                counter!("egress_collector_addresses_expired_total")
                    .increment(expired.len() as u64);
                let limited = entry.memory.limit_retained(now, &entry.in_use.limits);
                counter!("egress_collector_retained_addresses_dropped_total")
                    .increment(limited.len() as u64);
                for (name, ip) in expired.into_iter().chain(limited) {
                    debug!(%name, %ip, "expired");
                    self.reschedule(&name);
                }
            }
            self.dirty.insert(spec);
        }
    }

    /// Copies addresses between new names and names in use. A wildcard gets those of the regular
    /// names under it, and a regular name those of its wildcard. So neither begins without the
    /// addresses that pods use. An address survives the name through which it came. One pass
    /// handles all new names.
    pub(crate) fn share(&mut self, newly_wanted: &BTreeSet<DnsName>, now: Timestamp) {
        if newly_wanted.is_empty() {
            return;
        }
        let mut shared: Vec<(DnsName, DnsName, DnsName)> = Vec::new();
        let regular = newly_wanted.iter().filter(|name| !name.is_wildcard());
        shared.extend(
            regular.filter_map(|name| Some((name.wildcard()?, name.clone(), name.clone()))),
        );
        if newly_wanted.iter().any(DnsName::is_wildcard) {
            for name in self.entries.keys().filter(|name| !name.is_wildcard()) {
                if let Some(wildcard) = name.wildcard().filter(|it| newly_wanted.contains(it)) {
                    shared.push((name.clone(), wildcard, name.clone()));
                }
            }
        }
        for (from, to, name) in shared {
            let known = self.entries.get(&from).map(|entry| &entry.memory);
            let Some(copy) = known.and_then(|memory| memory.list().copy(&name)) else {
                continue;
            };
            let Some(entry) = self.entries.get_mut(&to).filter(|it| !it.left_out) else {
                continue;
            };
            let learned = entry.memory.adopt(copy);
            self.learned(&to, &learned, now);
            self.reschedule(&name);
        }
    }

    /// Refuses the addresses of the cluster's own networks from now on, and returns the guards that
    /// do so. Known addresses that are refused now are removed, and leave the status with the next
    /// write.
    pub(crate) fn guard(&mut self, networks: Arc<Networks>) -> Guards {
        for purpose in Purpose::ALL {
            let is_refused = self.guards.refuses(purpose);
            let count = if is_refused {
                networks.count(purpose)
            } else {
                0
            };
            gauge!("egress_collector_guarded_networks", "purpose" => purpose.as_str())
                .set(count as f64);
        }
        self.guards = self.guards.with(networks);
        let mut purged: BTreeMap<&str, u64> = BTreeMap::new();
        let mut changed: Vec<DnsName> = Vec::new();
        let mut count = 0;
        for (spec, entry) in &mut self.entries {
            for (name, ip, reason) in entry.memory.purge(&self.guards) {
                *purged.entry(reason).or_default() += 1;
                count += 1;
                if count <= MAX_NAMED {
                    warn!(%name, %ip, reason, "removing a known address: the collector refuses it from now on, and rules with this name no longer apply to it");
                }
                if changed.last() != Some(&name) {
                    changed.push(name);
                }
                self.dirty.insert(spec.clone());
            }
        }
        if count > MAX_NAMED {
            warn!(
                addresses = count - MAX_NAMED,
                "removing further known addresses that the collector refuses from now on"
            );
        }
        for (reason, count) in purged {
            counter!("egress_collector_addresses_purged_total", "reason" => reason)
                .increment(count);
        }
        for name in changed {
            self.reschedule(&name);
        }
        self.guards.clone()
    }
}

/// The observation without addresses that only older guards admitted; `None` if no address is left.
pub(crate) fn guarded(observation: &Observation, guards: &Guards) -> Option<Observation> {
    let addresses = &observation.addresses;
    if addresses.iter().all(|(ip, _)| guards.admit(*ip).is_ok()) {
        return None;
    }
    let mut left = observation.clone();
    left.addresses.retain(|(ip, _)| match guards.admit(*ip) {
        Ok(_) => true,
        Err(reason) => {
            counter!("egress_collector_addresses_purged_total", "reason" => reason).increment(1);
            false
        }
    });
    Some(left)
}
