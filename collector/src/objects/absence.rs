//! Names that no EgressFirewall has any more although none was seen to drop them: when their absence is believed.
//!
//! A name that an edit takes out of a present EgressFirewall has no rule from then on. Names whose EgressFirewalls went, and
//! objects that no EgressFirewall used when they were first seen, may be away by mistake: a store that is restored, or a kind
//! that is deleted, looks like the end of all rules. Such names are held: all goes on for them as before.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use proto::api::DnsName;
use runtime::{absence::are_few, clock::Timestamp};

use crate::rules::ABSENT_AFTER;

/// An absence is believed no sooner: a store that loses objects one after the other is to be seen as what it is.
const SETTLED: Duration = Duration::from_secs(5);

/// Names whose absence was believed count for so long against the limit.
const COUNTED: Duration = Duration::from_secs(3600);

/// Names that are away for so long are told of.
const TOLD_AFTER: Duration = Duration::from_secs(15);

/// How often the absent names are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// The names that are away.
#[derive(Debug, Default)]
pub(super) struct Absences {
    names: BTreeMap<DnsName, Absence>,
    /// Names that EgressFirewalls had which went, and whose absence was believed before that of the EgressFirewalls.
    believed: BTreeSet<DnsName>,
    /// How many names were believed to be away, and when.
    counted: VecDeque<(Timestamp, usize)>,
    /// Too many were away at the last look.
    was_exceeded: bool,
    /// Until then an EgressFirewall could not be read and never could.
    rules_known_since: Timestamp,
    /// When to look at them next.
    due: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Absence {
    /// Since when the name is away.
    first: Timestamp,
    /// Since when the stores are in sync besides.
    since: Timestamp,
    /// A complete list lacks every EgressFirewall that had the name. `None`: an object that no EgressFirewall used when it was
    /// first seen.
    listed: Option<bool>,
    /// It was away when the limit held again after it was exceeded. Others came back, so this one may be on its way too.
    waits_long: bool,
}

impl Absences {
    /// Takes in whether only EgressFirewalls that went have the name, and if so, whether a complete list lacks them.
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

    /// The names of EgressFirewalls that went, as far as it is known.
    pub(super) fn names(&self) -> impl Iterator<Item = &DnsName> {
        self.names.keys().chain(&self.believed)
    }

    /// An object is there that no EgressFirewall used since it was first seen.
    pub(super) fn note_unused(&mut self, name: &DnsName, now: Timestamp) {
        self.add(name, now);
    }

    fn add(&mut self, name: &DnsName, now: Timestamp) -> &mut Absence {
        self.due = Timestamp::default();
        self.names.entry(name.clone()).or_insert(Absence {
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

    /// Whether the end of the name's rules was believed, though the absence of the EgressFirewalls is not yet.
    pub(super) fn is_believed(&self, name: &DnsName) -> bool {
        self.believed.contains(name)
    }

    /// The delays begin anew: a store was out of sync, the process slept, or the clock was set.
    pub(super) fn restart(&mut self, now: Timestamp) {
        for absence in self.names.values_mut() {
            (absence.since, absence.first) = (now, absence.first.min(now));
        }
        for (at, _) in &mut self.counted {
            *at = (*at).min(now);
        }
        self.due = Timestamp::default();
    }

    /// Whether few are away, of a store with so many names in use. If too many were until now, those that are left wait for
    /// [`ABSENT_AFTER`] from now on, each of them once: otherwise a tenant whose EgressFirewall comes and goes would hold the
    /// names of all others for ever. While rules are not known, objects without one do not count as too many: their EgressFirewall
    /// is there.
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

    /// The names whose absence is believed now. Rules that are not known may be those of objects that no EgressFirewall uses:
    /// such an object is kept for [`ABSENT_AFTER`], and no longer, since one tenant can cause it.
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
                // Of EgressFirewalls that went their own task tells when they are away for long enough.
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
            // Fewer are away as their time was over: none of them came back.
            self.was_exceeded = false;
        }
        believed
    }

    /// How many names are away for longer than it takes to believe a few.
    pub(super) fn held(&self, now: Timestamp) -> impl Iterator<Item = &DnsName> {
        let names = self.names.iter();
        let held = names.filter(move |(_, absence)| absence.first + TOLD_AFTER <= now);
        held.map(|(name, _)| name)
    }
    /// Whether the name is away.
    pub(super) fn has(&self, name: &DnsName) -> bool {
        self.names.contains_key(name)
    }

    /// When the absent names are to be looked at.
    pub(super) fn next(&self) -> Option<Timestamp> {
        (!self.names.is_empty()).then_some(self.due)
    }

    /// A store is out of sync: the delays begin anew, and the names are looked at again a while later.
    pub(super) fn put_off(&mut self, now: Timestamp) {
        self.restart(now);
        self.due = now + INTERVAL;
    }

    /// Looks at the names that are away, of so many in use. Returns those whose absence is believed by now.
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
