//! Limits how many names are closed only because their objects are absent.
//!
//! The absence of a few names is believed. The absence of many at once is more likely a fault: a deleted CRD, a
//! restored backup, an empty folder. Then time alone closes none of them, and the store counts as suspect.

use std::{
    collections::VecDeque,
    fmt,
    time::{Duration, Instant},
};

use foldhash::HashSet;
use proto::api::DnsName;
use runtime::absence::are_few;
use serde::Serialize;

/// How long a closed name counts.
const WINDOW: Duration = Duration::from_secs(3600);

/// How many names a log line names.
const NAMED: usize = 3;

/// The names in use whose objects are absent, with their limit.
#[derive(Debug, Default)]
pub(super) struct AbsenceLimit {
    in_use: usize,
    absent: HashSet<DnsName>,
    /// When names were closed because they were absent, the oldest first.
    closed: VecDeque<Instant>,
    exceeded_since: Option<Instant>,
    /// When the limit was last exceeded.
    exceeded_until: Option<Instant>,
}

/// The absent names at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Absence {
    /// The names in use without an object, sorted.
    pub names: Vec<String>,
    /// The number of names in use.
    pub in_use: usize,
    /// The number of names closed in the last hour because they were absent.
    #[serde(skip)]
    pub closed: usize,
    /// Whether the limit is exceeded.
    #[serde(rename = "too_many")]
    pub is_exceeded: bool,
    /// Whether it has been exceeded for so long that the store is suspect.
    #[serde(skip)]
    pub is_suspect: bool,
}

impl AbsenceLimit {
    /// Records the current state of a name, and whether it was in use before.
    pub(super) fn note(
        &mut self,
        name: &DnsName,
        was_in_use: bool,
        is_in_use: bool,
        is_absent: bool,
    ) {
        self.in_use += usize::from(is_in_use);
        self.in_use -= usize::from(was_in_use);
        if !is_absent {
            self.absent.remove(name);
        } else if !self.absent.contains(name) {
            self.absent.insert(name.clone());
        }
    }

    /// Records that a name was closed because it was absent.
    pub(super) fn close(&mut self, now: Instant) {
        self.closed.push_back(now);
    }

    /// Whether too many names are absent to close any of them.
    pub(super) fn is_exceeded(&self) -> bool {
        let going = self.absent.len() + self.closed.len();
        let all = self.in_use + self.closed.len();
        !self.absent.is_empty() && !are_few(going, all)
    }

    /// Updates the state for the current time. Returns whether the limit held names back until now and no longer does.
    pub(super) fn wake(&mut self, is_in_sync: bool, now: Instant) -> bool {
        let is_over = |at: &Instant| now.saturating_duration_since(*at) >= WINDOW;
        while self.closed.front().is_some_and(is_over) {
            self.closed.pop_front();
        }
        if self.is_exceeded() {
            // A store that goes out of sync meanwhile, as when its CRD is deleted, stays suspect.
            self.exceeded_since.get_or_insert(now);
            return false;
        }
        let is_released = self.exceeded_since.take().is_some() && is_in_sync;
        if is_released {
            self.exceeded_until = Some(now);
        }
        is_released
    }

    /// From when absence counts: while the limit was exceeded, objects may have been returning.
    pub(super) fn counts_from(&self) -> Option<Instant> {
        self.exceeded_until
    }

    /// When to call [`AbsenceLimit::wake`] or [`AbsenceLimit::report`] next, even without an event.
    pub(super) fn next_timer(&self, suspect_after: Duration, now: Instant) -> Option<Instant> {
        let suspect = self.exceeded_since.map(|since| since + suspect_after);
        let closed = self.closed.front().map(|at| *at + WINDOW);
        let timers = suspect.filter(|at| *at > now).into_iter().chain(closed);
        timers.min()
    }

