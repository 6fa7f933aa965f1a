//! Looks up all wanted names again after events may have been lost.

use std::{collections::HashSet, time::Duration};

use proto::api::DnsName;
use proto::timestamp::Timestamp;

use super::schedule::{LookupScheduler, spread};

/// The look-ups of all names are spread over this time.
const OVER: Duration = Duration::from_secs(10);

/// All names are looked up again at most once in this time.
const INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct GapBackfill {
    /// Events may have been lost, and the backfill has not begun.
    pub is_owed: bool,
    not_before: Timestamp,
}

impl GapBackfill {
    /// When the next backfill may begin, if one is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.is_owed.then_some(self.not_before)
    }

    /// Schedules look-ups of all wanted names, and returns their number.
    pub fn begin<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a DnsName>,
        lookups: &mut LookupScheduler,
        now: Timestamp,
    ) -> usize {
        self.is_owed = false;
        self.not_before = now + INTERVAL;
        if !lookups.is_active {
            return 0;
        }
        let names: HashSet<&DnsName> = wanted.collect();
        let count = names.len();
        for name in names {
            lookups.ask(name, now + spread(name, now, OVER));
        }
        count
    }

    /// The clock was set, or the lead changed: no wait remains. Look-ups that a recent backfill
    /// scheduled were dropped, so it begins again.
    pub fn reset(&mut self, now: Timestamp) {
        self.is_owed |= self.not_before > now;
        self.not_before = now;
    }
}
