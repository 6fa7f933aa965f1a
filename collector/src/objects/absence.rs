//! Names whose EgressFirewalls disappeared together: how long they are held before their rules
//! count as ended.
//!
//! If an edit removes a name from an existing EgressFirewall, its rule has ended. If the
//! EgressFirewalls themselves disappear, or objects exist that no EgressFirewall ever used, that
//! may be an accident. A store during a restore, or a deleted CustomResourceDefinition, looks like
//! the end of all rules. Such names are held: their objects stay and are updated.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use proto::api::DnsName;
use runtime::{absence::are_few, clock::Timestamp};

use crate::rules::ABSENT_AFTER;

/// The least time before an absence is accepted: objects that disappear one after the other must be
/// seen as one event.
const SETTLED: Duration = Duration::from_secs(5);

/// How long accepted absences count against the limit.
const COUNTED: Duration = Duration::from_secs(3600);

/// Names held for this long are reported.
const TOLD_AFTER: Duration = Duration::from_secs(15);

/// The interval of checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The names whose rules are absent.
#[derive(Debug, Default)]
pub(super) struct AbsentNames {
    names: BTreeMap<DnsName, AbsentName>,
    /// Names whose absence was accepted while their EgressFirewalls are still held.
    believed: BTreeSet<DnsName>,
    /// The times of accepted absences, with the number of names.
    counted: VecDeque<(Timestamp, usize)>,
    /// Too many names were absent at the last check.
    was_exceeded: bool,
    /// The last time at which some EgressFirewall could not be decoded and never could before.
    rules_known_since: Timestamp,
    /// The time of the next check.
    due: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct AbsentName {
    /// The time when the name became absent.
    first: Timestamp,
    /// The same, or the time when the stores came into sync, if that is later.
    since: Timestamp,
    /// Whether a complete list lacks every EgressFirewall that had the name. `None`: an object that
    /// no EgressFirewall used when it was first seen.
    listed: Option<bool>,
    /// The name was absent when the limit held again after it was exceeded. Others came back, so
    /// this one may come back too.
    waits_long: bool,
}

impl AbsentNames {
    /// `absent` is `None` while an EgressFirewall has the name. Otherwise it tells whether a
    /// complete list lacks all that had it.
    pub(super) fn update(&mut self, name: &DnsName, absent: Option<bool>, now: Timestamp) {
        match absent {
            Some(listed) if !self.believed.contains(name) => {
                self.add(name, now).listed = Some(listed);
            }
            Some(_) => {}
            None => {
                self.believed.remove(name);
                if self.names.get(name).is_some_and(|it| it.listed.is_some()) {
                    self.remove(name);
                }
            }
        }
    }

    /// The names of EgressFirewalls that disappeared.
    pub(super) fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.names.keys().chain(&self.believed)
    }

    /// Records an object that no EgressFirewall has used since it was first seen.
    pub(super) fn note_unused(&mut self, name: &DnsName, now: Timestamp) {
        self.add(name, now);
    }

    fn add(&mut self, name: &DnsName, now: Timestamp) -> &mut AbsentName {
        self.due = Timestamp::default();
        self.names.entry(name.clone()).or_insert(AbsentName {
            first: now,
            since: now,
            listed: None,
            waits_long: false,
        })
    }

    pub(super) fn remove(&mut self, name: &DnsName) {
        self.names.remove(name);
        self.was_exceeded &= !self.names.is_empty();
    }

    /// Whether the name's rules count as ended, though their EgressFirewalls are still held.
    pub(super) fn is_believed(&self, name: &DnsName) -> bool {
        self.believed.contains(name)
    }

    /// Starts all delays again: a store was out of sync, the process slept, or the clock was set.
    pub(super) fn restart(&mut self, now: Timestamp) {
        for absence in self.names.values_mut() {
            (absence.since, absence.first) = (now, absence.first.min(now));
        }
        for (at, _) in &mut self.counted {
            *at = (*at).min(now);
        }
        self.due = Timestamp::default();
    }

