//! The times at which names are checked without an event.

use std::{collections::BTreeSet, time::Duration};

use proto::{api::DnsName, timestamp::Timestamp};

/// Names in order of time, each at most once.
#[derive(Debug, Default)]
pub(crate) struct Wakes(BTreeSet<(Timestamp, DnsName)>);

impl Wakes {
    /// The first time.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes a name whose time has come.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<DnsName> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, name)| name)
    }

    /// Sets the time of a name to `at`, or to none. `wake` is its time so far, and is updated. A time that has come is
    /// put off by a millisecond, or the checks of a name would never end.
    pub(crate) fn set(
        &mut self,
        name: &DnsName,
        wake: &mut Option<Timestamp>,
        at: Option<Timestamp>,
        now: Timestamp,
    ) {
        let at = at.map(|at| at.max(now + Duration::from_millis(1)));
        if *wake == at {
            return;
        }
        self.remove(name, *wake);
        self.0.extend(at.map(|at| (at, name.clone())));
        *wake = at;
    }

    /// Removes a name at its time so far.
    pub(crate) fn remove(&mut self, name: &DnsName, wake: Option<Timestamp>) {
        if let Some(at) = wake {
            self.0.remove(&(at, name.clone()));
        }
    }
}
