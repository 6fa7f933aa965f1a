//! Names that are wanted from now on: what is known of them already, from other names in use or from before anybody
//! wanted them.

use std::collections::BTreeSet;

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::Shared;
use crate::{observation::Observation, state::Limits};

/// Names that are wanted since a while.
#[derive(Debug, Default)]
pub(crate) struct NewlyWanted {
    /// What names in use know of these is still to be looked for.
    to_share: BTreeSet<DnsName>,
    /// And what is remembered of these.
    to_recall: BTreeSet<DnsName>,
    /// What was remembered of one, and is still to be observed.
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

    /// Whether there is something to recall.
    pub(crate) fn recalls(&self) -> bool {
        !self.recalled.is_empty() || !self.to_recall.is_empty()
    }

    /// The next remembered answer. `None`: of the name that was looked at there is no other; [`NewlyWanted::recalls`] tells whether there are
    /// further names.
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
            counter!("collector_answers_recalled_total").increment(recalled.len() as u64);
            self.recalled = recalled;
        }
        None
    }
}
