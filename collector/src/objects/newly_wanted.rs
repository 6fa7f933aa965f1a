//! Names that have just become wanted: their addresses may be known from other names in use, or
//! from the cache of answers.

use std::collections::BTreeSet;

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::Shared;
use crate::{observation::Observation, state::Limits};

/// Names that became wanted lately.
#[derive(Debug, Default)]
pub(crate) struct NewlyWanted {
    /// Names whose addresses are still to be copied from other names in use.
    to_share: BTreeSet<DnsName>,
    /// Names whose cached answers are still to be applied.
    to_recall: BTreeSet<DnsName>,
    /// Cached answers of one name that are still to be observed.
    recalled: Vec<Observation>,
}

impl NewlyWanted {
    pub(crate) fn insert(&mut self, name: &DnsName) {
        self.to_share.insert(name.clone());
        self.to_recall.insert(name.clone());
    }

    pub(crate) fn take_to_share(&mut self) -> BTreeSet<DnsName> {
        std::mem::take(&mut self.to_share)
    }

    /// Whether there are cached answers to apply.
    pub(crate) fn recalls(&self) -> bool {
        !self.recalled.is_empty() || !self.to_recall.is_empty()
    }

    /// The next cached answer. `None`: the current name has no more; [`NewlyWanted::recalls`] tells
    /// whether there are further names.
    pub(crate) fn recall(
        &mut self,
        shared: &Shared,
        limits: &Limits,
        now: Timestamp,
    ) -> Option<Observation> {
        if let Some(observation) = self.recalled.pop() {
            return Some(observation);
        }
        if let Some(name) = self.to_recall.pop_first() {
            let recalled = shared.remembered.recall(&name, now, limits.min_ttl);
            counter!("egress_collector_answers_recalled_total").increment(recalled.len() as u64);
            self.recalled = recalled;
        }
        None
    }
}
