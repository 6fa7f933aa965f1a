//! The desired and the actual state, and the differences of a name's sets.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Instant,
};

use foldhash::{HashMap, HashSet};
use ovsdb_replica::Outcome;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{inspect::text::few, store::Event};
use uuid::Uuid;

use super::{
    CreateSets, Differences, Policy,
    absence::{Absence, AbsenceLimit},
    change::Change,
    index::Index,
    name_conflicts::NameConflicts,
    plan::{Case, Clocks, Creation, Finding, Plan, Reason, SetRow, Trigger, plan},
    set_of::SetOf,
};
use crate::{
    address_set::{self, AddressSet, NameForm},
    desired::{Desired, Presence, Wanted},
    references::{NorthboundChanges, NorthboundReplica, References, SetName},
};

/// The error of a transaction with a failed `wait` (RFC 7047 section 5.2.6).
const TIMED_OUT: &str = "timed out";

/// The state of both sides.
#[derive(Debug)]
pub struct SyncState {
    pub(super) policy: Policy,
    pub(crate) desired: Desired,
    pub(crate) references: References,
    pub(crate) differences: Differences,
    pub(crate) name_conflicts: NameConflicts,
    absence: AbsenceLimit,
    /// See [`Case::closes_from`].
    pub(super) closes_from: Option<Instant>,
    /// Whether ovn-kubernetes was ever seen to manage the address sets of the database.
    pub(super) is_managed: bool,
    /// Since when rules of ovn-kubernetes have been in the database.
    managed_since: Option<Instant>,
    /// The creation policy as of the last check.
    creation: Option<Creation>,
    /// Whether every name has been compared since the database was read.
    pub(crate) is_compared: bool,
    index: Index,
    /// The records of names.
    records: HashMap<DnsName, NameRecord>,
    /// The addresses that this program added to rows that other clients fill too.
    inserted: HashMap<Uuid, BTreeSet<IpAddr>>,
}

/// The remembered state of a name.
#[derive(Debug, Default)]
struct NameRecord {
    clocks: Clocks,
    differences: Differences,
}

