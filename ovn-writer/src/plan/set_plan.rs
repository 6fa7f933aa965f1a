//! Decides the action for each difference of a name's sets. It is a pure function.
//!
//! `docs/design.md` has the table of all combinations of object, rule and row. Absence is never a reason to remove an
//! address. `foreign` decides about changes of other clients.

mod foreign;

use std::{collections::BTreeSet, net::IpAddr, time::Instant};

use foldhash::HashMap;
use proto::api::{DnsName, Family};
use smol_str::{SmolStr, ToSmolStr};
use uuid::Uuid;

use super::{Policy, change::Change, name_conflicts::NameConflict, set_of::SetOf};
use crate::{
    address_set::{AddressSet, Identity, NameForm, address_in},
    addresses::AddressesRef,
    desired::Wanted,
};

/// The desired and the actual state of one name.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub name: &'a DnsName,
    /// The desired state; `None` if the store never had the name, and no row of ours has it.
    pub wanted: Option<&'a Wanted<'a>>,
    pub rows: &'a [SetRow<'a>],
    /// Sets of the name that rules refer to and that do not exist.
    pub missed: &'a [SetOf],
    /// Sets of the name whose row name another client uses for another purpose.
    pub conflicts: &'a [NameConflict],
    /// Whether ovn-kubernetes manages the database, and so writes sets from the same objects. Then rows are created only
    /// for rules that miss them, and it deletes them.
    pub is_managed: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct SetRow<'a> {
    pub uuid: Uuid,
    pub set: &'a AddressSet,
    /// Whether a rule refers to it.
    pub is_referred_to: bool,
    /// The addresses that this program added, for rows that other clients fill too.
    pub inserted: Option<&'a BTreeSet<IpAddr>>,
}

/// The start times of states that must last for a while.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// Since when each row has had neither an object nor a rule.
    unused: Vec<(Uuid, Instant)>,
    /// Since when another client's change of an address has lasted; and whether undoing it is a repair.
    foreign: HashMap<(Uuid, IpAddr), (Instant, bool)>,
}

impl Clocks {
    /// Whether all of them are empty.
    pub fn are_still(&self) -> bool {
        self.unused.is_empty() && self.foreign.is_empty()
    }
}

/// A difference between the desired and the actual state.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The change that resolves it.
    pub change: Change,
    pub verdict: Verdict,
    /// Its origin.
    pub trigger: Trigger,
    /// Whether the row probably cannot be created, since another client has one of its name.
    pub is_conflict: bool,
}

/// The origin of a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trigger {
    /// The store changed, or the name is compared for the first time.
    Store,
    /// Another client changed the database, and the change lasts.
    ForeignChange,
}

/// The planned action for a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is resolved.
    Now,
    /// It is resolved at this time if it still exists.
    At(Instant),
    /// It is left for now: another client has a set of its name.
    Left,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every difference.
    pub findings: Vec<Finding>,
    /// Addresses that other clients added to shared rows, and that stay.
    pub foreign: usize,
    /// Whether a rule refers to a set of the name, and the name has no object.
    pub is_absent: bool,
    /// Whether the name can be dropped.
    pub is_over: bool,
    /// When to check again even without an event.
    pub due: Option<Instant>,
}

/// Plans the changes of a name's sets.
pub fn plan(case: Case<'_>, policy: &Policy, clocks: &mut Clocks, now: Instant) -> Plan {
    let before = std::mem::take(clocks);
    let mut planner = Planner {
        case,
        policy,
        before,
        clocks,
        plan: Plan::default(),
        now,
    };
    let mut families = BTreeSet::from(Family::ALL);
    for row in case.rows {
        let identity = row.set.identity().filter(|i| i.name == *case.name);
        if let Some(identity) = identity {
            families.remove(&identity.family);
            planner.row(*row, identity);
        }
    }
    planner.creations(&families);
    planner.keep_unexplained();
    let is_away = case.wanted.is_some_and(|wanted| !wanted.is_present);
    planner.plan.is_over = is_away && case.rows.is_empty() && case.missed.is_empty();
    planner.plan
}

/// A plan under construction.
struct Planner<'a, 'b> {
    case: Case<'a>,
    policy: &'a Policy,
    before: Clocks,
    clocks: &'b mut Clocks,
    plan: Plan,
    now: Instant,
}

/// The members of a row that may be removed.
#[derive(Clone, Copy)]
enum Removable<'a> {
    All,
    /// Those that this program added.
    Only(&'a BTreeSet<IpAddr>),
    None,
}

impl Removable<'_> {
    fn contains(self, address: Option<&IpAddr>) -> bool {
        match self {
            Self::All => true,
            Self::Only(inserted) => address.is_some_and(|address| inserted.contains(address)),
            Self::None => false,
        }
    }
}

