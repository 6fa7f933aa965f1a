//! Objects with rules that disappeared: when their absence is accepted.
//!
//! The deletion of a CRD arrives as the deletion of each object, and a restored store as a list
//! without them. So an absence is accepted only after a later complete list confirms it. For a few
//! objects that is enough. For many, the controller holds the names for ten minutes. If
//! most of them come back one by one, the last ones are as likely to come back. So their ten
//! minutes start again when few are left.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use runtime::{absence::are_few, store::ObjectKey};
use tokio::time::Instant;

use super::rule_object::RuleObject;

/// After this time, with the store in sync, any number of absences is accepted.
pub(crate) const ABSENT_AFTER: Duration = Duration::from_secs(10 * 60);

/// A list counts only for objects that disappeared this long before it.
const SETTLED: Duration = Duration::from_secs(5);

/// While objects disappear one after the other, the list waits no longer than this.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// This many may disappear at once, whatever their share.
const FEW: usize = 3;

/// The objects that disappeared.
#[derive(Debug, Default)]
pub(super) struct AbsentObjects {
    rule_objects: BTreeMap<ObjectKey, AbsentObject>,
    /// Each absence lasts for [`ABSENT_AFTER`] before it is accepted.
    are_kept: bool,
    /// They had more names than the limit.
    was_exceeded: bool,
    /// Absences that were accepted, confirmed or contradicted by a list since the last call.
    changed: Vec<Arc<RuleObject>>,
}

#[derive(Debug)]
struct AbsentObject {
    /// Its last known state.
    rule_object: Arc<RuleObject>,
    /// Since when it is absent, with the store in sync.
    since: Instant,
    /// A later complete list lacks it.
    listed: bool,
    /// More than [`FEW`] disappeared at about the same time.
    is_one_of_many: bool,
    /// It was absent when the limit held again, so no list counts before [`ABSENT_AFTER`].
    waits_long: bool,
}

impl AbsentObject {
    /// No list has covered it yet, and the next one may.
    fn waits_for_list(&self) -> bool {
        !self.listed && !self.waits_long
    }

    fn list(&mut self, listed: bool, changed: &mut Vec<Arc<RuleObject>>) {
        if std::mem::replace(&mut self.listed, listed) != listed {
            changed.push(Arc::clone(&self.rule_object));
        }
    }
}

impl AbsentObjects {
    /// `are_kept`: each absence lasts for [`ABSENT_AFTER`] before it is accepted.
    pub(super) fn new(are_kept: bool) -> Self {
        Self {
            are_kept,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, rule_object: Arc<RuleObject>, now: Instant) {
        let key = rule_object.key.clone();
        let absence = AbsentObject {
            rule_object,
            since: now,
            listed: false,
            is_one_of_many: self.are_kept,
            waits_long: self.are_kept,
        };
        self.rule_objects.insert(key, absence);
        let waiting = || self.rule_objects.values().filter(|it| it.waits_for_list());
        if waiting().count() > FEW {
            // The mark stays if all but a few come back before the list.
            let waiting = self.rule_objects.values_mut();
            for absence in waiting.filter(|it| it.waits_for_list()) {
                absence.is_one_of_many = true;
            }
        }
    }

    /// The object is there again. Returns its last known state.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<RuleObject>> {
        Some(self.rule_objects.remove(key)?.rule_object)
    }

    /// Removes the last known state of an object of the namespace, but not of this one.
    pub(super) fn remove_one_in(
        &mut self,
        namespace: &str,
        but: &ObjectKey,
    ) -> Option<Arc<RuleObject>> {
        let mut others = self.in_namespace(namespace).filter(|it| it.key != *but);
        let key = others.find(|it| it.size > 0)?.key.clone();
        drop(others);
        self.remove(&key)
    }

    /// The store was out of sync: all delays start again.
    pub(super) fn restart(&mut self, now: Instant) {
        for absence in self.rule_objects.values_mut() {
            absence.since = now;
            absence.list(false, &mut self.changed);
        }
    }

    /// Compares the number of absent names with the limit. When it holds again after it was
    /// exceeded, the delays of the remaining ones start again. That happens once for each:
    /// otherwise a tenant whose object comes and goes would hold all others for ever.
    pub(super) fn update_limit(&mut self, absent: usize, present: usize, now: Instant) {
        let is_exceeded = !are_few(absent, present + absent);
        if std::mem::replace(&mut self.was_exceeded, is_exceeded) && !is_exceeded {
            let left = self.rule_objects.values_mut();
            for absence in left.filter(|it| it.is_one_of_many && !it.waits_long) {
                (absence.since, absence.waits_long) = (now, true);
                absence.list(false, &mut self.changed);
            }
        }
    }

    /// When the next list is due: after no more have disappeared for a while, and again after
    /// [`ABSENT_AFTER`].
    pub(super) fn next_list(&self) -> Option<Instant> {
        let absences = || self.rule_objects.values();
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

    /// Applies a complete list that was begun at `began`.
    pub(super) fn list(&mut self, keys: &BTreeSet<ObjectKey>, began: Instant) {
        let mut are_old = false;
        self.rule_objects.retain(|key, absence| {
            if keys.contains(key) || keys.contains(&ObjectKey::all_in(&key.namespace)) {
                // The object exists: its watch event follows once it can be decoded.
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
                self.changed.push(Arc::clone(&absence.rule_object));
            }
            stays
        });
        if are_old {
            // The number fell because absences were accepted, not because objects came
            // back.
            self.was_exceeded = false;
        }
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<RuleObject>> {
        let absences = self
            .rule_objects
            .range(ObjectKey::before_all_in(namespace)..);
        let own = absences.take_while(move |(key, _)| key.namespace == namespace);
        own.map(|(_, absence)| &absence.rule_object)
    }

    /// Whether a complete list lacks the object; `None` if it is not absent.
    pub(super) fn is_listed(&self, key: &ObjectKey) -> Option<bool> {
        self.rule_objects.get(key).map(|absence| absence.listed)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (&RuleObject, bool)> {
        let all = self.rule_objects.values();
        all.map(|absence| (&*absence.rule_object, absence.listed))
    }

    /// The objects whose state changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<Arc<RuleObject>> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests;