    /// The names that are in use and absent.
    pub(super) fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.absent.iter()
    }

    pub(super) fn report(&self, suspect_after: Duration, now: Instant) -> Absence {
        let mut names: Vec<_> = self.absent.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        Absence {
            names,
            in_use: self.in_use,
            closed: self.closed.len(),
            is_exceeded: self.is_exceeded(),
            is_suspect: self.is_suspect(suspect_after, now),
        }
    }

    /// How many names are in use and absent.
    pub(super) fn len(&self) -> usize {
        self.absent.len()
    }

    /// Whether the limit has been exceeded for long.
    pub(super) fn is_suspect(&self, suspect_after: Duration, now: Instant) -> bool {
        let is_long = |since| now.saturating_duration_since(since) >= suspect_after;
        self.exceeded_since.is_some_and(is_long)
    }
}

impl fmt::Display for Absence {
    /// One line, with the first names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (absent, in_use) = (self.names.len(), self.in_use);
        write!(
            f,
            "{absent} of {in_use} names in use have no DNSNameResolver object; their address sets stay as they are"
        )?;
        if self.is_exceeded {
            f.write_str(
                ", as these are too many to be believed; if they are to go, run `ovn-writer allow-empty`",
            )?;
        }
        let mut separator = ": ";
        for name in self.names.iter().take(NAMED) {
            write!(f, "{}{name}", std::mem::replace(&mut separator, ", "))?;
        }
        match absent.saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dns;

    fn limit(in_use: usize, absent: usize) -> AbsenceLimit {
        let mut limit = AbsenceLimit::default();
        for number in 0..in_use {
            let name = dns(&format!("n{number}.example."));
            limit.note(&name, false, true, number < absent);
        }
        limit
    }

    #[test]
    fn a_few_names_or_a_small_share_may_go_but_never_more_than_half() {
        for (in_use, absent, is_exceeded) in [
            (0, 0, false),
            (1, 1, true),
            (2, 1, false),
            (3, 2, true),
            (20, 10, false),
            (21, 11, true),
            (200, 10, false),
            (200, 11, true),
            (1000, 50, false),
            (1000, 51, true),
        ] {
            let limit = limit(in_use, absent);
            assert_eq!(limit.is_exceeded(), is_exceeded, "{absent} of {in_use}");
        }
    }

    #[test]
    fn names_that_were_closed_count_for_an_hour() {
        let (mut limit, now) = (limit(40, 0), Instant::now());
        for number in 0..10 {
            let name = dns(&format!("n{number}.example."));
            limit.note(&name, true, true, true);
            assert!(!limit.is_exceeded());
            limit.note(&name, true, false, false);
            limit.close(now);
        }
        limit.note(&dns("n20.example."), true, true, true);
        assert!(limit.is_exceeded());
        assert!(!limit.wake(true, now));
        assert_eq!(limit.next_timer(Duration::ZERO, now), Some(now + WINDOW));
        assert!(limit.wake(true, now + WINDOW) && !limit.is_exceeded());
        assert!(!limit.wake(true, now + WINDOW), "it is no news");
    }

    #[test]
    fn names_that_were_closed_exceed_nothing_while_none_is_absent() {
        let (mut limit, now) = (limit(3, 0), Instant::now());
        let [one, other] = [0, 1].map(|number| dns(&format!("n{number}.example.")));
        limit.note(&one, true, false, false);
        limit.close(now);
        // No rule refers to the others any more.
        limit.note(&other, true, false, false);
        limit.note(&dns("n2.example."), true, false, false);
        assert!(!limit.is_exceeded());
        limit.note(&other, false, true, true);
        assert!(limit.is_exceeded());
    }

    #[test]
    fn the_store_is_suspect_after_a_minute_whether_it_is_in_sync_or_not() {
        let (mut limit, mut now) = (limit(3, 3), Instant::now());
        let minute = Duration::from_secs(60);
        limit.wake(true, now);
        now += Duration::from_secs(59);
        limit.wake(false, now);
        assert!(!limit.is_suspect(minute, now));
        assert_eq!(
            limit.next_timer(minute, now),
            Some(now + Duration::from_secs(1))
        );
        now += Duration::from_secs(1);
        let report = limit.report(minute, now);
        assert!(report.is_suspect && report.is_exceeded);
        let line = report.to_string();
        assert!(
            line.starts_with("3 of 3 names") && line.contains("n0.example."),
            "{line}"
        );
    }
}
