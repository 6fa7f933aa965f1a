//! The table of all names.

use std::{
    collections::{BTreeSet, HashMap},
    iter::once,
    mem,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use proto::{
    api::{DnsName, DnsNameResolverStatus},
    timestamp::Timestamp,
};

use crate::{
    Admitted, Changes, Entry, Eviction, Evictions, FamilyOutcome, FamilyResult, GapBackfill,
    Limits, LookupResult, LookupScheduler, LookupSummary, Namespace, NamespaceAtCap, NamespaceCaps,
    NextLookup, Observation, Provenance, Request, RuleUse, StatusUpdate, Stored, UpdateEffect,
    caps::NamespaceUse, wakes::Wakes,
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
    pub answered_at: Option<Timestamp>,
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
            entries: HashMap::new(),
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

    // Rules.

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
    }

    /// Sets the names in the rules of a namespace.
    pub fn set_names_of_namespace(&mut self, namespace: Namespace, names: Option<Arc<[DnsName]>>) {
        self.caps.set_names(namespace, names);
    }

    /// Forgets the names in the rules of all namespaces.
    pub fn clear_names_of_namespaces(&mut self) {
        self.caps.clear_names();
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

    // Answers and look-ups.

    /// Applies an answer to the name itself and to the wildcard above it. Returns the addresses that are new.
    pub fn apply_answer(&mut self, answer: &Observation) -> Vec<Added> {
        let mut added = Vec::new();
        if answer.addresses.is_empty() {
            return added;
        }
        let wildcard = answer.name.wildcard();
        for rule_name in once(&answer.name).chain(wildcard.as_ref()) {
            added.extend(self.apply_answer_to(rule_name, answer));
        }
        if answer.client.is_some() {
            self.schedule.reset_backoff(&answer.name);
        }
        self.reschedule(&answer.name);
        // For a look-up of the collector only the datagram was truncated: TCP brought the rest.
        if answer.truncated && answer.client.is_some() {
            self.ask_over_tcp(&answer.name, answer.at);
        }
        added
    }

    fn apply_answer_to(&mut self, rule_name: &DnsName, answer: &Observation) -> Option<Added> {
        let entry = self
            .entries
            .get(rule_name)
            .filter(|entry| !entry.is_left_out)?;
        let admitted = self.caps.admit(entry, answer);
        if let Some((_, left_out)) = &admitted {
            self.changes.counts.left_out += *left_out as u64;
            self.changes
                .at_cap
                .extend(self.caps.take_unreported(entry, answer.at));
        }
        let answer = admitted.as_ref().map_or(answer, |(answer, _)| answer);
        let entry = self.entries.get_mut(rule_name)?;
        let before = entry.counted_addresses();
        let added = new_addresses(entry, answer);
        let effect = entry.state.observe(answer, &entry.rule_use.limits);
        let is_crowded = entry
            .state
            .size()
            .is_crowded(entry.state.list(), &entry.rule_use.limits);
        self.apply_effect(rule_name, &effect, Some(answer.at), answer.at);
        if is_crowded {
            self.enforce(rule_name, answer.at);
        }
        let entry = self.entries.get(rule_name)?;
        self.caps.add(entry, before);
        added
    }

    /// Applies a look-up of a name in both families. Returns the addresses that are new.
    pub fn apply_lookup(&mut self, result: &LookupResult, now: Timestamp) -> Vec<Added> {
        let mut added = Vec::new();
        if !self.schedule.is_discarded(&result.name) {
            for mut answer in result.observations() {
                answer.at = answer.at.min(now);
                added.extend(self.apply_answer(&answer));
            }
        }
        let outcomes = [&result.v4, &result.v6];
        let has_addresses = outcomes.iter().any(|outcome| outcome.has_addresses());
        let summary = LookupSummary {
            results: outcomes.map(FamilyResult::from),
            failure: result.failed(),
            // The clock may have been set back meanwhile.
            started: result.started.min(now),
        };
        for rule_name in once(result.name.clone()).chain(result.name.wildcard()) {
            let Some(entry) = self.entries.get_mut(&rule_name) else {
                continue;
            };
            if !self.leads || entry.is_left_out {
                continue;
            }
            let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
            let effect = state.looked_up(&result.name, summary, now, limits);
            // Addresses that waited for a look-up may leave now, whatever its result.
            self.changes.mark(&rule_name, None);
            self.apply_effect(&rule_name, &effect, None, now);
        }
        self.schedule
            .done(&result.name, has_addresses, result.is_unresponsive, now);
        self.reschedule(&result.name);
        let is_cut = |outcome: &&FamilyOutcome| {
            outcome.has_addresses() && FamilyResult::from(*outcome) != FamilyResult::Complete
        };
        if outcomes.iter().any(is_cut) {
            self.ask_over_tcp(&result.name, now);
        }
        added
    }

    /// There may be more addresses than the datagram had.
    fn ask_over_tcp(&mut self, name: &DnsName, now: Timestamp) {
        if self.schedule.is_active {
            self.schedule.ask(name, now);
            self.schedule.use_tcp(name);
        }
    }

    /// Answers may have been lost until now. No address leaves before one more TTL and grace, and a leader looks every
    /// name up. `lost`: the names of answers that are known to be lost.
    pub fn on_stream_gap(
        &mut self,
        is_any_lost: bool,
        lost: impl IntoIterator<Item = DnsName>,
        now: Timestamp,
    ) {
        if is_any_lost {
            self.backfill.is_owed = true;
            for entry in self.entries.values_mut() {
                entry.state.hold(now, &entry.rule_use.limits);
            }
            let has_wildcards = self.entries.keys().any(DnsName::is_wildcard);
            self.changes.counts.wildcard_gaps += u64::from(has_wildcards);
        }
        for name in lost {
            self.ask_lost(&name, now);
        }
    }

    /// The answer for a name was lost: looks it up again, if it is wanted.
    fn ask_lost(&mut self, name: &DnsName, now: Timestamp) {
        let mut rule_names = once(name.clone()).chain(name.wildcard());
        if self.schedule.is_active && rule_names.any(|it| self.entries.contains_key(&it)) {
            match self.schedule.ask_lost(name, now) {
                true => self.changes.counts.asked_after_loss += 1,
                false => self.changes.counts.losses_dropped += 1,
            }
        }
    }

    /// The next name to look up, if one is due.
    pub fn next_due(&mut self, now: Timestamp) -> Option<Request> {
        let next = self.schedule.pop(now)?;
        let name = next.name;
        let rule_names = once(name.clone()).chain(name.wildcard());
        let known = rule_names
            .filter_map(|it| Some(self.entries.get(&it)?.list().addresses_of(&name)))
            .max();
        Some(Request {
            name,
            known: known.unwrap_or(0),
            over_tcp: next.over_tcp,
            due: next.due,
            is_patient: next.is_patient,
        })
    }

    /// When a name is looked up next, if that is known.
    pub fn due(&self, name: &DnsName) -> Option<Timestamp> {
        self.schedule.due(name)
    }

    /// Look-ups of the name in a row that found no address.
    pub fn fruitless_lookups(&self, name: &DnsName) -> u32 {
        self.schedule.fruitless(name)
    }

    /// The number of names that wait for a look-up or are being looked up.
    pub fn scheduled(&self) -> usize {
        self.schedule.count()
    }

    // Statuses.

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
            entry.state.follow(&stored, now, &entry.rule_use.limits);
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
        match hides_failures {
            true => StatusUpdate::without_failures(state, stored, limits, now),
            false => StatusUpdate::new(state, stored, limits, now),
        }
    }

    /// The store refuses the object for its size: a tenth of it leaves.
    pub fn shrink(&mut self, name: &DnsName, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(name) {
            let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
            let effect = Eviction::new(state, limits, now).shrink();
            self.apply_effect(name, &effect, None, now);
        }
    }

    /// Enforces the caps of a name, as before a write of its status.
    pub fn enforce(&mut self, name: &DnsName, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(name) {
            let (state, limits) = (&mut entry.state, &entry.rule_use.limits);
            let effect = Eviction::new(state, limits, now).enforce();
            self.apply_effect(name, &effect, None, now);
        }
    }

    /// Removes a name without rule and object. Its live addresses are among the changes, for a rule that comes back.
    pub fn remove(&mut self, name: &DnsName, now: Timestamp) {
        let Some(entry) = self.entries.remove(name) else {
            return;
        };
        self.wakes.replace(name, entry.wake, None);
        self.changes.indexed.insert(name.clone(), false);
        for (name, family, addresses, client) in entry.list().alive(now) {
            self.changes.forgotten.push(Observation {
                name: name.clone(),
                family,
                addresses: addresses.into_iter().collect(),
                at: now,
                answered_at: None,
                given: now,
                client,
                truncated: false,
                source: Provenance::REMEMBERED,
            });
        }
        for name in entry.list().names().chain([name]) {
            self.reschedule(name);
        }
    }

    // Time, and what the whole table must know.

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
            self.apply_caps(now);
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
        self.changes.counts.asked_after_gap += count as u64;
    }

    fn apply_caps(&mut self, now: Timestamp) {
        let changes = self.caps.reconcile(&self.entries);
        self.changes.at_cap.extend(changes.at_cap);
        for name in &changes.left_out {
            let Some(entry) = self.entries.get_mut(name) else {
                continue;
            };
            entry.is_left_out = true;
            let mut found = BTreeSet::from([name.clone()]);
            found.extend(entry.state.leave_out(now).into_iter().map(|(name, _)| name));
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

    /// Sets when the name is checked without an event: at its next removal. Called after its status was computed.
    pub fn set_wake(&mut self, name: &DnsName, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let removal = match self.leads {
            true => entry.list().next_removal(&entry.rule_use.limits),
            false => None,
        };
        // Never in the past, or the checks would never end.
        let wake = removal.map(|at| at.max(now + Duration::from_millis(1)));
        let old = mem::replace(&mut entry.wake, wake);
        self.wakes.replace(name, old, wake);
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
            entry.state.gap(now, &entry.rule_use.limits);
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

    // Reading.

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

    // Parts.

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
                self.schedule.ask(name, now);
                self.schedule.use_tcp(name);
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
        for name in &effect.gone {
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
                is_forgotten: !self.entries.contains_key(name),
            },
        };
        self.schedule.reschedule(name, next);
    }
}

/// The addresses of the answer that no name of the entry has.
fn new_addresses(entry: &Entry, answer: &Observation) -> Option<Added> {
    let list = entry.list();
    // Most addresses are known, and the first search is fast.
    let is_new = |ip: &IpAddr| !list.has(&answer.name, ip) && !list.has_address(*ip);
    let addresses = answer.addresses.iter().map(|(ip, _)| *ip);
    let addresses: Vec<IpAddr> = addresses.filter(is_new).collect();
    (!addresses.is_empty()).then(|| Added {
        rule_name: list.rule_name().clone(),
        name: answer.name.clone(),
        addresses,
        answered_at: answer.answered_at,
        read_at: answer.at,
        source: answer.source,
    })
}