impl SyncState {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            desired: Desired::new(policy.options.filter.clone()),
            policy,
            references: References::default(),
            differences: Differences::default(),
            name_conflicts: NameConflicts::default(),
            absence: AbsenceLimit::default(),
            closes_from: None,
            is_managed: false,
            managed_since: None,
            creation: None,
            is_compared: false,
            index: Index::default(),
            records: HashMap::default(),
            inserted: HashMap::default(),
        }
    }

    /// Applies an event of the store, and returns the names that may differ because of it.
    pub(super) fn store_changed(
        &mut self,
        event: &Event<DnsNameResolver>,
        now: Instant,
    ) -> HashSet<DnsName> {
        let before = self.desired.names().len();
        let names = self.desired.apply(event, now);
        // It never drops a name, so only new names are missing in the index.
        if self.desired.names().len() != before {
            names.iter().for_each(|name| self.index.add(name));
        }
        names
    }

    /// Applies a new read of the database, and returns all names that may differ.
    pub(super) fn database_read(&mut self, replica: &NorthboundReplica) -> HashSet<DnsName> {
        self.references = References::of(replica);
        self.name_conflicts.clear();
        let options = &self.policy.options;
        let rows = || replica.0.iter().map(|(_, row)| row);
        let is_marked = |row: &AddressSet| {
            row.is_marked_managed() && row.store().is_some_and(|s| options.is_ours(s))
        };
        self.is_managed |= self.references.managed_rules() > 0 || rows().any(is_marked);
        self.inserted
            .retain(|uuid, _| replica.0.get(*uuid).is_some());
        let names = self.desired.names();
        self.index.read(replica, &self.references, names);
        // Across a gap it is unknown how long a row has been unused or different.
        for record in self.records.values_mut() {
            record.clocks = Clocks::default();
        }
        self.desired.compare_all();
        self.is_compared = false;
        let with_rows = rows().filter_map(|row| Some(row.identity()?.name.clone()));
        let known = self.desired.names().chain(self.records.keys());
        known.cloned().chain(with_rows).collect()
    }

    /// Applies changes of the database, and returns the names for whose sets the references may have changed.
    pub(super) fn database_changed(
        &mut self,
        replica: &NorthboundReplica,
        changes: &NorthboundChanges,
    ) -> HashSet<DnsName> {
        let touched = self.references.update(replica, changes);
        self.is_managed |= self.references.managed_rules() > 0;
        let mut names = (self.index).changed(replica, changes, &self.references, &touched);
        let rows = touched
            .rows
            .iter()
            .filter_map(|uuid| replica.0.get(*uuid)?.identity());
        names.extend(rows.map(|identity| identity.name.clone()));
        names
    }

    /// Updates the state that all names share, and returns the names to check again.
    pub(super) fn wake(&mut self, now: Instant) -> HashSet<DnsName> {
        let mut again = HashSet::default();
        if self.references.managed_rules() == 0 {
            self.managed_since = None;
        } else if self.managed_since.is_none() {
            self.managed_since = Some(now);
        }
        let creation = self.creation(now);
        if self
            .creation
            .replace(creation)
            .is_some_and(|it| it != creation)
        {
            again.extend(self.desired.names().cloned());
        }
        again
    }

    /// Records that every name was compared with the database. Returns the names that this affects.
    pub(super) fn all_compared(&mut self, now: Instant) -> HashSet<DnsName> {
        let mut again = HashSet::default();
        let are_released = self.absence.wake(self.desired.is_in_sync(), now);
        if !std::mem::replace(&mut self.is_compared, true) || are_released {
            again.extend(self.absence.names().cloned());
        }
        if self.desired.is_in_sync()
            && !self.desired.has_unknown_object()
            && let Some(until) = self.policy.allow_empty_until.take()
            && now < until
        {
            let names = self.allow_empty();
            tracing::warn!(
                count = names.len(),
                names = few(names.iter(), 3),
                "--allow-empty-until: names in use have no DNSNameResolver object, and their address sets are emptied after 5 s. To keep them, stop this program and remove the flag"
            );
            again.extend(names);
        }
        again
    }

    /// Permits to close the names that are absent now, and returns them.
    pub(super) fn allow_empty(&mut self) -> Vec<DnsName> {
        let mut names: Vec<_> = self.absence.names().cloned().collect();
        names.sort_unstable();
        for name in &names {
            self.desired.permit(name, true);
        }
        names
    }

    /// When to call [`SyncState::wake`] or [`SyncState::all_compared`] next, even without an event.
    pub(super) fn next_timer(&self, now: Instant) -> Option<Instant> {
        let delays = self.policy.options.delays;
        let settled = self
            .managed_since
            .map(|since| since + delays.managed_settle);
        let is_awaited = self.policy.create == CreateSets::Always;
        let settled = settled.filter(|at| is_awaited && *at > now);
        let absence = self.absence.next_timer(delays.suspect, now);
        settled.into_iter().chain(absence).min()
    }

    /// Whether ovn-kubernetes manages the address sets of the database, as far as known.
    pub fn is_managed(&self) -> bool {
        self.is_managed || self.policy.is_managed
    }

    /// When rows are made.
    pub(super) fn creation(&self, now: Instant) -> Creation {
        let settle = self.policy.options.delays.managed_settle;
        match self.policy.create {
            CreateSets::Never => Creation::Never,
            CreateSets::Auto | CreateSets::Always if !self.is_managed() => Creation::AtOnce,
            // ovn-kubernetes' own clean-up, when it starts on an empty database, would delete them.
            CreateSets::Always if self.managed_since.is_some_and(|it| now >= it + settle) => {
                Creation::AtOnce
            }
            CreateSets::Auto | CreateSets::Always => Creation::WhenReferenced,
        }
    }

    /// The absent names, with the limit.
    pub fn absence(&self, now: Instant) -> Absence {
        let suspect_after = self.policy.options.delays.suspect;
        self.absence.report(suspect_after, now)
    }

    /// How many names in use are absent, and whether the store is suspect because of them.
    pub fn absent(&self, now: Instant) -> (usize, bool) {
        let suspect_after = self.policy.options.delays.suspect;
        let is_suspect = self.absence.is_suspect(suspect_after, now);
        (self.absence.len(), is_suspect)
    }

    /// Applies an answer: whether ovn-kubernetes manages the database, or the names of its sets.
    pub(super) fn answered(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Refused(refusal) if refusal.reason.error == TIMED_OUT => {
                self.is_managed = true;
            }
            Outcome::Done(results) if results.iter().any(|result| result.rows.is_some()) => {
                let names = results.iter().flat_map(address_set::names_in);
                self.name_conflicts.read(names.map(SetName::from).collect());
            }
            Outcome::Done(_) | Outcome::Refused(_) | Outcome::Unknown(_) => {}
        }
    }

    /// How many rows have marks of unknown stores, by store.
    pub fn other_stores(&self, replica: &NorthboundReplica) -> BTreeMap<String, usize> {
        let mut stores = BTreeMap::new();
        let marks = replica.0.iter().filter_map(|(_, row)| row.store());
        for store in marks.filter(|store| !self.policy.options.is_ours(store)) {
            *stores.entry(store.to_owned()).or_default() += 1;
        }
        stores
    }

    /// Computes the differences of a name, and updates its record. `is_carried_out`: the planned changes will be made
    /// now.
    pub(super) fn examine(
        &mut self,
        name: &DnsName,
        replica: &NorthboundReplica,
        is_carried_out: bool,
        now: Instant,
    ) -> Plan {
        let rows = rows_of(name, replica, &self.references, &self.inserted);
        if self.must_adopt(name, &rows) {
            self.desired.adopt(name, now);
            self.index.add(name);
        }
        let sets = rows.iter().map(|row| row.set);
        self.index.settle(name, sets, &self.references);
        let mut record = self.records.remove(name).unwrap_or_default();
        let plan = self.plan(name, &rows, &mut record.clocks, now);
        let wanted = self.desired.wanted(name);
        let is_absent = plan.is_in_use && wanted.as_ref().is_some_and(is_absent);
        self.name_conflicts.retain(name, |set| {
            let mut changes = plan.findings.iter().map(|finding| &finding.change);
            changes.any(
                |change| matches!(change, Change::Create { set: missing, .. } if missing == set),
            )
        });
        let was_in_use = self.desired.set_in_use(name, plan.is_in_use);
        self.absence
            .note(name, was_in_use, plan.is_in_use, is_absent);
        let differences = Differences::of(&plan);
        self.differences.replace(record.differences, differences);
        record.differences = differences;
        if !plan.is_in_use {
            // The permission is used up. It does not extend to the sets of a database that is restored later.
            self.desired.permit(name, false);
        }
        if plan.is_over {
            self.desired.forget(name);
            self.index.remove(name, &self.references);
            return plan;
        }
        if is_carried_out {
            self.desired.compared(name, true);
        }
        if !record.clocks.are_still() || record.differences != Differences::default() {
            self.records.insert(name.clone(), record);
        }
        plan
    }

    /// Computes the differences of a name without a record.
    pub fn look(&self, name: &DnsName, replica: &NorthboundReplica, now: Instant) -> Plan {
        let rows = rows_of(name, replica, &self.references, &self.inserted);
        let record = self.records.get(name);
        let mut clocks = record.map(|it| it.clocks.clone()).unwrap_or_default();
        self.plan(name, &rows, &mut clocks, now)
    }

    /// Records that sets of the name were emptied or deleted, because it was away. If it is back by now, the empty sets
    /// are no other client's change, and its old addresses are not restored.
    fn closed(&mut self, name: &DnsName, replica: &NorthboundReplica) {
        if replica.0.with_key(name).all(|(_, row)| row.is_empty()) {
            self.desired.release(name);
        }
        self.desired.compared(name, false);
    }

    /// Whether the last check found differences.
    pub fn differs(&self, name: &DnsName) -> bool {
        let record = self.records.get(name);
        record.is_some_and(|record| record.differences.count() > 0)
    }

    /// The names of which the last check found differences.
    pub fn differing(&self) -> impl Iterator<Item = &DnsName> {
        let records = self.records.iter();
        let differing = records.filter(|(_, record)| record.differences.count() > 0);
        differing.map(|(name, _)| name)
    }

    /// Records changes that took effect.
    pub(super) fn done(
        &mut self,
        name: &DnsName,
        findings: &[Finding],
        replica: &NorthboundReplica,
        now: Instant,
    ) {
        if findings.iter().any(|it| it.trigger == Trigger::Absence) {
            self.absence.close(now);
        }
        if findings.iter().any(|finding| !finding.is_wanted) {
            self.closed(name, replica);
        }
        for finding in findings {
            let Change::Mutate {
                uuid,
                insert,
                delete,
                ..
            } = &finding.change
            else {
                continue;
            };
            if !replica.0.get(*uuid).is_some_and(|row| self.is_shared(row)) {
                continue;
            }
            let inserted = self.inserted.entry(*uuid).or_default();
            inserted.extend(insert);
            for address in delete.iter().filter_map(|text| text.parse().ok()) {
                inserted.remove(&address);
            }
            if inserted.is_empty() {
                self.inserted.remove(uuid);
            }
        }
    }

    /// Whether other clients fill the row, too.
    fn is_shared(&self, row: &AddressSet) -> bool {
        let options = &self.policy.options;
        let is_as_written = row
            .identity()
            .is_some_and(|it| it.form == NameForm::AsWritten);
        is_as_written || row.store().is_some_and(|store| !options.is_ours(store))
    }

    fn plan(&self, name: &DnsName, rows: &[SetRow<'_>], clocks: &mut Clocks, now: Instant) -> Plan {
        let wanted = self.desired.wanted(name);
        let is_present = wanted.as_ref().is_some_and(Wanted::is_present);
        let missed = if is_present {
            self.missed(name, rows)
        } else {
            Vec::new()
        };
        let case = Case {
            name,
            wanted: wanted.as_ref(),
            rows,
            missed: &missed,
            conflicts: &self.name_conflicts.of(name, self.index.sets(name)),
            creation: self.creation(now),
            is_managed: self.is_managed(),
            absence_hold: self.absence_hold(),
            absence_counts_from: (self.absence.counts_from()).max(self.desired.readable_since),
            closes_from: self.closes_from,
        };
        plan(case, &self.policy.options, clocks, now)
    }

    /// Why no name may be closed for its absence alone.
    fn absence_hold(&self) -> Option<Reason> {
        if !self.is_compared {
            Some(Reason::Starting)
        } else if self.desired.has_unknown_object() {
            Some(Reason::UnreadableObject)
        } else if self.absence.is_exceeded() {
            Some(Reason::ManyAbsent)
        } else {
            None
        }
    }

    /// Whether a name without any known object is to be treated as absent: it has rows of this program.
    fn must_adopt(&self, name: &DnsName, rows: &[SetRow<'_>]) -> bool {
        let is_ours = |row: &SetRow<'_>| {
            let form = row.set.identity().map(|identity| identity.form);
            let store = row.set.store();
            form == Some(NameForm::Fqdn) && store.is_some_and(|it| self.policy.options.is_ours(it))
        };
        self.desired.wanted(name).is_none() && rows.iter().any(is_ours)
    }

    /// The sets of the name that rules refer to and that do not exist.
    fn missed(&self, name: &DnsName, rows: &[SetRow<'_>]) -> Vec<SetOf> {
        let there: HashSet<SetName> = rows.iter().map(|row| row.set.name().into()).collect();
        let sets = self.index.sets(name);
        let missed =
            sets.filter(|(_, name)| !there.contains(name) && self.references.contain(name));
        missed.map(|(set, _)| set).collect()
    }
}

fn rows_of<'a>(
    name: &DnsName,
    replica: &'a NorthboundReplica,
    references: &References,
    inserted: &'a HashMap<Uuid, BTreeSet<IpAddr>>,
) -> Vec<SetRow<'a>> {
    let rows = replica.0.with_key(name).map(|(uuid, set)| SetRow {
        uuid,
        set,
        is_referred_to: references.contain_row(uuid, set),
        inserted: inserted.get(&uuid),
    });
    rows.collect()
}

/// Whether only the absence of the object asks for the removal of the name.
fn is_absent(wanted: &Wanted<'_>) -> bool {
    matches!(
        wanted.presence,
        Presence::Away {
            rule_ended: false,
            is_permitted: false,
            ..
        }
    )
}
