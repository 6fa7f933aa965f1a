//! Decides the action for each difference of a name's sets. It is a pure function.
//!
//! | the name | our row, or a row without a mark under a name that was seen | a row under the name as written, or of another store |
//! |---|---|---|
//! | has an object that lists its addresses | made equal | gets the missing addresses, loses those that this program added |
//! | has an object without a statement yet | gets the last known addresses, loses nothing | the same |
//! | is away | emptied as in `closing`; deleted if it is ours and unreferenced | loses the addresses that this program added, at the same time |
//! | never had an object here, and no row of ours | left as it is | left as it is |
//!
//! [`Creation`] decides when rows are created. `foreign` decides about changes of other clients.

mod closing;
mod foreign;
mod options;

use std::{collections::BTreeSet, net::IpAddr, time::Instant};

use foldhash::HashMap;
use proto::api::{DnsName, Family};
use smol_str::{SmolStr, ToSmolStr};
use uuid::Uuid;

pub use self::options::{Delays, PlanOptions};
use super::{change::Change, name_conflicts::NameConflict, set_of::SetOf};
use crate::{
    address_set::{AddressSet, Identity, NameForm, address_in},
    addresses::AddressesRef,
    desired::{Presence, Wanted},
};

/// When a missing row is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Creation {
    /// For every name of the store and each family in use, in the default network. Also as
    /// [`Creation::WhenReferenced`].
    AtOnce,
    /// When a rule refers to it, in any network.
    WhenReferenced,
    Never,
}

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
    /// When rows are made.
    pub creation: Creation,
    /// Whether ovn-kubernetes manages the database, and so writes sets from the same objects.
    pub is_managed: bool,
    /// The reason why no name may currently be closed for its long absence alone.
    pub absence_hold: Option<Reason>,
    /// The time from which absence counts for that, if it is limited.
    pub absence_counts_from: Option<Instant>,
    /// No absent name is closed before this time: this program was suspended, and recent events may still be missing.
    pub closes_from: Option<Instant>,
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

impl SetRow<'_> {
    /// Whether it is the row of this network and family, with the name that rules refer to.
    pub fn is_of(&self, controller: &str, family: Family) -> bool {
        let is_family = |identity: &Identity| identity.family == family;
        self.set.is_well_named()
            && self.set.identity().is_some_and(is_family)
            && self.set.controller() == Some(controller)
    }
}

/// The start times of states that must last for a while.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// Since when each row has been unreferenced.
    unused: Vec<(Uuid, Instant)>,
    /// Since when another client's change of an address has lasted; and whether undoing it is a repair.
    foreign: HashMap<(Uuid, IpAddr), (Instant, bool)>,
    /// Rows that were emptied because the name is away. Later members are from another client, perhaps for a store that
    /// has the name.
    closed: Vec<Uuid>,
}

impl Clocks {
    /// Whether all of them are empty.
    pub fn are_still(&self) -> bool {
        self.unused.is_empty() && self.foreign.is_empty() && self.closed.is_empty()
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
    /// Whether the store has the name. If not, the row should have no members.
    pub is_wanted: bool,
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
    /// The object has been absent for long, although a rule uses the set.
    Absence,
}

/// The planned action for a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is resolved.
    Now,
    /// It is resolved at this time if it still exists.
    At(Instant),
    /// It is ignored, for this reason.
    Left(Reason),
}

/// Why a difference is ignored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// No status has listed the addresses of the name yet, or that it has none.
    Unresolved,
    StoreOutOfSync,
    /// Too many names in use are absent, so their absence is not believed.
    ManyAbsent,
    /// An object cannot be read, and may be that of the name.
    UnreadableObject,
    /// Not all names have been compared with the database yet.
    Starting,
    /// No object had the name while this program ran, and it has no row of this program.
    Unknown,
    /// Sets are not to be created.
    NoCreation,
    /// Another client has a set of the same name.
    NameConflict,
    /// The set was emptied here, and another client has added addresses since.
    Refilled,
}

impl Reason {
    /// A text for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unresolved => "no status has listed its addresses yet",
            Self::StoreOutOfSync => "the store cannot be read",
            Self::ManyAbsent => "too many names in use have no object",
            Self::UnreadableObject => "an object cannot be read, and may be the one of this name",
            Self::Starting => "not all names have been compared yet",
            Self::Unknown => "the store never had the name",
            Self::NoCreation => "--create-sets does not allow its creation",
            Self::NameConflict => "another client has a set of its name",
            Self::Refilled => "another client added addresses after this program emptied it",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every difference.
    pub findings: Vec<Finding>,
    /// Addresses that other clients added to shared rows, and that stay.
    pub foreign: usize,
    /// Whether a set of the name is in use: it has addresses, a rule refers to it, and this program may empty it.
    pub is_in_use: bool,
    /// Whether the name can be dropped.
    pub is_over: bool,
    /// When to check again even without an event.
    pub due: Option<Instant>,
}

