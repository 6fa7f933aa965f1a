//! All that is known of both sides, and how the sets of a name differ by it.

use std::{collections::VecDeque, time::Instant};

use foldhash::{HashMap, HashSet};
use proto::api::{DEFAULT_NETWORK_CONTROLLER, DnsName, DnsNameResolver, Family};
use runtime::store::Event;

use super::{
    CreateSets, Differences, Policy,
    change::Change,
    clashes::Clashes,
    evidence::{Against, Evidence, Testimony},
    index::{Index, set_name},
    plan::{Case, Clocks, Creation, Plan, SetOf, SetRow, plan},
};
use crate::{
    address_set::NameForm,
    desired::{Desired, Standing},
    references::{NorthboundChanges, NorthboundReplica, References, SetName},
};

/// How many names that are gone, rows and all, are remembered: a rule that comes late and names their set gets it back.
const MAX_GONE: usize = 4096;

/// The state of both sides.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) policy: Policy,
    pub(super) desired: Desired,
    pub(super) references: References,
    pub(super) differences: Differences,
    pub(super) clashes: Clashes,
    evidence: Evidence,
    /// Whether somebody was seen to manage the address sets of the database.
    is_managed: bool,
    index: Index,
    /// What must be remembered of a name.
    states: HashMap<DnsName, State>,
    /// Names that are gone, rows and all, the oldest first.
    gone: VecDeque<DnsName>,
}

/// What must be remembered of a name.
#[derive(Debug, Default)]
struct State {
    clocks: Clocks,
    differences: Differences,
    /// Whether it is among those that are gone.
    is_gone: bool,
}

/// Why nothing is removed although it is not in the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Doubt {
    /// A list had no object of those that were known.
    #[error(
        "none of the {0} objects that were known is in the store any more; what they wanted stays (--allow-empty lets it go)"
    )]
    Missing(usize),
    /// The store lacks most of the names for which this program made sets.
    #[error(
        "the store lacks {absent} of {asked} names for which this program made address sets that are in use; sets of names that \
         it lacks stay as they are (--allow-empty lets them go)"
    )]
    Unconfirmed {
        /// The names that it lacks.
        absent: usize,
        /// All that were asked after.
        asked: usize,
    },
}

impl Picture {
    pub(super) fn new(policy: Policy) -> Self {
        let evidence = if policy.desired.allow_empty {
            Evidence::unneeded()
        } else {
            Evidence::default()
        };
        Self {
            desired: Desired::new(policy.desired.clone()),
            policy,
            references: References::default(),
            differences: Differences::default(),
            clashes: Clashes::default(),
            evidence,
            is_managed: false,
            index: Index::default(),
            states: HashMap::default(),
            gone: VecDeque::new(),
        }
    }

    /// Takes over what the store says, and returns the names that may differ by it.
    pub(super) fn store_changed(
        &mut self,
        event: &Event<DnsNameResolver>,
        now: Instant,
    ) -> HashSet<DnsName> {
        let before = self.desired.names().len();
        let names = self.desired.apply(event, now);
        match event {
            Event::Synced(_) => self.evidence.is_due(),
            _ => self.evidence.changed(&names),
        }
        // It forgets none, and those that it had are known.
        if self.desired.names().len() != before {
            names.iter().for_each(|name| self.index.add(name));
        }
        names
    }

    /// Takes over a database that was read anew, and returns all names that may differ.
    pub(super) fn database_read(&mut self, replica: &NorthboundReplica) -> HashSet<DnsName> {
        self.references = References::of(replica);
        self.evidence.is_due();
        self.index.clear();
        for name in self.desired.names() {
            self.index.add(name);
        }
        // How long something has been missing or unused is not known across a gap.
        for state in self.states.values_mut() {
            state.clocks = Clocks::default();
        }
        let known = self.desired.names().chain(self.states.keys());
        known.cloned().chain(with_rows(replica)).collect()
    }

