//! Sets that cannot be made, as somebody else has one of the name.

use std::time::Instant;

use foldhash::{HashMap, HashSet};
use proto::api::DnsName;

use super::{back_off, set_of::SetOf};
use crate::references::SetName;

/// A set that cannot be made, as far as is known.
#[derive(Clone, Debug, PartialEq)]
pub struct NameConflict {
    /// Which.
    pub set: SetOf,
    /// When to try again to make it; `None` where nothing is tried.
    pub until: Option<Instant>,
}

/// What is known of the sets of others.
#[derive(Debug, Default)]
pub(crate) struct NameConflicts {
    /// Sets that the server refused to make, and how often.
    refused: HashMap<DnsName, Vec<(NameConflict, u32)>>,
    /// Where nothing is tried: the names of all sets in the database.
    names: Option<HashSet<SetName>>,
}

impl NameConflicts {
    /// The names that have one.
    pub(crate) fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.refused.keys()
    }

    /// Forgets what was refused.
    pub(super) fn clear(&mut self) {
        self.refused.clear();
    }

    /// The sets of the database have these names.
    pub(super) fn read(&mut self, names: HashSet<SetName>) {
        self.names = Some(names);
    }

    /// Somebody has a set of this name. Returns whether that is news.
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

    /// Whether it is time to try again to make a set of the name.
    pub(super) fn are_due(&self, name: &DnsName, now: Instant) -> bool {
        let mut of_name = self.refused.get(name).into_iter().flatten();
        of_name.any(|(conflict, _)| conflict.until.is_some_and(|until| until <= now))
    }

    /// Forgets the sets of a name that are no longer to be made.
    pub(super) fn retain(&mut self, name: &DnsName, are_missing: impl Fn(&SetOf) -> bool) {
        if let Some(of_name) = self.refused.get_mut(name) {
            of_name.retain(|(conflict, _)| are_missing(&conflict.set));
            if of_name.is_empty() {
                self.refused.remove(name);
            }
        }
    }

    /// Of these sets of a name those that somebody else has.
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