/// Plans the changes of a name's sets.
pub fn plan(case: Case<'_>, options: &PlanOptions, clocks: &mut Clocks, now: Instant) -> Plan {
    let before = std::mem::take(clocks);
    let mut planner = Planner {
        case,
        options,
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
    planner.end();
    planner.plan
}

/// A plan under construction.
struct Planner<'a, 'b> {
    case: Case<'a>,
    options: &'a PlanOptions,
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
            let is_marked = row.set.store().is_some();
            if identity.form == NameForm::Fqdn && !is_marked {
                let empty = difference(row, AddressesRef::default(), Removable::All);
                self.add(empty, Verdict::Left(Reason::Unknown), Trigger::Store, false);
            }
            return;
        };
        let removable = self.removable(row, identity, wanted);
        self.plan.is_in_use |= matches!(removable, Removable::All)
            && row.is_referred_to
            && !row.set.is_empty()
            && !self.before.closed.contains(&row.uuid);
        if let Presence::Away { .. } = wanted.presence {
            self.close(row, identity, wanted, removable);
            return;
        }
        let addresses = wanted.of_family(identity.family);
        if let Removable::Only(_) = removable {
            self.plan.foreign += surplus(row, addresses)
                .filter(|address| !removable.contains(address.as_ref()))
                .count();
        }
        if !wanted.is_complete {
            let missing = difference(row, addresses, Removable::None);
            self.add_by_cause(row, identity, wanted, missing);
            let surplus = difference(row, addresses, removable).and_then(Change::without_insert);
            let left = Verdict::Left(Reason::Unresolved);
            self.add(surplus, left, Trigger::Store, true);
            return;
        }
        let all = difference(row, addresses, removable);
        self.add_by_cause(row, identity, wanted, all);
    }

    /// The members of a row that may be removed if the store does not want them.
    fn removable(
        &self,
        row: SetRow<'a>,
        identity: &Identity,
        wanted: &Wanted<'_>,
    ) -> Removable<'a> {
        static NOTHING: BTreeSet<IpAddr> = BTreeSet::new();
        let is_ours = row.set.store().map(|store| self.options.is_ours(store));
        match (identity.form, is_ours) {
            (NameForm::AsWritten, _) | (_, Some(false)) => {
                Removable::Only(row.inserted.unwrap_or(&NOTHING))
            }
            (_, Some(true)) => Removable::All,
            (_, None) if wanted.was_seen => Removable::All,
            (_, None) => Removable::None,
        }
    }

    /// Adds the rows to create; `families` are those without any row.
    fn creations(&mut self, families: &BTreeSet<Family>) {
        let Some(wanted) = self.case.wanted.filter(|wanted| wanted.is_present()) else {
            return;
        };
        let mut missing: BTreeSet<_> = self.case.missed.iter().cloned().collect();
        if self.case.creation == Creation::AtOnce {
            let families = families
                .iter()
                .filter(|family| self.options.filter.is_in_use(**family));
            missing.extend(families.copied().map(SetOf::default_network));
        }
        for set in missing {
            let conflict = self.case.conflicts.iter().find(|it| it.set == set);
            let verdict = match (self.case.creation, conflict) {
                (Creation::Never, _) => Verdict::Left(Reason::NoCreation),
                (_, Some(conflict)) if conflict.until.is_none_or(|until| self.now < until) => {
                    conflict
                        .until
                        .into_iter()
                        .for_each(|at| self.look_again(at));
                    Verdict::Left(Reason::NameConflict)
                }
                _ => Verdict::Now,
            };
            let change = Change::Create {
                addresses: wanted.of_family(set.family).iter().collect(),
                store: self.options.store.clone(),
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
                is_wanted: true,
                is_conflict: conflict.is_some(),
            });
        }
    }

    fn add(&mut self, change: Option<Change>, verdict: Verdict, trigger: Trigger, is_wanted: bool) {
        self.plan.findings.extend(change.map(|change| Finding {
            change,
            verdict,
            trigger,
            is_wanted,
            is_conflict: false,
        }));
    }

    fn look_again(&mut self, at: Instant) {
        self.plan.due = Some(self.plan.due.map_or(at, |due| due.min(at)));
    }
}

fn clock(clocks: &[(Uuid, Instant)], row: Uuid) -> Option<Instant> {
    let (_, since) = clocks.iter().find(|(other, _)| *other == row)?;
    Some(*since)
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
