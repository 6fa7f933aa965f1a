//! Looks up all wanted names again after events may have been lost.

use std::time::Duration;

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;
use tracing::info;

use super::schedule::LookupScheduler;

/// The look-ups of all names are spread over this time.
const OVER: Duration = Duration::from_secs(10);

/// The most backfills in a row, for streams that break again and again.
const ROUNDS: u32 = 5;

/// The interval of backfills after that.
const INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct GapBackfill {
    /// Events may have been lost, and the backfill has not begun.
    pub(crate) is_owed: bool,
    /// The end of the last backfill.
    over: Timestamp,
    /// When [`ROUNDS`] backfills in a row are allowed again.
    rested: Timestamp,
}

impl GapBackfill {
    /// When the next backfill may begin, if one is due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let allowed = self.rested.before(INTERVAL * (ROUNDS - 1));
        self.is_owed.then(|| self.over.max(allowed))
    }

    /// Schedules look-ups of all wanted names. The names seen last come first: pods use them now.
    pub(crate) fn begin<'a>(
        &mut self,
        wanted: impl Iterator<Item = (Timestamp, &'a DnsName)>,
        lookups: &mut LookupScheduler,
        now: Timestamp,
    ) {
        self.is_owed = false;
        self.over = now + OVER;
        self.rested = self.rested.max(now) + INTERVAL;
        if !lookups.is_active {
            return;
        }
        let mut names: Vec<(Timestamp, &DnsName)> = wanted.collect();
        names.sort_unstable_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)));
        names.dedup_by_key(|(_, name)| *name);
        names.sort_by_key(|(seen, _)| std::cmp::Reverse(*seen));
        info!(
            names = names.len(),
            "dnstap events may have been lost: looking up again all names in rules, and the known names under wildcards"
        );
        counter!("egress_collector_lookups_repeated_total", "reason" => "gap")
            .increment(names.len() as u64);
        let all = u32::try_from(names.len()).unwrap_or(u32::MAX);
        for ((_, name), place) in names.into_iter().zip(0_u32..) {
            lookups.ask_after_gap(name, now + OVER * place / all);
        }
    }

    /// The clock was set, or the lead changed: look-ups that were still scheduled are dropped, and
    /// the backfill is due again.
    pub(crate) fn gap(&mut self, now: Timestamp, was_asking: bool) {
        self.is_owed |= was_asking;
        self.over = self.over.min(now);
        self.rested = self.rested.min(now);
    }
}
