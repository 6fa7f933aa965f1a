//! What changes with time, the lead, the guards and the caps.

use std::{collections::BTreeSet, mem, net::IpAddr};

use proto::{api::DnsName, timestamp::Timestamp};

use super::Names;
use crate::{Admitted, Stored};

impl Names {
    /// Removes addresses whose time is over, looks names up again after a gap, and leaves names beyond a cap out.
    /// `are_all_known`: all rules and statuses are known, so that a name without either has none.
    pub fn advance(&mut self, are_all_known: bool, now: Timestamp) {
        let is_idle_due = self.not_idle_at + self.limits.wildcard_idle / 8 <= now;
        if self.is_server_missing && is_idle_due {
            self.reset_idle(now);
        }
        if self.leads && are_all_known && self.backfill.next().is_some_and(|at| at <= now) {
            self.look_all_up(now);
        }
        if are_all_known && self.caps.is_changed() {
            self.apply_caps();
        }
        self.expire(now);
        self.caps.count(&self.entries, now);
    }

    /// When [`Names::advance`] or [`Names::next_due`] has something to do.
    pub fn next_wake(&self, are_all_known: bool) -> Option<Timestamp> {
        let backfill = self.backfill.next();
        let backfill = backfill.filter(|_| self.leads && are_all_known);
        let all = [self.wakes.next(), backfill, self.schedule.next()];
        all.into_iter().flatten().min()
    }

    fn look_all_up(&mut self, now: Timestamp) {
        let used = self.entries.values().filter(|entry| entry.is_used);
        let names = used.flat_map(|entry| entry.list().names().chain([entry.list().rule_name()]));
        let count = self.backfill.begin(names, &mut self.schedule, now);
        self.changes.counts.backfilled += count as u64;
    }

    fn apply_caps(&mut self) {
        let changes = self.caps.reconcile(&self.entries);
        self.changes.at_cap.extend(changes.at_cap);
        for name in &changes.left_out {
            let Some(entry) = self.entries.get_mut(name) else {
                continue;
            };
            entry.is_left_out = true;
            let mut found = BTreeSet::from([name.clone()]);
            found.extend(entry.state.leave_out().into_iter().map(|(name, _)| name));
            for name in &found {
                self.reschedule(name);
            }
            self.changes.mark(name, None);
        }
        for name in &changes.admitted {
            let Some(entry) = self.entries.get_mut(name) else {
                continue;
            };
            entry.is_left_out = false;
            entry.state.admit_again();
            self.reschedule(name);
            self.changes.mark(name, None);
        }
    }

    /// Removes the addresses whose time is over, if this process leads.
    fn expire(&mut self, now: Timestamp) {
        while let Some(name) = self.wakes.pop(now) {
            let Some(entry) = self.entries.get_mut(&name) else {
                continue;
            };
            entry.wake = None;
            if self.leads {
                let expired = entry.state.expire(now, &entry.rule_use.limits);
                let dropped = entry.state.evict_retained(now, &entry.rule_use.limits);
                self.changes.counts.expired += expired.len() as u64;
                self.changes.counts.retained_dropped += dropped.len() as u64;
                for (name, _) in expired.into_iter().chain(dropped) {
                    self.reschedule(&name);
                }
            }
            self.changes.mark(&name, None);
        }
    }

    /// Sets when the name is checked without an event: at its next removal, and at `again`. Called after its status was computed.
    pub fn set_wake(&mut self, name: &DnsName, again: Option<Timestamp>, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let removal = if self.leads {
            entry.list().next_removal(&entry.rule_use.limits)
        } else {
            None
        };
        let wake = removal.into_iter().chain(again).min();
        self.wakes.set(name, &mut entry.wake, wake, now);
    }

    /// Removes the addresses that guards refuse from now on. Returns them with the reasons. They leave the statuses with
    /// the next writes.
    pub fn purge(
        &mut self,
        admit: impl Fn(IpAddr) -> Admitted,
    ) -> Vec<(DnsName, IpAddr, &'static str)> {
        let mut purged = Vec::new();
        for (rule_name, entry) in &mut self.entries {
            let before = purged.len();
            purged.extend(entry.state.purge(&admit));
            if purged.len() > before {
                self.changes.mark(rule_name, None);
            }
        }
        let changed: BTreeSet<DnsName> = purged.iter().map(|(name, ..)| name.clone()).collect();
        for name in &changed {
            self.reschedule(name);
        }
        purged
    }

    /// Sets whether this process leads: looks names up and removes addresses.
    pub fn set_leads(&mut self, leads: bool) {
        self.leads = leads;
        self.schedule.is_active = leads && self.limits.lookups;
    }

    /// Continues the work of the last leader with a stored status. Call it for each of them, and then
    /// [`Names::on_clock_jump`].
    pub fn take_over(
        &mut self,
        name: &DnsName,
        stored: &Stored,
        admit: impl Fn(IpAddr) -> Admitted,
        now: Timestamp,
    ) {
        if let Some(entry) = self.entries.get_mut(name).filter(|it| !it.is_left_out) {
            let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
            state.take_over(stored, now, limits, admit);
        }
    }

    /// Sets whether a listed DNS server does not stream here. Its clients may use any name, so no name becomes idle.
    pub fn set_server_missing(&mut self, is_missing: bool, now: Timestamp) {
        if mem::replace(&mut self.is_server_missing, is_missing) != is_missing {
            self.reset_idle(now);
        }
    }

    fn reset_idle(&mut self, now: Timestamp) {
        self.not_idle_at = now;
        for entry in self.entries.values_mut() {
            entry.state.not_idle(now);
        }
        let names = self.entries.values().flat_map(|it| it.list().names());
        for name in names.cloned().collect::<Vec<_>>() {
            self.reschedule(&name);
        }
    }

    /// The clock was set, nothing could be resolved for a while, or the lead changed: earlier look-ups do not count, no
    /// time is in the future, and every status is computed again.
    pub fn on_clock_jump(&mut self, now: Timestamp) {
        self.backfill.reset(now);
        self.not_idle_at = self.not_idle_at.min(now);
        for entry in self.entries.values_mut() {
            entry.state.on_clock_jump(now, &entry.rule_use.limits);
            entry.unused_since = entry.unused_since.map(|_| now);
        }
        self.schedule.reset(now);
        let entries = self.entries.iter();
        let names = entries.flat_map(|(name, entry)| entry.list().names().chain([name]));
        let names: BTreeSet<DnsName> = names.cloned().collect();
        for name in names {
            self.reschedule(&name);
        }
        self.mark_all();
    }

    /// Every status is computed again.
    pub fn mark_all(&mut self) {
        for name in self.entries.keys() {
            self.changes.mark(name, None);
        }
    }
}