impl<'a> Planner<'a, '_> {
    fn row(&mut self, row: SetRow<'a>, identity: &Identity) {
        let Some(wanted) = self.case.wanted else {
            return;
        };
        if !wanted.is_present && !row.is_referred_to {
            self.delete_when_unused(row, identity);
            return;
        }
        let removable = self.removable(row, identity);
        self.plan.is_absent |= !wanted.is_present && matches!(removable, Removable::All);
        let addresses = wanted.of_family(identity.family);
        if !wanted.is_complete {
            let missing = difference(row, addresses, Removable::None);
            self.add_by_cause(row, identity, wanted, missing);
            return;
        }
        if let Removable::Only(_) = removable {
            self.plan.foreign += surplus(row, addresses)
                .filter(|address| !removable.contains(address.as_ref()))
                .count();
        }
        let all = difference(row, addresses, removable);
        self.add_by_cause(row, identity, wanted, all);
    }

    /// Deletes our row that has had neither an object nor a rule for long. ovn-kubernetes deletes the rows of a database
    /// that it manages.
    fn delete_when_unused(&mut self, row: SetRow<'a>, identity: &Identity) {
        if self.case.is_managed || !row.set.is_made_for(&self.policy.store) {
            return;
        }
        let unused = self.before.unused.iter();
        let mut since = unused.filter_map(|(of, since)| (*of == row.uuid).then_some(*since));
        let since = since.next().unwrap_or(self.now);
        self.clocks.unused.push((row.uuid, since));
        let until = since + self.policy.delays.delete;
        if self.now < until {
            self.look_again(until);
            return;
        }
        let members = row.set.addresses().len();
        let change = Change::Delete {
            uuid: row.uuid,
            family: identity.family,
            store: self.policy.store.clone(),
            members: members.saturating_add(row.set.others().len()),
        };
        self.add(change, Verdict::Now, Trigger::Store);
    }

    /// The members of a row that may be removed if the store does not want them.
    fn removable(&self, row: SetRow<'a>, identity: &Identity) -> Removable<'a> {
        static NOTHING: BTreeSet<IpAddr> = BTreeSet::new();
        let is_of_other = row
            .set
            .store()
            .is_some_and(|store| store != self.policy.store);
        if identity.form == NameForm::AsWritten || is_of_other {
            return Removable::Only(row.inserted.unwrap_or(&NOTHING));
        }
        Removable::All
    }

    /// Adds the rows to create; `families` are those without any row.
    fn creations(&mut self, families: &BTreeSet<Family>) {
        let Some(wanted) = self.case.wanted else {
            return;
        };
        let mut missing: BTreeSet<_> = self.case.missed.iter().cloned().collect();
        self.plan.is_absent |= !wanted.is_present && !missing.is_empty();
        if wanted.is_present && !self.case.is_managed {
            let families = families
                .iter()
                .filter(|family| self.policy.filter.is_in_use(**family));
            missing.extend(families.copied().map(SetOf::default_network));
        }
        for set in missing {
            let conflict = self.case.conflicts.iter().find(|it| it.set == set);
            let verdict = match conflict {
                Some(conflict) if conflict.until.is_none_or(|until| self.now < until) => {
                    conflict
                        .until
                        .into_iter()
                        .for_each(|at| self.look_again(at));
                    Verdict::Left
                }
                _ => Verdict::Now,
            };
            let change = Change::Create {
                addresses: wanted.of_family(set.family).iter().collect(),
                store: self.policy.store.clone(),
                is_managed: self.case.is_managed,
                set,
            };
            let trigger = match wanted.changes {
                None => Trigger::Store,
                Some(_) => Trigger::ForeignChange,
            };
            self.plan.findings.push(Finding {
                change,
                verdict,
                trigger,
                is_conflict: conflict.is_some(),
            });
        }
    }

    fn add(&mut self, change: Change, verdict: Verdict, trigger: Trigger) {
        self.plan.findings.push(Finding {
            change,
            verdict,
            trigger,
            is_conflict: false,
        });
    }

    fn look_again(&mut self, at: Instant) {
        self.plan.due = Some(self.plan.due.map_or(at, |due| due.min(at)));
    }
}

/// The unwanted members: `None` is a member that is no address.
fn surplus<'a>(
    row: SetRow<'a>,
    addresses: AddressesRef<'_>,
) -> impl Iterator<Item = Option<IpAddr>> + use<'a> {
    let surplus = row.set.addresses().without(addresses).into_iter().map(Some);
    surplus.chain(row.set.others().iter().map(|text| address_in(text)))
}

/// The mutation that gives the row these addresses, and removes the unwanted ones that may be removed.
fn difference(
    row: SetRow<'_>,
    addresses: AddressesRef<'_>,
    removable: Removable<'_>,
) -> Option<Change> {
    let there = row.set.addresses();
    let insert = addresses.without(there);
    let mut delete = Vec::new();
    if !matches!(removable, Removable::None) {
        let surplus = there.without(addresses).into_iter();
        let surplus = surplus.filter(|address| removable.contains(Some(address)));
        delete.extend(surplus.map(|address| address.to_smolstr()));
        // A wanted address in a non-canonical spelling is replaced by the canonical one.
        let others = row.set.others().iter();
        let others = others.filter(|text| removable.contains(address_in(text).as_ref()));
        delete.extend(others.map(SmolStr::new));
    }
    let nothing = insert.is_empty() && delete.is_empty();
    let identity = row.set.identity()?;
    (!nothing).then_some(Change::Mutate {
        uuid: row.uuid,
        family: identity.family,
        insert,
        delete,
    })
}

#[cfg(test)]
mod tests;
