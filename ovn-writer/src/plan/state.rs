//! The desired and the actual state, and the differences of a name's sets.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Instant,
};

use foldhash::{HashMap, HashSet};
use ovsdb_replica::Outcome;
use proto::api::{DnsName, DnsNameResolver};
use runtime::store::Event;
use smol_str::ToSmolStr;
use uuid::Uuid;

use super::{
    Differences, Policy,
    change::Change,
    index::Index,
    name_conflicts::NameConflicts,
    set_of::SetOf,
    set_plan::{Case, Clocks, Finding, Plan, SetRow, plan},
};
use crate::{
    address_set::{self, AddressSet, NameForm},
    addresses::Addresses,
    desired::Desired,
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
    /// The names of sets in use without an object.
    absent: BTreeSet<DnsName>,
    /// Whether ovn-kubernetes was ever seen to manage the address sets of the database.
    pub(super) is_managed: bool,
    /// Whether ovn-kubernetes managed it at the last check.
    was_managed: bool,
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
            desired: Desired::new(policy.filter.clone()),
            policy,
            references: References::default(),
            differences: Differences::default(),
            name_conflicts: NameConflicts::default(),
            absent: BTreeSet::new(),
            is_managed: false,
            was_managed: false,
            is_compared: false,
            index: Index::default(),
            records: HashMap::default(),
            inserted: HashMap::default(),
        }
    }

    /// Applies an event of the store, and returns the names that may differ because of it.
    pub(super) fn store_changed(&mut self, event: &Event<DnsNameResolver>) -> HashSet<DnsName> {
        let before = self.desired.names().len();
        let names = self.desired.apply(event);
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
        let store = &self.policy.store;
        let rows = || replica.0.iter().map(|(_, row)| row);
        let is_marked = |row: &AddressSet| row.is_marked_managed() && row.is_made_for(store);
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
        (self.index).changed(replica, changes, &self.references, &touched)
    }

    /// The names to check again, since ovn-kubernetes was found to manage the database.
    pub(super) fn wake(&mut self) -> HashSet<DnsName> {
        let is_managed = self.is_managed();
        if std::mem::replace(&mut self.was_managed, is_managed) == is_managed {
            return HashSet::default();
        }
        self.desired.names().cloned().collect()
    }

    /// Whether ovn-kubernetes manages the address sets of the database, as far as known.
    pub fn is_managed(&self) -> bool {
        self.is_managed || self.policy.is_managed
    }

    /// The names of sets that rules use and that have no object. They keep their addresses.
    pub fn absent(&self) -> &BTreeSet<DnsName> {
        &self.absent
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
        for store in marks.filter(|store| *store != self.policy.store) {
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
        if let Some(addresses) = self.adoptable(name, &rows) {
            self.desired.adopt(name, &addresses);
            self.index.add(name);
        }
        let sets = rows.iter().map(|row| row.set);
        self.index.settle(name, sets, &self.references);
        let mut record = self.records.remove(name).unwrap_or_default();
        let plan = self.plan(name, &rows, &mut record.clocks, now);
        self.name_conflicts.retain(name, |set| {
            let mut changes = plan.findings.iter().map(|finding| &finding.change);
            changes.any(
                |change| matches!(change, Change::Create { set: missing, .. } if missing == set),
            )
        });
        if !plan.is_absent {
            self.absent.remove(name);
        } else if !self.absent.contains(name) {
            self.absent.insert(name.clone());
        }
        let differences = Differences::of(&plan);
        self.differences.replace(record.differences, differences);
        record.differences = differences;
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
    pub(super) fn done(&mut self, findings: &[Finding], replica: &NorthboundReplica) {
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
        let is_as_written = row
            .identity()
            .is_some_and(|it| it.form == NameForm::AsWritten);
        is_as_written || row.store().is_some_and(|store| *store != self.policy.store)
    }

    fn plan(&self, name: &DnsName, rows: &[SetRow<'_>], clocks: &mut Clocks, now: Instant) -> Plan {
        let wanted = self.desired.wanted(name);
        let missed = if wanted.is_some() {
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
            is_managed: self.is_managed(),
        };
        plan(case, &self.policy, clocks, now)
    }

    /// The addresses of the rows of a name for which no object has spoken since the start. They stay desired until one
    /// speaks.
    fn adoptable(&self, name: &DnsName, rows: &[SetRow<'_>]) -> Option<Addresses> {
        let is_ours = |row: &SetRow<'_>| row.set.is_made_for(&self.policy.store);
        let is_known = self.desired.wanted(name).is_some();
        if self.desired.was_heard(name) || !is_known && !rows.iter().any(is_ours) {
            return None;
        }
        let mut rows = rows
            .iter()
            .filter(|row| !self.is_shared(row.set))
            .peekable();
        rows.peek()?;
        let addresses = rows.flat_map(|row| row.set.addresses().iter());
        let is_admitted = |it: &IpAddr| self.policy.filter.admit(&it.to_smolstr()).is_ok();
        Some(addresses.filter(is_admitted).collect())
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
        is_referred_to: references.contain(&set.name().into()),
        inserted: inserted.get(&uuid),
    });
    rows.collect()
}
