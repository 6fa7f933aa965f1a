//! What answers bring.

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{StatusController, entry::Unwritten};
use crate::observation::Observation;

impl StatusController {
    /// Takes in an answer: for the name itself, and for the wildcard above it.
    pub fn observe(&mut self, observation: &Observation) {
        let left = self.guarded(observation);
        let observation = left.as_ref().unwrap_or(observation);
        if observation.addresses.is_empty() {
            return;
        }
        let wildcard = observation.name.wildcard();
        for spec in std::iter::once(&observation.name).chain(wildcard.as_ref()) {
            let Some(entry) = self.entries.get_mut(spec).filter(|it| !it.left_out) else {
                continue;
            };
            let clients = &self.config.shared.clients;
            if self.shares.refuse(entry, observation, clients) {
                continue;
            }
            let (memory, limits, crowd) = entry.parts(clients);
            let learned = memory.observe(observation, limits, crowd);
            let is_crowded = memory.is_crowded(limits);
            if learned.urgent && self.leader {
                let askers = match spec.is_wildcard() {
                    true => memory.askers_of(&observation.name),
                    false => &[],
                };
                let (by, is_without_rule) =
                    (crowd.namespaces(askers), crowd.are_without_rule(askers));
                let new = || Box::new(Unwritten::since(observation.at));
                let unwritten = entry.unwritten.get_or_insert_with(new);
                unwritten.add(&by);
                unwritten.is_without_rule &= is_without_rule;
            }
            self.learned(spec, learned, observation.at);
            if is_crowded {
                self.enforce(spec, observation.at);
            }
            if !self.leader {
                self.compare_with_status(spec, observation);
            }
        }
        if observation.client.is_some() {
            self.schedule.answered(&observation.name);
        }
        self.reschedule(&observation.name);
        // Of our own look-ups only the datagram is cut off: TCP has brought the rest.
        if observation.truncated && observation.client.is_some() && self.looks_up() {
            self.schedule.hurry(&observation.name, observation.at);
            self.schedule.use_tcp(&observation.name);
        }
    }

    /// Brings what is known of a name into its limits.
    pub(super) fn enforce(&mut self, spec: &DnsName, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(spec) else {
            return;
        };
        let (memory, limits, crowd) = entry.parts(&self.config.shared.clients);
        let learned = memory.enforce(limits, now, crowd);
        self.learned(spec, learned, now);
    }
}
