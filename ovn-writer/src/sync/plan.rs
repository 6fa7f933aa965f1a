//! What is different in the sets of one name, and what becomes of it: a pure decision.
//!
//! | the name | its status so far | a row under the normalised name | a row under the name as written |
//! |---|---|---|---|
//! | is in the store, or was until a moment ago | had an address | made equal to what is wanted | gets what is missing, loses what was seen to leave |
//! | is in the store, or was until a moment ago | never had one | left as it is | left as it is |
//! | was seen to go | any | emptied; deleted if this program made it and nothing refers to it for a minute | loses what was seen to leave |
//! | was never seen, but has rows that this program made | | those are treated as if it was seen to go | left as it is |
//! | was never seen | | left as it is | left as it is |
//!
//! "So far" and "seen" mean: since this program started. So nothing of others is ever taken out on the strength of a first reading
//! of the store, which may be the wrong one, or empty, or one that the collector has not written to yet; and a status that loses
//! its last address takes it out of the row, as it was seen to have it.
//!
//! When rows are made is [`Creation`].

use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{Duration, Instant},
};

use proto::api::{DEFAULT_NETWORK_CONTROLLER, DnsName, Family};
use smol_str::{SmolStr, ToSmolStr};
use uuid::Uuid;

use super::{change::Change, clashes::Taken};
use crate::{
    address_set::{AddressSet, Identity, NameForm, address_in},
    addresses::AddressesRef,
    desired::{Filter, Standing, Wanted},
};

/// When a row is made that is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Creation {
    /// For every name of the store and each family in use, in the default network, as soon as there is none; and as with
    /// [`Creation::WhenMissed`].
    AtOnce,
    /// When something has referred to it for a while: who manages the database has forgotten it then. It may belong to any
    /// network.
    WhenMissed,
    /// Never.
    Never,
}

/// What holds for all names.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What marks the rows that this program makes.
    pub store: String,
    /// Which families are in use.
    pub filter: Filter,
    /// How long a set must be missed with [`Creation::WhenMissed`].
    pub create_after: Duration,
    /// How long nothing must refer to a row before it is deleted.
    pub delete_after: Duration,
}

impl Terms {
    /// 2 s until a set is missed, and a minute until a row is deleted.
    pub fn new(store: impl Into<String>, filter: Filter) -> Self {
        Self {
            store: store.into(),
            filter,
            create_after: Duration::from_secs(2),
            delete_after: Duration::from_secs(60),
        }
    }
}

/// One name: what is wanted and what is there.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The name.
    pub name: &'a DnsName,
    /// What the store wants of it; `None` if it never had the name.
    pub wanted: Option<&'a Wanted<'a>>,
    /// All rows that bear the name.
    pub rows: &'a [SetRow<'a>],
    /// Sets of the name to which something refers although there are none.
    pub missed: &'a [SetOf],
    /// Sets of the name that somebody else has, for something else.
    pub taken: &'a [Taken],
    /// When rows are made.
    pub creation: Creation,
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

/// A set of the name, whether there is one or not.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SetOf {
    /// `k8s.ovn.org/owner-controller`.
    pub controller: Box<str>,
    /// Its family.
    pub family: Family,
}

impl SetOf {
    /// The set of the default network.
    pub fn default_network(family: Family) -> Self {
        Self {
            controller: DEFAULT_NETWORK_CONTROLLER.into(),
            family,
        }
    }
}

/// Since when something has been so that must be so for a while.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    missed: Vec<(SetOf, Instant)>,
    unused: Vec<(Uuid, Instant)>,
}

impl Clocks {
    /// Whether none runs.
    pub fn are_still(&self) -> bool {
        self.missed.is_empty() && self.unused.is_empty()
    }
}

/// A difference between what is wanted and what is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What would undo it.
    pub change: Change,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Whether the store has the name. If not, the row should have no members.
    pub is_wanted: bool,
    /// Whether it is a row that cannot be made, as far as is known, as somebody else has one of its name.
    pub is_taken: bool,
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
    /// The status never had an address while this program ran.
    Unresolved,
    /// The name went a moment ago, and may return.
    Leaving,
    /// Nobody knows that the store ever had the name.
    Unknown,
    /// Sets are not to be made.
    NoCreation,
    /// Somebody else has a set of the same name.
    Clash,
}

impl Reason {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unresolved => "its status never had an address",
            Self::Leaving => "its object went a moment ago",
            Self::Unknown => "the store never had the name",
            Self::NoCreation => "sets are not to be made",
            Self::Clash => "somebody else has a set of its name",
        }
    }
}

/// What is to be done about one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every difference.
    pub findings: Vec<Finding>,
    /// Addresses that others put into rows under the name as they wrote it, and that stay.
    pub foreign: usize,
    /// When to look again even if nothing changes.
    pub due: Option<Instant>,
}

/// What becomes of the sets of a name.
pub fn plan(case: Case<'_>, terms: &Terms, clocks: &mut Clocks, now: Instant) -> Plan {
    let planner = Planner { case, terms, now };
    let mut plan = Plan::default();
    let before = std::mem::take(clocks);
    let mut families = BTreeSet::from(Family::ALL);
    for row in case.rows {
        let identity = row.set.identity().filter(|i| i.name == *case.name);
        if let Some(identity) = identity {
            families.remove(&identity.family);
            planner.row(*row, identity, &before, clocks, &mut plan);
        }
    }
    planner.creations(&families, &before, clocks, &mut plan);
    plan
}

/// The parts of a decision that do not change while it is made.
struct Planner<'a> {
    case: Case<'a>,
    terms: &'a Terms,
    now: Instant,
}

