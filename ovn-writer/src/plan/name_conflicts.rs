//! Sets that cannot be created, because another client has a row of their name.

use std::time::Instant;

use foldhash::{HashMap, HashSet};
use proto::api::DnsName;

use super::{back_off, set_of::SetOf};
use crate::references::SetName;

/// A set that probably cannot be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NameConflict {
    pub set: SetOf,
    /// When to try again to create it; `None` in a process that does not write.
    pub until: Option<Instant>,
}

/// The known name conflicts.
#[derive(Debug, Default)]
pub(crate) struct NameConflicts {
    /// Sets that the server refused to create, and how often.
    refused: HashMap<DnsName, Vec<(NameConflict, u32)>>,
    /// In a process that does not write: the names of all sets in the database.
    names: Option<HashSet<SetName>>,
}

impl NameConflicts {
    pub(crate) fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.refused.keys()
    }

    pub(super) fn clear(&mut self) {
        self.refused.clear();
    }

    /// Records the names of all sets in the database.
    pub(super) fn read(&mut self, names: HashSet<SetName>) {
        self.names = Some(names);
    }

    /// Records that another client has a set of this name. Returns whether that is new.
    pub(super) fn refused(&mut self, name: &DnsName, set: SetOf, now: Instant) -> bool {
        let of_name = self.refused.entry(name.clone()).or_default();
        let known = of_name.iter_mut().find(|(conflict, _)| conflict.set == set);
        if let Some((conflict, times)) = known {
            conflict.until = Some(now + back_off(*times));
            *times = times.saturating_add(1);
            return false;
        }
        let until = Some(now + back_off(0));
        of_name.push((NameConflict { set, until }, 1));
        true
    }

    /// Whether it is time to retry the creation of a set of the name.
    pub(super) fn are_due(&self, name: &DnsName, now: Instant) -> bool {
        let mut of_name = self.refused.get(name).into_iter().flatten();
        of_name.any(|(conflict, _)| conflict.until.is_some_and(|until| until <= now))
    }

    /// Drops the sets of a name that are no longer needed.
    pub(super) fn retain(&mut self, name: &DnsName, are_missing: impl Fn(&SetOf) -> bool) {
        if let Some(of_name) = self.refused.get_mut(name) {
            of_name.retain(|(conflict, _)| are_missing(&conflict.set));
            if of_name.is_empty() {
                self.refused.remove(name);
            }
        }
    }

    /// The sets among these whose name another client has.
    pub(super) fn of(
        &self,
        name: &DnsName,
        sets: impl Iterator<Item = (SetOf, SetName)>,
    ) -> Vec<NameConflict> {
        let Some(names) = &self.names else {
            let of_name = self.refused.get(name).into_iter().flatten();
            return of_name.map(|(conflict, _)| conflict.clone()).collect();
        };
        let existing = sets.filter(|(_, name)| names.contains(name));
        let conflict = |(set, _)| NameConflict { set, until: None };
        existing.map(conflict).collect()
    }
}
