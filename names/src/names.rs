//! The table of all names.
//!
//! `answers`: what answers and look-ups change. `advance`: what time, the lead and the caps change.

mod advance;
mod answers;

use std::{collections::BTreeSet, iter::once, mem, net::IpAddr, sync::Arc, time::Duration};

use foldhash::HashMap;
use proto::{
    api::{DnsName, DnsNameResolverStatus},
    timestamp::Timestamp,
};

use crate::{
    Admitted, Changes, Entry, Eviction, Evictions, GapBackfill, Limits, LookupScheduler, Namespace,
    NamespaceAtCap, NamespaceCaps, NextLookup, Provenance, RuleUse, StatusUpdate, Stored,
    UpdateEffect, caps::NamespaceUse, wakes::Wakes,
};

/// The names of rules and of objects, their addresses, and when each is looked up.
#[derive(Debug)]
pub struct Names {
    /// The limits of names without a rule.
    limits: Arc<Limits>,
    unused: Arc<RuleUse>,
    entries: HashMap<DnsName, Box<Entry>>,
    wakes: Wakes,
    schedule: LookupScheduler,
    backfill: GapBackfill,
    caps: NamespaceUse,
    /// Whether this process looks names up and removes addresses.
    leads: bool,
    /// A listed DNS server does not stream here, so its clients may use any name.
    is_server_missing: bool,
    /// When all names were last marked as in use for that.
    not_idle_at: Timestamp,
    evictions: Evictions,
    changes: Changes,
}

/// The new addresses that an answer brought to a name of rules. Under a wildcard, no other name had them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Added {
    /// The name, as a rule or an object has it.
    pub rule_name: DnsName,
    /// The name of the question.
    pub name: DnsName,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// The time of the answer by the DNS server's clock.
    pub server_time: Option<Timestamp>,
    /// When the answer was read.
    pub read_at: Timestamp,
    /// Where it came from.
    pub source: Provenance,
}

impl Names {
    /// An empty table of a standby. `limits`: of names without a rule.
    pub fn new(limits: Limits, caps: NamespaceCaps) -> Self {
        let limits = Arc::new(limits);
        Self {
            unused: Arc::new(RuleUse::none(Arc::clone(&limits))),
            limits,
            entries: HashMap::default(),
            wakes: Wakes::default(),
            schedule: LookupScheduler::default(),
            backfill: GapBackfill::default(),
            caps: NamespaceUse::new(caps),
            leads: false,
            is_server_missing: false,
            not_idle_at: Timestamp::default(),
            evictions: Evictions::default(),
            changes: Changes::default(),
        }
    }