impl Planner<'_> {
    fn row(
        &self,
        row: SetRow<'_>,
        identity: &Identity,
        before: &Clocks,
        clocks: &mut Clocks,
        plan: &mut Plan,
    ) {
        let Some(wanted) = self.case.wanted else {
            if identity.form == NameForm::Fqdn {
                let change = difference(row, AddressesRef::default(), |_| true);
                plan.add(change, Verdict::Left(Reason::Unknown), false);
            }
            return;
        };
        let addresses = wanted.of_family(identity.family);
        if identity.form == NameForm::AsWritten {
            let left = |address: Option<&_>| address.is_some_and(|a| wanted.left.contains(a));
            plan.add(difference(row, addresses, left), Verdict::Now, true);
            let surplus = row.set.addresses().without(addresses).into_iter();
            plan.foreign += surplus.filter(|address| !left(Some(address))).count();
            let others = row.set.others().iter().map(|text| address_in(text));
            plan.foreign += others.filter(|address| !left(address.as_ref())).count();
            return;
        }
        let is_ours = row.set.is_made_for(&self.terms.store);
        let (addresses, verdict) = match wanted.standing {
            Standing::Gone if is_ours && !row.is_referred_to => {
                let since = clock(&before.unused, &row.uuid).unwrap_or(self.now);
                clocks.unused.push((row.uuid, since));
                let until = since + self.terms.delete_after;
                if self.now >= until {
                    let members = row
                        .set
                        .addresses()
                        .len()
                        .saturating_add(row.set.others().len());
                    let (uuid, store) = (row.uuid, self.terms.store.clone());
                    let family = identity.family;
                    let change = Change::Delete {
                        uuid,
                        family,
                        store,
                        members,
                    };
                    plan.add(Some(change), Verdict::Now, false);
                    return;
                }
                plan.look_again(until);
                (AddressesRef::default(), Verdict::Now)
            }
            Standing::Gone if is_ours || wanted.seen => (AddressesRef::default(), Verdict::Now),
            Standing::Gone => (AddressesRef::default(), Verdict::Left(Reason::Unknown)),
            _ if wanted.resolved => (addresses, Verdict::Now),
            Standing::Leaving => (addresses, Verdict::Left(Reason::Leaving)),
            Standing::Present => (addresses, Verdict::Left(Reason::Unresolved)),
        };
        let is_wanted = wanted.standing == Standing::Present
            || wanted.resolved && wanted.standing == Standing::Leaving;
        plan.add(difference(row, addresses, |_| true), verdict, is_wanted);
    }

    /// The rows that are to be made; `families` are those that have no row at all.
    fn creations(
        &self,
        families: &BTreeSet<Family>,
        before: &Clocks,
        clocks: &mut Clocks,
        plan: &mut Plan,
    ) {
        let Some(wanted) = self.case.wanted else {
            return;
        };
        let is_present = wanted.standing == Standing::Present;
        let at_once = self.case.creation == Creation::AtOnce;
        let mut missing: BTreeSet<_> = self.case.missed.iter().cloned().collect();
        if is_present && at_once {
            let families = families
                .iter()
                .filter(|family| self.terms.filter.is_in_use(**family));
            missing.extend(families.copied().map(SetOf::default_network));
        }
        for set in missing {
            let verdict = match self.case.creation {
                // A rule that names a set that is not there is of no effect: one that came late, to a row that was deleted.
                Creation::AtOnce if &*set.controller == DEFAULT_NETWORK_CONTROLLER => Verdict::Now,
                _ if !is_present => continue,
                Creation::Never => Verdict::Left(Reason::NoCreation),
                Creation::AtOnce | Creation::WhenMissed => {
                    let since = clock(&before.missed, &set).unwrap_or(self.now);
                    clocks.missed.push((set.clone(), since));
                    let until = since + self.terms.create_after;
                    if self.now >= until {
                        Verdict::Now
                    } else {
                        plan.look_again(until);
                        Verdict::At(until)
                    }
                }
            };
            let taken = self.case.taken.iter().find(|taken| taken.set == set);
            let verdict = match taken {
                Some(taken) if taken.until.is_none_or(|until| self.now < until) => {
                    taken.until.into_iter().for_each(|at| plan.look_again(at));
                    Verdict::Left(Reason::Clash)
                }
                _ => verdict,
            };
            let is_taken = taken.is_some();
            let change = Change::Create {
                addresses: wanted.of_family(set.family).iter().collect(),
                store: self.terms.store.clone(),
                set,
            };
            plan.findings.push(Finding {
                change,
                verdict,
                is_wanted: is_present,
                is_taken,
            });
        }
    }
}

impl Plan {
    fn add(&mut self, change: Option<Change>, verdict: Verdict, is_wanted: bool) {
        self.findings.extend(change.map(|change| Finding {
            change,
            verdict,
            is_wanted,
            is_taken: false,
        }));
    }

    fn look_again(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

fn clock<K: PartialEq>(clocks: &[(K, Instant)], key: &K) -> Option<Instant> {
    let (_, since) = clocks.iter().find(|(other, _)| other == key)?;
    Some(*since)
}

/// The mutation that gives the row these addresses, and takes those others out that may go: `None` is
/// what reads as no address.
fn difference(
    row: SetRow<'_>,
    addresses: AddressesRef<'_>,
    may_go: impl Fn(Option<&IpAddr>) -> bool,
) -> Option<Change> {
    let there = row.set.addresses();
    let insert = addresses.without(there);
    let surplus = there.without(addresses).into_iter();
    let mut delete: Vec<_> = surplus
        .filter(|address| may_go(Some(address)))
        .map(|address| address.to_smolstr())
        .collect();
    // An address in another spelling than ours goes even if it is wanted, as ours is put in.
    let others = row
        .set
        .others()
        .iter()
        .filter(|text| may_go(address_in(text).as_ref()));
    delete.extend(others.map(SmolStr::new));
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
