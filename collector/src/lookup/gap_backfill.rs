//! Asking again for what was missed.

use std::time::Duration;

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;
use tracing::info;

use super::schedule::LookupScheduler;

/// Every wanted name is asked for again over so long.
const OVER: Duration = Duration::from_secs(10);

/// Streams that break again and again cause this many rounds one after the other ...
const ROUNDS: u32 = 5;

/// ... and then one in so long.
const INTERVAL: Duration = Duration::from_secs(60);

/// When all wanted names are asked for again.
#[derive(Debug, Default)]
pub(crate) struct GapBackfill {
    /// Anything may have been missed, and is still to be asked for.
    is_owed: bool,
    /// When the last round is over.
    over: Timestamp,
    /// When as many rounds as there can be may follow each other again.
    rested: Timestamp,
}

impl GapBackfill {
    /// Anything may have been missed.
    pub(crate) fn owe(&mut self) {
        self.is_owed = true;
    }

    /// When the next round may begin, if there is one to be.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let allowed = self.rested.before(INTERVAL * (ROUNDS - 1));
        self.is_owed.then(|| self.over.max(allowed))
    }

    /// Begins to ask for every wanted name again: for the one that was seen last first, as pods use it now.
    pub(crate) fn begin<'a>(
        &mut self,
        wanted: impl Iterator<Item = (Timestamp, &'a DnsName)>,
        lookups: &mut LookupScheduler,
        now: Timestamp,
    ) {
        self.is_owed = false;
        self.over = now + OVER;
        self.rested = self.rested.max(now) + INTERVAL;
        if !lookups.is_active() {
            return;
        }
        let mut names: Vec<(Timestamp, &DnsName)> = wanted.collect();
        names.sort_unstable_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)));
        names.dedup_by_key(|(_, name)| *name);
        names.sort_by_key(|(seen, _)| std::cmp::Reverse(*seen));
        info!(
            names = names.len(),
            "events may have been missed: asking again"
        );
        counter!("collector_lookups_repeated_total", "reason" => "gap")
            .increment(names.len() as u64);
        let all = u32::try_from(names.len()).unwrap_or(u32::MAX);
        for ((_, name), place) in names.into_iter().zip(0_u32..) {
            lookups.ask(name, now + OVER * place / all);
        }
    }

    /// The clock was set, or the lead has changed. What was still to be asked for is forgotten, and owed.
    pub(crate) fn gap(&mut self, now: Timestamp, was_asking: bool) {
        self.is_owed |= was_asking;
        self.over = self.over.min(now);
        self.rested = self.rested.min(now);
    }
}