    /// Sets how rules use a name; `None` if none does. The name stays for [`UNUSED_FOR`](crate::UNUSED_FOR) after its
    /// last rule.
    pub fn apply_rule(&mut self, name: &DnsName, rule_use: Option<Arc<RuleUse>>, now: Timestamp) {
        let Some(rule_use) = rule_use else {
            if let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.is_used) {
                entry.is_used = false;
                entry.unused_since = Some(now);
                self.changes.mark(name, None);
            }
            return;
        };
        let entry = self.entry_or_new(name);
        entry.unused_since = None;
        let was_used = mem::replace(&mut entry.is_used, true);
        let before = mem::replace(&mut entry.rule_use, rule_use);
        if was_used && before.limits == entry.rule_use.limits {
            return;
        }
        self.on_first_use(name);
        self.changes.mark(name, None);
        self.reschedule(name);
        // The times of a status are later than those of the DNS server, whose answers may be others by now.
        if !was_used
            && self.schedule.is_active
            && let Some(entry) = self.entries.get(name)
        {
            for name in entry.list().names().filter(|name| !name.is_wildcard()) {
                self.schedule.schedule_early(name, now);
            }
        }
    }

    /// Sets the names in the rules of a namespace.
    pub fn set_names_of_namespace(&mut self, namespace: Namespace, names: Option<Arc<[DnsName]>>) {
        self.caps.set_names(namespace, names);
    }

    /// Copies addresses between new names and names in use. A wildcard gets those of the regular names under it, and a
    /// regular name those of its wildcard. So neither begins without the addresses that pods use. An address survives
    /// the name through which it came. One pass handles all new names.
    pub fn share(&mut self, new: &BTreeSet<DnsName>, now: Timestamp) {
        let mut copies: Vec<(DnsName, DnsName, DnsName)> = Vec::new();
        let regular = new.iter().filter(|name| !name.is_wildcard());
        copies.extend(
            regular.filter_map(|name| Some((name.wildcard()?, name.clone(), name.clone()))),
        );
        if new.iter().any(DnsName::is_wildcard) {
            for name in self.entries.keys().filter(|name| !name.is_wildcard()) {
                if let Some(wildcard) = name.wildcard().filter(|it| new.contains(it)) {
                    copies.push((name.clone(), wildcard, name.clone()));
                }
            }
        }
        for (from, to, name) in copies {
            let known = self.entries.get(&from);
            let Some(copy) = known.and_then(|entry| entry.list().copy(&name)) else {
                continue;
            };
            let Some(entry) = self.entries.get_mut(&to).filter(|it| !it.is_left_out) else {
                continue;
            };
            let effect = entry.state.merge_snapshot(copy);
            self.apply_effect(&to, &effect, None, now);
            self.reschedule(&name);
        }
    }

    /// Applies the status of an object of the name, as the store has it, and returns its compact form. Refused addresses
    /// are skipped. A status that is `None` has nothing. `before`: the last known status of the object, if there is one.
    pub fn apply_stored(
        &mut self,
        name: &DnsName,
        status: Option<&DnsNameResolverStatus>,
        before: Option<&Stored>,
        admit: impl Fn(IpAddr) -> Admitted,
        now: Timestamp,
    ) -> Stored {
        let leads = self.leads;
        let entry = self.entry_or_new(name);
        let stored = match status {
            Some(status) => Stored::new(status, &entry.state),
            None => Stored::default(),
        };
        let effect = match entry.is_left_out {
            true => UpdateEffect::default(),
            false => {
                let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
                state.apply_stored(&stored, before, now, limits, admit)
            }
        };
        if !leads {
            entry
                .state
                .apply_leader_removals(&stored, now, &entry.rule_use.limits);
        }
        let names = entry.list().names().chain([name]);
        let names: Vec<DnsName> = names.cloned().collect();
        self.apply_effect(name, &effect, None, now);
        for name in &names {
            self.reschedule(name);
        }
        self.on_first_use(name);
        self.changes.mark(name, None);
        stored
    }

    /// The status that should replace `stored`, if that one is not good enough. Kube-OVN's reader skips names with
    /// failures: `hides_failures` leaves out their number.
    pub fn status_of(
        &mut self,
        name: &DnsName,
        stored: &Stored,
        hides_failures: bool,
        now: Timestamp,
    ) -> Option<StatusUpdate> {
        let entry = self.entries.get_mut(name)?;
        let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
        if hides_failures {
            StatusUpdate::without_failures(state, stored, limits, now)
        } else {
            StatusUpdate::new(state, stored, limits, now)
        }
    }

    /// The store refuses the object for its size: a tenth of it leaves.
    pub fn shrink(&mut self, name: &DnsName, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(name) {
            let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
            let effect = Eviction::new(state, limits).shrink();
            self.apply_effect(name, &effect, None, now);
        }
    }

    /// Enforces the caps of a name, as before a write of its status.
    pub fn enforce(&mut self, name: &DnsName, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(name) {
            let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
            let effect = Eviction::new(state, limits).enforce();
            self.apply_effect(name, &effect, None, now);
        }
    }

    /// Removes a name without rule and object.
    pub fn remove(&mut self, name: &DnsName) {
        let Some(entry) = self.entries.remove(name) else {
            return;
        };
        self.wakes.remove(name, entry.wake);
        self.changes.indexed.insert(name.clone(), false);
        for name in entry.list().names().chain([name]) {
            self.reschedule(name);
        }
    }

    /// The changes since the last call.
    pub fn take_changes(&mut self) -> Changes {
        mem::take(&mut self.changes)
    }

    /// The entry of a name.
    pub fn get(&self, name: &DnsName) -> Option<&Entry> {
        self.entries.get(name).map(|entry| &**entry)
    }

    /// All names with their entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&DnsName, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name, &**entry))
    }

    /// The text of a known name, to be shared.
    pub fn known(&self, text: &str) -> Option<&DnsName> {
        self.entries.get_key_value(text).map(|(name, _)| name)
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether this process looks names up and removes addresses.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// The limits of names without a rule.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// What was evicted since the start of the process.
    pub fn evictions(&self) -> Evictions {
        self.evictions
    }

    /// The number of names that are left out.
    pub fn names_left_out(&self) -> usize {
        self.caps.names_left_out()
    }

    /// The namespaces at a cap.
    pub fn at_cap(&self) -> impl Iterator<Item = NamespaceAtCap> {
        self.caps.at_cap()
    }

    /// The namespaces with a rule for the name that are at a cap.
    pub fn at_cap_of(&self, entry: &Entry) -> impl Iterator<Item = NamespaceAtCap> {
        self.caps.at_cap_of(entry)
    }

    fn entry_or_new(&mut self, name: &DnsName) -> &mut Entry {
        self.entries.entry(name.clone()).or_insert_with(|| {
            self.changes.indexed.insert(name.clone(), true);
            Box::new(Entry::new(name.clone(), &self.unused))
        })
    }

    fn on_first_use(&mut self, name: &DnsName) {
        if let Some(entry) = self.entries.get_mut(name)
            && mem::take(&mut entry.is_new)
        {
            self.changes.new.insert(name.clone());
        }
    }

    /// Handles the effect of an update of a name. `answered`: the time of the answer that caused it.
    fn apply_effect(
        &mut self,
        rule_name: &DnsName,
        effect: &UpdateEffect,
        answered: Option<Timestamp>,
        now: Timestamp,
    ) {
        if self.schedule.is_active {
            for name in &effect.from_others {
                self.schedule.schedule_early(name, now);
            }
        }
        if effect.evicted_addresses + effect.evicted_names > 0 {
            self.changes.counts.evicted_addresses += effect.evicted_addresses as u64;
            self.changes.counts.evicted_names += effect.evicted_names as u64;
            self.evictions.add(effect);
            if let Some(entry) = self.entries.get_mut(rule_name) {
                entry.evicted.get_or_insert_default().add(effect);
                self.changes.evicted.insert(rule_name.clone());
            }
        }
        for name in &effect.names_gone {
            let is_used = self.entries.get(name).is_some_and(|it| !it.is_left_out);
            if name != rule_name && !is_used {
                self.schedule.discard(name);
            }
            self.reschedule(name);
        }
        if effect.urgent || effect.times {
            let since = answered.filter(|_| effect.urgent && self.leads);
            self.changes.mark(rule_name, since);
        }
    }

    /// Sets when the name is looked up: when its first address expires. A name in use is due at once if it has no
    /// address, or only retained ones that a look-up no longer returned. Then it has the interval of failed look-ups.
    fn reschedule(&mut self, name: &DnsName) {
        let mut at: Option<Timestamp> = None;
        let mut grace = Duration::MAX;
        let mut is_unknown = false;
        if self.schedule.is_active {
            for rule_name in once(name.clone()).chain(name.wildcard()) {
                let Some(entry) = self.entries.get(&rule_name).filter(|it| !it.is_left_out) else {
                    continue;
                };
                let next = entry.list().next_lookup(name, &entry.rule_use.limits);
                is_unknown |= rule_name == *name && next.is_none();
                at = at.into_iter().chain(next).min();
                grace = grace.min(entry.rule_use.limits.grace);
            }
        }
        let next = match at {
            _ if is_unknown => NextLookup::Initial,
            Some(at) => NextLookup::Refresh { at, grace },
            None => NextLookup::Never {
                is_removed: !self.entries.contains_key(name),
            },
        };
        self.schedule.reschedule(name, next);
    }
}
