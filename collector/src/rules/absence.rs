//! EgressFirewalls that went: when that is believed.
//!
//! The deletion of a CRD arrives as the deletion of each object, and a restored store as a list without them. So what went is
//! believed once a complete list made a while later lacks it too, at once if it is only a few; otherwise its names are held by
//! the controller, for ten minutes. Where many went and come back one by one, the last ones are as likely to come
//! back as the first: their ten minutes begin anew when few are left.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use runtime::{absence::are_few, store::ObjectKey};
use tokio::time::Instant;

use super::firewall::Firewall;

/// What is away for so long, with the store in sync all the time, is believed however much it is.
pub(crate) const ABSENT_AFTER: Duration = Duration::from_secs(10 * 60);

/// A list tells of what went so long before it.
const SETTLED: Duration = Duration::from_secs(5);

/// While EgressFirewalls go one after the other, the list waits no longer than this.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// As many may go at once whatever their share.
const FEW: usize = 3;

/// The EgressFirewalls that went.
#[derive(Debug, Default)]
pub(super) struct Absences {
    firewalls: BTreeMap<ObjectKey, Absence>,
    /// Their names were more than the limit.
    was_exceeded: bool,
    /// Those of which a list told, or tells no more, or that are believed to be away, since it was asked last.
    changed: Vec<Arc<Firewall>>,
}

#[derive(Debug)]
struct Absence {
    /// As it was last known.
    firewall: Arc<Firewall>,
    /// Since when it is away, with the store in sync all the time.
    since: Instant,
    /// A complete list made later lacks it.
    listed: bool,
    /// More than [`FEW`] went at about the same time.
    is_one_of_many: bool,
    /// It was away when the limit held again, so no list is believed before [`ABSENT_AFTER`].
    waits_long: bool,
}

impl Absence {
    /// No list has told of it yet, and the next one may.
    fn waits_for_list(&self) -> bool {
        !self.listed && !self.waits_long
    }

    fn list(&mut self, listed: bool, changed: &mut Vec<Arc<Firewall>>) {
        if std::mem::replace(&mut self.listed, listed) != listed {
            changed.push(Arc::clone(&self.firewall));
        }
    }
}

impl Absences {
    /// The EgressFirewall went.
    pub(super) fn add(&mut self, firewall: Arc<Firewall>, now: Instant) {
        let key = firewall.key.clone();
        let absence = Absence {
            firewall,
            since: now,
            listed: false,
            is_one_of_many: false,
            waits_long: false,
        };
        self.firewalls.insert(key, absence);
        let waiting = || self.firewalls.values().filter(|it| it.waits_for_list());
        if waiting().count() > FEW {
            // They stay so when all but a few of them come back before the list.
            let waiting = self.firewalls.values_mut();
            for absence in waiting.filter(|it| it.waits_for_list()) {
                absence.is_one_of_many = true;
            }
        }
    }

    /// The EgressFirewall is there again. Returns what was known of it.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Firewall>> {
        Some(self.firewalls.remove(key)?.firewall)
    }

    /// The store was out of sync: all delays begin anew.
    pub(super) fn restart(&mut self, now: Instant) {
        for absence in self.firewalls.values_mut() {
            absence.since = now;
            absence.list(false, &mut self.changed);
        }
    }

    /// Looks at how many names are away, and begins the delay of those that are left anew when these were too many until now.
    /// That is done once for each: otherwise a tenant whose EgressFirewall comes and goes would hold all others for ever.
    pub(super) fn update_limit(&mut self, absent: usize, present: usize, now: Instant) {
        let is_exceeded = !are_few(absent, present + absent);
        if std::mem::replace(&mut self.was_exceeded, is_exceeded) && !is_exceeded {
            let left = self.firewalls.values_mut();
            for absence in left.filter(|it| it.is_one_of_many && !it.waits_long) {
                (absence.since, absence.waits_long) = (now, true);
                absence.list(false, &mut self.changed);
            }
        }
    }

    /// When a list is to be made: when none has gone for a while, and again when one was away for long enough.
    pub(super) fn next_list(&self) -> Option<Instant> {
        let absences = || self.firewalls.values();
        let waiting = || absences().filter(|it| it.waits_for_list());
        let unlisted = || waiting().map(|it| it.since);
        let settled = unlisted()
            .min()
            .zip(unlisted().max())
            .map(|(first, last)| (last + SETTLED).min(first + MAX_WAIT));
        let others = absences().filter(|it| !it.waits_for_list());
        let old = others.map(|it| it.since + ABSENT_AFTER).min();
        settled.into_iter().chain(old).min()
    }

    /// Takes in a complete list that was begun then.
    pub(super) fn list(&mut self, keys: &BTreeSet<ObjectKey>, began: Instant) {
        let mut are_old = false;
        self.firewalls.retain(|key, absence| {
            if keys.contains(key) || keys.contains(&ObjectKey::all_in(&key.namespace)) {
                // The watch will tell, once it can be read.
                absence.since = began;
                absence.list(false, &mut self.changed);
                return true;
            }
            let away = began.saturating_duration_since(absence.since);
            let is_old = away >= ABSENT_AFTER;
            are_old |= is_old;
            let listed = absence.listed || (away >= SETTLED && !absence.waits_long);
            absence.list(listed, &mut self.changed);
            let stays = away < SETTLED || (absence.is_one_of_many && !is_old);
            if !stays {
                self.changed.push(Arc::clone(&absence.firewall));
            }
            stays
        });
        if are_old {
            // Fewer are away as their time was over: none of them came back.
            self.was_exceeded = false;
        }
    }

    /// Those of a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Firewall>> {
        let absences = self.firewalls.range(ObjectKey::before_all_in(namespace)..);
        let own = absences.take_while(move |(key, _)| key.namespace == namespace);
        own.map(|(_, absence)| &absence.firewall)
    }

    /// Whether a complete list lacks the EgressFirewall, if it is away.
    pub(super) fn is_listed(&self, key: &ObjectKey) -> Option<bool> {
        self.firewalls.get(key).map(|absence| absence.listed)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (&Firewall, bool)> {
        let all = self.firewalls.values();
        all.map(|absence| (&*absence.firewall, absence.listed))
    }

    /// Those of which something else is known than at the last call.
    pub(super) fn take_changed(&mut self) -> Vec<Arc<Firewall>> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests;
