//! Asking again for what was missed.

use std::{iter::once, time::Duration};

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Timestamp;
use tracing::info;

use super::StatusController;
use crate::observe::Backfill;

/// Every wanted name is asked for again over so long.
const OVER: Duration = Duration::from_secs(10);

/// Streams that break again and again cause this many rounds one after the other ...
const ROUNDS: u32 = 5;

/// ... and then one in so long.
const INTERVAL: Duration = Duration::from_secs(60);

/// When all wanted names are asked for again.
#[derive(Debug, Default)]
pub(super) struct GapBackfill {
    /// Anything may have been missed, and is still to be asked for.
    owed: bool,
    /// When the last round is over.
    over: Timestamp,
    /// When as many rounds as there can be may follow each other again.
    rested: Timestamp,
}

impl GapBackfill {
    /// When the next round may begin, if there is one to be.
    fn next(&self) -> Option<Timestamp> {
        let allowed = self.rested.before(INTERVAL * (ROUNDS - 1));
        self.owed.then(|| self.over.max(allowed))
    }

    fn begin(&mut self, now: Timestamp) {
        self.owed = false;
        self.over = now + OVER;
        self.rested = self.rested.max(now) + INTERVAL;
    }

    /// The clock was set, or the lead has changed. What was still to be asked for is forgotten, and owed.
    pub(super) fn gap(&mut self, now: Timestamp, was_asking: bool) {
        self.owed |= was_asking;
        self.over = self.over.min(now);
        self.rested = self.rested.min(now);
    }
}

impl StatusController {
    /// Observations were lost. A leader asks again; a standby asks nobody, and asks for every name when it begins to lead.
    pub fn missed(&mut self, missing: Backfill, now: Timestamp) {
        self.repairs.owed |= missing.anything;
        if missing.anything {
            self.hold(now);
        }
        if missing.anything && self.entries.keys().any(DnsName::is_wildcard) {
            counter!("collector_wildcard_gaps_total").increment(1);
        }
        if !self.looks_up() {
            return;
        }
        for name in missing.names {
            let specs = once(name.clone()).chain(name.wildcard());
            if specs.into_iter().any(|it| self.entries.contains_key(&it)) {
                match self.schedule.ask_lost(&name, now) {
                    true => counter!("collector_lookups_repeated_total", "reason" => "lost"),
                    false => counter!("collector_lost_names_dropped_total"),
                }
                .increment(1);
            }
        }
    }

    /// When [`StatusController::backfill`] has something to do. What is wanted must be known before, and what is known of it.
    pub(super) fn next_repair(&self) -> Option<Timestamp> {
        let in_sync = self.leader && self.wanted_in_sync && self.objects_in_sync;
        self.repairs.next().filter(|_| in_sync)
    }

    /// Begins to ask for every wanted name again, if that is due: for the one that was seen last first, as pods use it now.
    pub(super) fn backfill(&mut self, now: Timestamp) {
        if self.next_repair().is_none_or(|at| at > now) {
            return;
        }
        self.repairs.begin(now);
        if !self.config.limits.lookups {
            return;
        }
        let wanted = self.entries.values().filter(|entry| entry.wanted);
        let mut names: Vec<(Timestamp, &DnsName)> = wanted
            .flat_map(|entry| {
                let memory = &entry.memory;
                memory
                    .names()
                    .chain(once(memory.spec()))
                    .map(|name| (memory.last_seen(name), name))
            })
            .collect();
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
            self.schedule.ask(name, now + OVER * place / all);
        }
    }
}
