//! Guards that come while the program runs: what they refuse goes.

use std::{collections::BTreeMap, sync::Arc};

use metrics::{counter, gauge};
use proto::api::DnsName;
use runtime::{
    clock::Timestamp,
    cluster_cidrs::{Networks, Purpose},
};
use tracing::warn;

use super::StatusController;
use crate::{
    event_history::{EventKind, HistoryEntry},
    guards::Guards,
    observation::{Observation, Provenance},
};

/// How many addresses are named in the log when a guard comes.
const MAX_NAMED: usize = 20;

impl StatusController {
    /// Refuses the addresses of the cluster's own networks from now on, and gives the guards that do so. What is known
    /// and refused now is forgotten, and leaves the status with the next write.
    pub fn guard(&mut self, networks: Arc<Networks>, now: Timestamp) -> Guards {
        for purpose in Purpose::ALL {
            let is_refused = self.config.guards.refuses(purpose);
            let count = if is_refused {
                networks.count(purpose)
            } else {
                0
            };
            gauge!("collector_guarded_networks", "purpose" => purpose.as_str()).set(count as f64);
        }
        self.config.guards = self.config.guards.with(networks);
        let mut purged: BTreeMap<&str, u64> = BTreeMap::new();
        let mut changed: Vec<DnsName> = Vec::new();
        let mut count = 0;
        for (spec, entry) in &mut self.entries {
            for (name, ip, reason) in entry.memory.purge(&self.config.guards) {
                *purged.entry(reason).or_default() += 1;
                count += 1;
                if count <= MAX_NAMED {
                    warn!(%name, %ip, reason, "an address that was known is refused by now, and goes");
                }
                if changed.last() != Some(&name) {
                    changed.push(name.clone());
                }
                self.config.shared.recent.note(HistoryEntry {
                    name,
                    address: Some(ip),
                    what: EventKind::Refused(reason),
                    source: Provenance::STATUS,
                    at: now,
                });
                self.dirty.insert(spec.clone());
            }
        }
        if count > MAX_NAMED {
            warn!(
                addresses = count - MAX_NAMED,
                "further addresses that are refused by now are counted, not named"
            );
        }
        for (reason, count) in purged {
            counter!("collector_addresses_purged_total", "reason" => reason).increment(count);
        }
        for name in changed {
            self.reschedule(&name);
        }
        self.config.guards.clone()
    }

    /// What is left of an observation that has addresses which older guards let pass; nothing if it has none.
    pub(super) fn guarded(&self, observation: &Observation) -> Option<Observation> {
        let guards = &self.config.guards;
        let addresses = &observation.addresses;
        if addresses.iter().all(|(ip, _)| guards.admit(*ip).is_ok()) {
            return None;
        }
        let mut left = observation.clone();
        left.addresses.retain(|(ip, _)| match guards.admit(*ip) {
            Ok(_) => true,
            Err(reason) => {
                counter!("collector_addresses_purged_total", "reason" => reason).increment(1);
                let what = EventKind::Refused(reason);
                let (name, at) = (observation.name.clone(), observation.at);
                self.note(name, Some(*ip), what, observation.source, at);
                false
            }
        });
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        controller::{
            ManageObjects,
            tests::{World, answer, at, name},
        },
        observe::answer_cache::Answer,
    };

    const WWW: &str = "www.example.com";

    fn services(net: &str) -> Arc<Networks> {
        Arc::new(Networks::new([(Purpose::Services, net.parse().unwrap())]))
    }

    #[test]
    fn what_a_new_guard_refuses_leaves_memory_and_status_at_once() {
        let mut world = World::new(ManageObjects::Auto);
        world.want(&[WWW, "*.example.net"]);
        world.settle();
        for (asked, ip) in [
            (WWW, "10.96.0.7"),
            (WWW, "203.0.113.1"),
            ("a.example.net", "10.96.0.8"),
        ] {
            world.observe(asked, ip);
        }
        world.settle();
        assert_eq!(
            world.addresses(),
            [
                "*.example.net. 10.96.0.8",
                "www.example.com. 10.96.0.7 203.0.113.1"
            ]
        );
        world.now += 1000;
        world.owner.guard(services("10.96.0.0/16"), at(world.now));
        assert_eq!(world.settle(), 2);
        let left = ["*.example.net.", "www.example.com. 203.0.113.1"];
        assert_eq!(world.addresses(), left);
        // Nor does it come back: from a queue, a look-up, or another replica's status.
        world.now += 1000;
        world.observe(WWW, "10.96.0.7");
        assert_eq!(world.settle(), 0);
        assert_eq!(world.addresses(), left);
        world.owner.guard(Arc::default(), at(world.now));
        world.observe(WWW, "10.96.0.7");
        world.settle();
        assert_eq!(
            world.addresses(),
            ["*.example.net.", "www.example.com. 203.0.113.1 10.96.0.7"]
        );
    }

    #[test]
    fn a_name_that_loses_all_its_addresses_is_looked_up_again() {
        let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
        world.want(&[WWW]);
        world.observe(WWW, "10.96.0.7");
        world.settle();
        assert_eq!(world.owner.next_request(at(world.now)), None);
        world.owner.guard(services("10.96.0.0/16"), at(world.now));
        let next = world.owner.next_request(at(world.now));
        assert_eq!(next.map(|next| next.name), Some(name(WWW)));
    }

    #[test]
    fn what_was_remembered_before_a_guard_came_is_held_against_it() {
        let mut world = World::new(ManageObjects::Auto);
        let observed = answer(WWW, "10.96.0.7", 0);
        world.remembered.keep(&Answer {
            name: &(&observed.name).into(),
            family: observed.family,
            addresses: &observed.addresses,
            at: observed.at,
            client: None,
        });
        world.owner.guard(services("10.96.0.0/16"), at(world.now));
        world.want(&[WWW]);
        world.settle();
        assert_eq!(world.addresses(), ["www.example.com."]);
    }

    #[test]
    fn networks_that_refuse_nothing_cause_no_write() {
        let mut world = World::new(ManageObjects::Auto);
        world.want(&[WWW]);
        world.observe(WWW, "203.0.113.1");
        world.settle();
        world.now += Duration::from_secs(1).as_millis() as i64;
        world.owner.guard(services("10.96.0.0/16"), at(world.now));
        assert_eq!(world.settle(), 0);
    }
}