    /// Takes over what changed in the database, and returns the names to whose sets the references changed, perhaps.
    pub(super) fn database_changed(
        &mut self,
        replica: &NorthboundReplica,
        changes: &NorthboundChanges,
    ) -> HashSet<DnsName> {
        let touched = self.references.update(replica, changes);
        let mut names = self.index.names(&touched, self.desired.names());
        let rows = touched
            .rows
            .iter()
            .filter_map(|uuid| replica.0.get(*uuid)?.identity());
        names.extend(rows.map(|identity| identity.name.clone()));
        self.evidence.changed(&names);
        names
    }

    /// Judges whether the store is the right one, and returns the names that may differ if that is known only now.
    pub(super) fn judge(&mut self, replica: &NorthboundReplica) -> HashSet<DnsName> {
        let has_evidence = self.evidence.judge(&Sides {
            desired: &self.desired,
            references: &self.references,
            replica,
            store: &self.policy.terms.store,
        });
        if has_evidence {
            with_rows(replica).collect()
        } else {
            HashSet::default()
        }
    }

    /// Somebody manages the address sets of the database.
    pub(super) fn set_managed(&mut self) {
        self.is_managed = true;
    }

    /// Whether somebody manages the address sets of the database, as far as is known.
    pub(super) fn is_managed(&self) -> bool {
        self.is_managed || self.references.are_managed()
    }

    /// When rows are made.
    pub(super) fn creation(&self) -> Creation {
        match self.policy.create {
            CreateSets::Always => Creation::AtOnce,
            CreateSets::Auto if !self.is_managed() => Creation::AtOnce,
            CreateSets::Auto => Creation::WhenMissed,
            CreateSets::Never => Creation::Never,
        }
    }

