//! Names that are wanted from now on: what is known of them already, from other names in use or from before anybody
//! wanted them.

use std::collections::BTreeSet;

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::Owner;
use crate::state::Memory;

impl Owner {
    /// Gives newcomers what pods were told of them before anybody wanted them, and what names in use know of the same names:
    /// a wildcard what the regular names under it know, a regular name what its wildcard knows. So neither begins without
    /// the addresses that pods are using, and none is forgotten with the name that it was learned for. One pass for all of
    /// them.
    pub(super) fn share(&mut self, now: Timestamp) {
        let newcomers = std::mem::take(&mut self.newcomers);
        if newcomers.is_empty() {
            return;
        }
        self.recall(&newcomers, now);
        let mut shared: Vec<(DnsName, DnsName, DnsName)> = Vec::new();
        let regular = newcomers.iter().filter(|name| !name.is_wildcard());
        shared.extend(
            regular.filter_map(|name| Some((name.wildcard()?, name.clone(), name.clone()))),
        );
        if newcomers.iter().any(DnsName::is_wildcard) {
            for name in self.entries.keys().filter(|name| !name.is_wildcard()) {
                if let Some(wildcard) = name.wildcard().filter(|it| newcomers.contains(it)) {
                    shared.push((name.clone(), wildcard, name.clone()));
                }
            }
        }
        for (from, to, name) in shared {
            let known = self.entries.get(&from).map(|entry| &entry.memory);
            let Some(copy) = known.and_then(|memory| memory.copy(&name)) else {
                continue;
            };
            let Some(entry) = self.entries.get_mut(&to) else {
                continue;
            };
            let learned = entry.memory.adopt(copy, now, &entry.limits);
            self.learned(&to, learned, now);
            self.reschedule(&name);
        }
    }

    /// Nobody wants these names any more. A rule that comes back finds what pods were told of them, as long as it lives.
    pub(super) fn remember(&self, memory: &Memory, now: Timestamp) {
        for (name, family, addresses, client) in memory.alive(now) {
            let remembered = &self.config.remembered;
            remembered.keep(&name.into(), family, &addresses, now, client);
        }
    }

    fn recall(&mut self, names: &BTreeSet<DnsName>, now: Timestamp) {
        let min_ttl = self.config.limits.min_ttl;
        let remembered = self.config.remembered.recall(names, now, min_ttl);
        if !remembered.is_empty() {
            counter!("collector_answers_recalled_total").increment(remembered.len() as u64);
        }
        for observation in &remembered {
            self.observe(observation);
        }
    }
}
