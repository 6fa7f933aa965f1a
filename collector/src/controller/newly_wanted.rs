//! Names that are wanted from now on: what is known of them already, from other names in use or from before anybody
//! wanted them.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::StatusController;
use crate::{observation::Observation, observe::answer_cache::Answer, state::NameState};

impl StatusController {
    /// Gives newcomers what names in use know of the same names: a wildcard what the regular names under it know, a regular name
    /// what its wildcard knows. So neither begins without the addresses that pods are using, and none is forgotten with the name
    /// that it was learned for. One pass for all of them.
    pub(super) fn share(&mut self, now: Timestamp) {
        let newly_wanted = std::mem::take(&mut self.newly_wanted.to_share);
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
            let Some(copy) = known.and_then(|memory| memory.copy(&name)) else {
                continue;
            };
            let Some(entry) = self.entries.get_mut(&to).filter(|it| !it.left_out) else {
                continue;
            };
            let (memory, _, crowd) = entry.parts(&self.config.shared.clients);
            let learned = memory.adopt(copy, crowd);
            self.learned(&to, learned, now);
            self.reschedule(&name);
        }
    }

    /// Nobody wants these names any more. A rule that comes back finds what pods were told of them, as long as it lives.
    pub(super) fn remember(&self, memory: &NameState, now: Timestamp) {
        for (name, family, addresses, client) in memory.alive(now) {
            self.config.shared.remembered.keep(&Answer {
                name: &name.into(),
                family,
                addresses: &addresses,
                at: now,
                client,
            });
        }
    }

    /// Gives new names the remembered answers of pods, for `slice` of the controller's time. The caller waits until every reader uses
    /// an index with the names: from then on no reader remembers an answer for them.
    pub fn recall(&mut self, now: Timestamp, slice: Duration) {
        let began = Instant::now();
        while self.recalls() {
            if let Some(observation) = self.newly_wanted.recalled.pop() {
                self.observe(&observation);
            } else if let Some(name) = self.newly_wanted.to_recall.pop_first() {
                let (remembered, limits) = (&self.config.shared.remembered, &self.config.limits);
                let recalled = remembered.recall(&name, now, limits.min_ttl);
                counter!("collector_answers_recalled_total").increment(recalled.len() as u64);
                self.newly_wanted.recalled = recalled;
            }
            if began.elapsed() >= slice {
                return;
            }
        }
    }

    /// Whether there is something to recall.
    pub fn recalls(&self) -> bool {
        !self.newly_wanted.recalled.is_empty() || !self.newly_wanted.to_recall.is_empty()
    }
}

/// Names that are wanted since a while.
#[derive(Debug, Default)]
pub(super) struct NewlyWanted {
    /// What names in use know of these is still to be looked for.
    to_share: BTreeSet<DnsName>,
    /// And what is remembered of these.
    to_recall: BTreeSet<DnsName>,
    /// What was remembered of one, and is still to be observed.
    recalled: Vec<Observation>,
}

impl NewlyWanted {
    pub(super) fn insert(&mut self, name: &DnsName) {
        self.to_share.insert(name.clone());
        self.to_recall.insert(name.clone());
    }
}
