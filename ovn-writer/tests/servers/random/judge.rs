//! Checks that every removal from a set in use had a valid reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto::api::Family;
use tests::{
    allowed::{Closing, Tables},
    monitor::Update,
};
use tokio::time::Instant;

use super::told::{Known, Told};
use crate::harness::AWAY;

/// How long a transaction, or its event, may be delayed; its reason may have ended meanwhile.
const LAG: Duration = Duration::from_secs(2);

/// The log of the database has milliseconds, and its clock differs from the test's.
const EARLY: Duration = Duration::from_millis(5);

/// Absent names in use are closed after this time.
pub(super) const ABSENT: Duration = Duration::from_millis(1200);

/// The known use of a set by rules.
#[derive(Default)]
struct Unused {
    /// Since when no rule has used it.
    since: Option<Instant>,
    /// The last unused period: its length, and its end.
    before: Option<(Duration, Instant)>,
}

pub(super) struct Judge {
    told: Vec<(Instant, Instant, Known)>,
    tables: Tables,
    unused: BTreeMap<String, Unused>,
    /// How many names were in use, and when.
    in_use: Vec<(Instant, usize)>,
    /// The names that each writer closed by time.
    closed: BTreeSet<(usize, String)>,
    /// How many removals were checked, to show that the test has substance.
    pub(super) judged: usize,
}

impl Judge {
    pub(super) fn new(told: &Told) -> Self {
        Self {
            told: told.history(),
            tables: Tables::default(),
            unused: BTreeMap::new(),
            in_use: Vec::new(),
            closed: BTreeSet::new(),
            judged: 0,
        }
    }

    /// Checks all transactions of the database files in order. The initial content of a file has no author.
    ///
    /// # Errors
    /// An invalid removal.
    pub(super) fn judge(&mut self, files: &[Vec<Update>]) -> Result<(), String> {
        for file in files {
            self.tables = Tables::default();
            for update in file {
                self.update(update)?;
            }
        }
        Ok(())
    }

    fn update(&mut self, update: &Update) -> Result<(), String> {
        let in_use = self.names_in_use();
        let closings = self.tables.apply(update);
        // The test's own clients write a comment.
        if update.comment.is_none() {
            self.closings(closings, update.at + EARLY, &in_use)?;
        }
        for row in self.tables.rows.values() {
            let unused = self.unused.entry(row.name.clone()).or_default();
            match (self.tables.is_referred_to(&row.name), unused.since) {
                (true, Some(since)) => {
                    unused.before = Some((update.at.saturating_duration_since(since), update.at));
                    unused.since = None;
                }
                (false, None) => unused.since = Some(update.at),
                _ => {}
            }
        }
        self.in_use.push((update.at, self.names_in_use().len()));
        Ok(())
    }

    /// The names in use: a set of theirs has addresses, and a rule uses it.
    fn names_in_use(&self) -> Vec<String> {
        let rows = self.tables.rows.values();
        let in_use =
            rows.filter(|row| !row.addresses.is_empty() && self.tables.is_referred_to(&row.name));
        let mut names: Vec<String> = in_use
            .filter_map(|row| row.dns_name().map(str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn closings(
        &mut self,
        closings: Vec<Closing>,
        at: Instant,
        in_use: &[String],
    ) -> Result<(), String> {
        for closing in closings {
            let family = if closing.address.contains(':') {
                Family::V6
            } else {
                Family::V4
            };
            if !closing.row.is_of(closing.name(), family) {
                // Another client added it to the set of the other family.
                continue;
            }
            self.judged += 1;
            let spans = self.spans(at);
            let had = |known: &Known| known.had(closing.name(), &closing.address);
            if spans.iter().any(|(_, known)| !had(known)) {
                continue;
            }
            let away = spans.iter().filter_map(|(until, known)| {
                let (length, rule_ended) = known.away(closing.name(), *until)?;
                (length >= AWAY).then_some((length, rule_ended, *until, *known))
            });
            let away: Vec<_> = away.collect();
            let rule_ended = away.iter().any(|(_, rule_ended, ..)| *rule_ended);
            if rule_ended || (!away.is_empty() && self.was_unused(&closing, at)) {
                continue;
            }
            let by_time = away.iter().find(|(length, _, until, known)| {
                *length >= ABSENT
                    && !known.has_unknown()
                    && self.is_one_of_few(&closing, *until, known, in_use)
            });
            let Some((.., known)) = by_time else {
                let known: Vec<_> = spans
                    .iter()
                    .map(|(until, known)| {
                        let ago = at.saturating_duration_since(*until);
                        format!("until {ago:?} before: {}", known.of(closing.name(), *until))
                    })
                    .collect();
                return Err(format!(
                    "{closing:?} had no reason; in use were {in_use:?}, and it was known {known:#?}"
                ));
            };
            let closed = (known.life, closing.name().to_owned());
            self.closed.insert(closed);
        }
        Ok(())
    }

    /// The writer's knowledge in the moments before, and until when it held.
    fn spans(&self, at: Instant) -> Vec<(Instant, &Known)> {
        let spans = self
            .told
            .iter()
            .filter(|(from, to, _)| *from <= at && *to + LAG >= at);
        spans.map(|(_, to, known)| (at.min(*to), known)).collect()
    }

    /// Whether the set was unused for long enough until a moment ago.
    fn was_unused(&self, closing: &Closing, at: Instant) -> bool {
        let unused = self.unused.get(&closing.row.name);
        let before = unused.and_then(|unused| unused.before);
        before.is_some_and(|(length, until)| until + LAG >= at && length + 2 * EARLY >= AWAY)
    }

    /// Whether few names had been absent for so long, including those that this writer has closed for that.
    fn is_one_of_few(
        &self,
        closing: &Closing,
        at: Instant,
        known: &Known,
        in_use: &[String],
    ) -> bool {
        let is_absent = |name: &&String| {
            let away = known.away(name, at);
            away.is_some_and(|(length, rule_ended)| length >= ABSENT && !rule_ended)
        };
        let closed = self.closed.iter().filter(|(life, _)| *life == known.life);
        let closed: BTreeSet<&str> = closed.map(|(_, name)| name.as_str()).collect();
        let mut going: BTreeSet<&str> = in_use
            .iter()
            .filter(is_absent)
            .map(String::as_str)
            .collect();
        going.extend(&closed);
        going.insert(closing.name());
        let lately = self.in_use.iter().filter(|(then, _)| *then + LAG >= at);
        let most = lately.map(|(_, count)| *count).max().unwrap_or_default();
        2 * going.len() <= most + closed.len()
    }
}