    /// Whether few names are absent, compared with all names in use. After too many, the remaining
    /// ones wait for [`ABSENT_AFTER`] from now on, each only once. Otherwise a tenant whose
    /// EgressFirewall comes and goes would hold the names of all others for ever. While some rules
    /// are unknown, objects without a rule do not count: their EgressFirewall may be among those.
    fn update_limit(&mut self, in_use: usize, unknown_rules: bool, now: Timestamp) -> bool {
        while self
            .counted
            .front()
            .is_some_and(|(at, _)| *at + COUNTED <= now)
        {
            self.counted.pop_front();
        }
        let counted: usize = self.counted.iter().map(|(_, names)| names).sum();
        let is_few = are_few(self.names.len() + counted, in_use);
        let is_exceeded = !is_few && (self.was_exceeded || !unknown_rules);
        if std::mem::replace(&mut self.was_exceeded, is_exceeded) && is_few {
            for absence in self.names.values_mut().filter(|it| !it.waits_long) {
                (absence.since, absence.waits_long) = (now, true);
            }
        }
        is_few
    }

    /// The names whose absence is accepted now. An object without a rule may belong to an
    /// EgressFirewall that cannot be decoded. It is kept for [`ABSENT_AFTER`] only, since one
    /// tenant can cause that state.
    fn believe(&mut self, is_few: bool, unknown_rules: bool, now: Timestamp) -> Vec<DnsName> {
        if unknown_rules {
            self.rules_known_since = now;
        }
        let rules_known_since = self.rules_known_since.min(now);
        let names = self.names.iter();
        let believed = names.filter(|(_, absence)| {
            let is_old = absence.since + ABSENT_AFTER <= now;
            let may_go = is_few && (is_old || !absence.waits_long);
            match absence.listed {
                // The task of the EgressFirewalls decides when a disappeared one has been absent
                // for long enough.
                Some(listed) => listed && may_go,
                None => is_old || (may_go && absence.since.max(rules_known_since) + SETTLED <= now),
            }
        });
        let believed: Vec<DnsName> = believed.map(|(name, _)| name.clone()).collect();
        for name in &believed {
            if let Some(absence) = self.names.remove(name)
                && absence.listed.is_some()
            {
                self.believed.insert(name.clone());
            }
        }
        if !believed.is_empty() {
            self.counted.push_back((now, believed.len()));
            // The number fell because absences were accepted, not because names came back.
            self.was_exceeded = false;
        }
        believed
    }

    /// Names that are held for longer than accepting a few absences takes.
    pub(super) fn held(&self, now: Timestamp) -> impl Iterator<Item = &DnsName> {
        let names = self.names.iter();
        let held = names.filter(move |(_, absence)| absence.first + TOLD_AFTER <= now);
        held.map(|(name, _)| name)
    }
    pub(super) fn has(&self, name: &DnsName) -> bool {
        self.names.contains_key(name)
    }

    /// The time of the next check.
    pub(super) fn next(&self) -> Option<Timestamp> {
        (!self.names.is_empty()).then_some(self.due)
    }

    /// A store is out of sync: starts the delays again and puts the next check off.
    pub(super) fn put_off(&mut self, now: Timestamp) {
        self.restart(now);
        self.due = now + INTERVAL;
    }

    /// Checks the absent names against the number of names in use. Returns those whose absence is
    /// accepted now.
    pub(super) fn look(
        &mut self,
        wanted: usize,
        unknown_rules: bool,
        now: Timestamp,
    ) -> Vec<DnsName> {
        self.due = now + INTERVAL;
        let unused = self.names.values().filter(|it| it.listed.is_none());
        let in_use = wanted + unused.count();
        let is_few = self.update_limit(in_use, unknown_rules, now);
        self.believe(is_few, unknown_rules, now)
    }
}