    /// Why nothing is removed, if there is a reason.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        match (self.desired.missing(), self.differences.unwanted_rows) {
            (0, 0) => None,
            (0, _) => self.evidence.against().map(|against| {
                let Against { absent, asked } = against;
                Doubt::Unconfirmed { absent, asked }
            }),
            (missing, _) => Some(Doubt::Missing(missing)),
        }
    }

    /// Works out what is different in a name, and remembers what must be.
    pub(super) fn examine(
        &mut self,
        name: &DnsName,
        replica: &NorthboundReplica,
        now: Instant,
    ) -> Plan {
        let rows = rows_of(name, replica, &self.references);
        self.adopt(name, &rows, now);
        let mut state = self.states.remove(name).unwrap_or_default();
        let plan = self.plan(name, &rows, &mut state.clocks, now);
        self.clashes.retain(name, |set| {
            let mut changes = plan.findings.iter().map(|finding| &finding.change);
            changes.any(
                |change| matches!(change, Change::Create { set: missing, .. } if missing == set),
            )
        });
        let wanted = self.desired.wanted(name);
        let is_known = wanted.is_some();
        let is_gone = rows.is_empty() && wanted.is_some_and(|w| w.standing == Standing::Gone);
        // Those of the default network are known of every name of the store.
        let others = rows.iter().filter(|row| {
            let is_default = |family| row.is_of(DEFAULT_NETWORK_CONTROLLER, family);
            !is_known || !Family::ALL.into_iter().any(is_default)
        });
        for row in others {
            self.index.add_set(row.set.name().into(), name);
        }
        let in_a_row = |address: &_| rows.iter().any(|row| row.set.holds(address));
        self.desired.settle(name, in_a_row);
        self.differences -= state.differences;
        state.differences = Differences::of(&plan);
        self.differences += state.differences;
        if is_gone {
            self.retire(name, &mut state);
        }
        let is_needed = !state.clocks.are_still()
            || state.differences != Differences::default()
            || state.is_gone;
        if is_needed {
            self.states.insert(name.clone(), state);
        }
        plan
    }

    /// The same, of which nothing is remembered.
    pub(super) fn look(&self, name: &DnsName, replica: &NorthboundReplica, now: Instant) -> Plan {
        let rows = rows_of(name, replica, &self.references);
        let state = self.states.get(name);
        let mut clocks = state.map(|state| state.clocks.clone()).unwrap_or_default();
        self.plan(name, &rows, &mut clocks, now)
    }

    /// Whether it had differences when it was examined last.
    pub(super) fn differs(&self, name: &DnsName) -> bool {
        let state = self.states.get(name);
        state.is_some_and(|state| state.differences.count() > 0)
    }

    fn plan(&self, name: &DnsName, rows: &[SetRow<'_>], clocks: &mut Clocks, now: Instant) -> Plan {
        let wanted = self.desired.wanted(name);
        let missed = wanted.as_ref().map(|_| self.missed(name, rows));
        let case = Case {
            name,
            wanted: wanted.as_ref(),
            rows,
            missed: &missed.unwrap_or_default(),
            taken: &self.clashes.of(name, self.references.controllers()),
            creation: self.creation(),
        };
        plan(case, &self.policy.terms, clocks, now)
    }

    /// A name that the store does not have goes if its rows are ours, and if the store can be believed.
    fn adopt(&mut self, name: &DnsName, rows: &[SetRow<'_>], now: Instant) {
        let is_ours = |row: &SetRow<'_>| {
            let form = row.set.identity().map(|identity| identity.form);
            form == Some(NameForm::Fqdn) && row.set.is_made_for(&self.policy.terms.store)
        };
        if self.desired.wanted(name).is_none()
            && self.evidence.is_there()
            && self.desired.is_complete()
            && rows.iter().any(is_ours)
        {
            self.desired.adopt(name, now);
            self.index.add(name);
        }
    }

    /// The sets of the name that something refers to, and that are not there.
    fn missed(&self, name: &DnsName, rows: &[SetRow<'_>]) -> Vec<SetOf> {
        let is_there = |set: &SetName| rows.iter().any(|row| SetName::from(row.set.name()) == *set);
        let mut missed = Vec::new();
        for controller in self.references.controllers() {
            for family in Family::ALL {
                if rows.iter().any(|row| row.is_of(controller, family)) {
                    continue;
                }
                let set = set_name(controller, name, family);
                if self.references.contain(&set) && !is_there(&set) {
                    let controller = controller.into();
                    missed.push(SetOf { controller, family });
                }
            }
        }
        missed
    }

    /// The name is gone with its rows: it is remembered for a while if its sets might be missed.
    fn retire(&mut self, name: &DnsName, state: &mut State) {
        if self.creation() != Creation::AtOnce {
            self.forget(name);
            return;
        }
        if std::mem::replace(&mut state.is_gone, true) {
            return;
        }
        self.gone.push_back(name.clone());
        if self.gone.len() > MAX_GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            if let Some(state) = self.states.get_mut(&oldest) {
                state.is_gone = false;
            }
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, name: &DnsName) {
        if self.desired.forget(name) {
            self.index.remove(name);
        }
    }
}

/// What tells whether the store is the right one.
struct Sides<'a> {
    desired: &'a Desired,
    references: &'a References,
    replica: &'a NorthboundReplica,
    store: &'a str,
}

impl Testimony for Sides<'_> {
    fn witnesses(&self) -> HashSet<DnsName> {
        let rows = self.replica.0.iter();
        let ours = rows.filter(|(_, row)| row.is_made_for(self.store) && !row.is_empty());
        ours.filter_map(|(_, row)| Some(row.identity()?.name.clone()))
            .collect()
    }

    fn is_referred_to(&self, name: &DnsName) -> bool {
        let rows = rows_of(name, self.replica, self.references);
        let mut ours = rows.iter().filter(|row| row.set.is_made_for(self.store));
        ours.any(|row| row.is_referred_to)
    }

    fn is_in_store(&self, name: &DnsName) -> bool {
        let wanted = self.desired.wanted(name);
        wanted.is_some_and(|wanted| wanted.standing == Standing::Present)
    }
}

/// The names that have rows.
fn with_rows(replica: &NorthboundReplica) -> impl Iterator<Item = DnsName> {
    let rows = replica.0.iter();
    rows.filter_map(|(_, row)| Some(row.identity()?.name.clone()))
}

fn rows_of<'a>(
    name: &DnsName,
    replica: &'a NorthboundReplica,
    references: &References,
) -> Vec<SetRow<'a>> {
    let rows = replica.0.with_key(name).map(|(uuid, set)| SetRow {
        uuid,
        set,
        is_referred_to: references.contain_row(uuid, set),
    });
    rows.collect()
}
