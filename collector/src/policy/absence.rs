//! EgressFirewalls that went: when that is believed.
//!
//! The deletion of a CRD arrives as the deletion of each object, and a restored store as a list without them. So what went is
//! believed once a complete list made a while later lacks it too, at once if it is only a few; otherwise its names are held by
//! the owner of the statuses, for ten minutes at most.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto::api::DnsName;
use runtime::store::ObjectKey;
use tokio::time::Instant;

use super::{Terms, rules::Firewall};
use crate::owner::ABSENT_AFTER;

/// A list tells of what went so long before it.
const SETTLED: Duration = Duration::from_secs(5);

/// While EgressFirewalls go one after the other, the list waits no longer than this.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// As many may go at once whatever their share.
const FEW: usize = 3;

/// The EgressFirewalls that went.
#[derive(Debug, Default)]
pub(super) struct Absences(BTreeMap<ObjectKey, Absence>);

#[derive(Debug)]
struct Absence {
    /// As it was last known.
    firewall: Firewall,
    /// Since when it is away, with the store in sync all the time.
    since: Instant,
    /// A complete list made later lacks it.
    listed: bool,
}

impl Absences {
    /// The EgressFirewall went.
    pub(super) fn add(&mut self, key: ObjectKey, firewall: Firewall, now: Instant) {
        let absence = Absence {
            firewall,
            since: now,
            listed: false,
        };
        self.0.insert(key, absence);
    }

    /// The EgressFirewall is there again. Returns what was known of it.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Firewall> {
        Some(self.0.remove(key)?.firewall)
    }

    /// The store was out of sync: all delays begin anew.
    pub(super) fn restart(&mut self, now: Instant) {
        for absence in self.0.values_mut() {
            (absence.since, absence.listed) = (now, false);
        }
    }

    /// When a list is to be made: when none has gone for a while, and again when one was away for long enough.
    pub(super) fn next_list(&self) -> Option<Instant> {
        let unlisted = || self.0.values().filter(|it| !it.listed).map(|it| it.since);
        let settled = unlisted()
            .min()
            .zip(unlisted().max())
            .map(|(first, last)| (last + SETTLED).min(first + MAX_WAIT));
        let listed = self.0.values().filter(|it| it.listed);
        let old = listed.map(|it| it.since + ABSENT_AFTER).min();
        settled.into_iter().chain(old).min()
    }

    /// Takes in a complete list that was begun then.
    pub(super) fn list(&mut self, keys: &BTreeSet<ObjectKey>, began: Instant) {
        let unlisted = self.0.values().filter(|it| !it.listed).count();
        self.0.retain(|key, absence| {
            if keys.contains(key) || keys.contains(&ObjectKey::all_in(&key.namespace)) {
                // The watch will tell, once it can be read.
                (absence.since, absence.listed) = (began, false);
                return true;
            }
            let away = began.saturating_duration_since(absence.since);
            let is_one_of_few = !absence.listed && unlisted <= FEW;
            absence.listed |= away >= SETTLED;
            away < SETTLED || (!is_one_of_few && away < ABSENT_AFTER)
        });
    }

    /// The names that no present EgressFirewall has, with their terms, and whether all that have them are listed as away.
    pub(super) fn names(
        &self,
        present: &BTreeMap<DnsName, Terms>,
    ) -> BTreeMap<DnsName, (Terms, bool)> {
        let mut absent: BTreeMap<DnsName, (Terms, bool)> = BTreeMap::new();
        for absence in self.0.values() {
            for (name, terms) in absence.firewall.names() {
                if present.contains_key(name) {
                    continue;
                }
                let (joined, listed) = absent
                    .entry(name.clone())
                    .or_insert((Terms::default(), true));
                joined.join(terms);
                *listed &= absence.listed;
            }
        }
        absent
    }
}

#[cfg(test)]
#[path = "absence_tests.rs"]
mod tests;
