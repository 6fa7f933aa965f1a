//! What a watch says of files that it cannot use: to its consumer, in the log, and in the metrics.

use std::collections::BTreeSet;

use tracing::warn;

use super::{
    super::super::{Kind, ObjectKey, metrics},
    State, Watch,
};

/// How many bad files one look names in the log.
const MAX_WARNINGS: usize = 20;

impl<K: Kind> Watch<K> {
    /// Says which objects are missing from what is delivered.
    pub(super) fn report_undecodable(&mut self) {
        let is_unknown = |key: &&ObjectKey| self.files.get(*key).is_none_or(|k| k.object.is_none());
        let now: BTreeSet<_> = self.faults.keys().filter(is_unknown).cloned().collect();
        self.undecodable.around(&mut self.events, now);
    }

    pub(super) fn complain(&mut self, complaint: &str) {
        self.complaints += 1;
        if self.complaints <= MAX_WARNINGS {
            warn!("cannot read {complaint}");
        }
    }

    pub(super) fn report(&mut self) {
        let bad = self.faults.len() + self.misnamed.len();
        metrics::bad_objects::<K>(bad, self.complaints);
        if self.complaints > MAX_WARNINGS {
            warn!("and {} more", self.complaints - MAX_WARNINGS);
        }
        self.complaints = 0;
        metrics::in_sync::<K>(self.state == State::InSync);
    }
}
