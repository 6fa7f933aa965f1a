//! What is different in the sets of one name, and what becomes of it: a pure decision.
//!
//! | the name | a row of ours, or of no mark under a name that was seen | a row under the name as written, or of another store |
//! |---|---|---|
//! | has an object that says which addresses it has | made equal | gets what is missing, loses what this program put in |
//! | has an object that says nothing yet | gets what was known, loses nothing | the same |
//! | is away | emptied as `closing` has it; deleted if ours and nothing refers to it | loses what this program put in, at the same time |
//! | never had an object here, and no row of ours | left as it is | left as it is |
//!
//! When rows are made is [`Creation`]. What another client changed is put right as `foreign` has it.

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

/// When a row is made that is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Creation {
    /// For every name of the store and each family in use, in the default network; and as with [`Creation::WhenReferenced`].
    AtOnce,
    /// When something refers to it. It may belong to any network.
    WhenReferenced,
    /// Never.
    Never,
}

/// One name: what is wanted and what is there.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The name.
    pub name: &'a DnsName,
    /// What the store wants of it; `None` if it never had the name, and no row of ours bears it.
    pub wanted: Option<&'a Wanted<'a>>,
    /// All rows that bear the name.
    pub rows: &'a [SetRow<'a>],
    /// Sets of the name to which something refers although there are none.
    pub missed: &'a [SetOf],
    /// Sets of the name that another client has, for something else.
    pub conflicts: &'a [NameConflict],
    /// When rows are made.
    pub creation: Creation,
    /// Whether ovn-kubernetes manages the database, and so writes sets from the same objects.
    pub is_managed: bool,
    /// What keeps names from being closed only because they have been absent for long.
    pub absence_hold: Option<Reason>,
    /// From when on absence counts for that, if not always.
    pub absence_counts_from: Option<Instant>,
    /// Before that no name that is away is closed: this program was held up, and may not know yet what happened meanwhile.
    pub closes_from: Option<Instant>,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct SetRow<'a> {
    /// Its `_uuid`.
    pub uuid: Uuid,
    /// Its columns.
    pub set: &'a AddressSet,
    /// Whether anything refers to it.
    pub is_referred_to: bool,
    /// What this program put into it, where that is remembered: in rows that are filled by others too.
    pub inserted: Option<&'a BTreeSet<IpAddr>>,
}

impl SetRow<'_> {
    /// Whether it is the row of this network and family, under the name by which rules refer to it.
    pub fn is_of(&self, controller: &str, family: Family) -> bool {
        let is_family = |identity: &Identity| identity.family == family;
        self.set.is_well_named()
            && self.set.identity().is_some_and(is_family)
            && self.set.controller() == Some(controller)
    }
}

/// Since when something has been so that must be so for a while.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// Nothing refers to a row.
    unused: Vec<(Uuid, Instant)>,
    /// Another client put an address in or took it out; and whether undoing that is a repair.
    foreign: HashMap<(Uuid, IpAddr), (Instant, bool)>,
    /// Rows that were emptied as the name is away. What is in them later another client put in, perhaps for a store that has the
    /// name.
    closed: Vec<Uuid>,
}

impl Clocks {
    /// Whether none runs.
    pub fn are_still(&self) -> bool {
        self.unused.is_empty() && self.foreign.is_empty() && self.closed.is_empty()
    }
}

/// A difference between what is wanted and what is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What would undo it.
    pub change: Change,
    /// What becomes of it.
    pub verdict: Verdict,
    /// What it comes from.
    pub trigger: Trigger,
    /// Whether the store has the name. If not, the row should have no members.
    pub is_wanted: bool,
    /// Whether it is a row that cannot be made, as far as is known, as another client has one of its name.
    pub is_conflict: bool,
}

/// What a difference comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trigger {
    /// The store changed, or the name is compared for the first time.
    Store,
    /// Another client changed the database, and it stayed so.
    ForeignChange,
    /// The object has been absent for long, although a rule uses the set.
    Absence,
}

/// What becomes of a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is undone.
    Now,
    /// It is undone at this time if it is still there.
    At(Instant),
    /// It is left, for this reason.
    Left(Reason),
}

/// Why a difference is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// No status said which addresses the name has, or that it has none.
    Unresolved,
    /// The store cannot be read.
    StoreOutOfSync,
    /// So many names in use are absent that their absence is not believed.
    ManyAbsent,
    /// An object cannot be read, and may be that of the name.
    UnreadableObject,
    /// Not all names were compared with the database yet.
    Starting,
    /// No object had the name while this program ran, and no row of this program bears it.
    Unknown,
    /// Sets are not to be made.
    NoCreation,
    /// Another client has a set of the same name.
    NameConflict,
    /// The set was emptied here, and another client put addresses in since.
    Refilled,
}

impl Reason {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unresolved => "its status never said which addresses it has",
            Self::StoreOutOfSync => "the store cannot be read",
            Self::ManyAbsent => "too many names in use have no object",
            Self::UnreadableObject => "an object cannot be read, and may be the one of this name",
            Self::Starting => "not all names were compared yet",
            Self::Unknown => "the store never had the name",
            Self::NoCreation => "sets are not to be made",
            Self::NameConflict => "another client has a set of its name",
            Self::Refilled => "another client filled it after it was emptied here",
        }
    }
}

/// What is to be done about one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every difference.
    pub findings: Vec<Finding>,
    /// Addresses that others put into rows that they fill too, and that stay.
    pub foreign: usize,
    /// Whether a set of the name is in use: it has addresses, something refers to it, and it may be emptied here.
    pub is_in_use: bool,
    /// Whether nothing of the name needs to be remembered.
    pub is_over: bool,
    /// When to look again even if nothing changes.
    pub due: Option<Instant>,
}

/// What becomes of the sets of a name.
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

/// A decision that is being made.
struct Planner<'a, 'b> {
    case: Case<'a>,
    options: &'a PlanOptions,
    before: Clocks,
    clocks: &'b mut Clocks,
    plan: Plan,
    now: Instant,
}

/// Which members of a row may be taken out.
#[derive(Clone, Copy)]
enum Removable<'a> {
    All,
    /// Those that this program put in.
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

    /// What may be taken out of a row, if the store says so.
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

    /// The rows that are to be made; `families` are those that have no row at all.
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

/// The members that are not wanted: `None` is what reads as no address.
fn surplus<'a>(
    row: SetRow<'a>,
    addresses: AddressesRef<'_>,
) -> impl Iterator<Item = Option<IpAddr>> + use<'a> {
    let surplus = row.set.addresses().without(addresses).into_iter().map(Some);
    surplus.chain(row.set.others().iter().map(|text| address_in(text)))
}

/// The mutation that gives the row these addresses, and takes those others out that may go.
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
        // An address in another spelling than ours goes even if it is wanted, as ours is put in.
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
