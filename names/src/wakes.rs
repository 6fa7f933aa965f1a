//! The times at which names are checked without an event.

use std::collections::BTreeSet;

use proto::{api::DnsName, timestamp::Timestamp};

/// Names in order of time, each at most once.
#[derive(Debug, Default)]
pub struct Wakes(BTreeSet<(Timestamp, DnsName)>);

impl Wakes {
    /// The first time.
    pub fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The names whose time has come.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &DnsName> {
        let due = self.0.iter().take_while(move |(at, _)| *at <= now);
        due.map(|(_, name)| name)
    }

    /// Takes a name whose time has come.
    pub fn pop(&mut self, now: Timestamp) -> Option<DnsName> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, name)| name)
    }

    /// Moves a name from its `old` time to another one.
    pub fn replace(&mut self, name: &DnsName, old: Option<Timestamp>, new: Option<Timestamp>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.0.remove(&(old, name.clone()));
        }
        self.0.extend(new.map(|at| (at, name.clone())));
    }
}
