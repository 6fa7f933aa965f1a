//! Random sequences: no set in use ever loses a wanted address, and the rows converge to the statuses.

mod ending;
mod happening;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use proptest::prelude::*;
use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family};
use runtime::store::Event;

use self::happening::{Happening, Said, address, happening, resolver};
use super::{
    model::Model,
    world::{World, foreign, policy, set_name},
};
use ovsdb_replica::Outcome;

use crate::{
    sync::{BatchLimits, Finished, Policy},
    testing::key,
};

const NAMES: [&str; 3] = ["a.example.", "b.example.", "*.c.example."];
const AWAY: Duration = Duration::from_secs(5);
const ABSENT: Duration = Duration::from_secs(600);

/// A writer, and an independent model of its surroundings.
struct Life {
    world: World,
    limits: BatchLimits,
    /// The content of the store, readable or not.
    store: BTreeMap<usize, Said>,
    /// Unreadable objects, with the last status that this writer read of each.
    unreadable: BTreeMap<usize, Option<Said>>,
    in_sync: bool,
    /// Since when each name has had no object in a readable store, and whether its rule ended.
    away: BTreeMap<usize, (Instant, bool)>,
    /// Since when no rule has named the sets of each name.
    unused: BTreeMap<usize, Instant>,
    /// The last known addresses of each name, if this writer saw them.
    last: BTreeMap<usize, BTreeSet<String>>,
    /// The addresses that another client added to empty rows of absent names, by their names.
    refilled: BTreeMap<String, BTreeSet<String>>,
    backup: Option<Model>,
}

impl Life {
    fn new(limits: BatchLimits) -> Self {
        let mut life = Self {
            world: World::with(Policy { limits, ..policy() }),
            limits,
            store: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            in_sync: false,
            away: BTreeMap::new(),
            unused: BTreeMap::new(),
            last: BTreeMap::new(),
            refilled: BTreeMap::new(),
            backup: None,
        };
        life.rules_changed();
        life.list();
        life
    }

    fn policy(&self) -> Policy {
        Policy {
            limits: self.limits,
            ..policy()
        }
    }

    /// The writer's knowledge of a name's objects: the last read status of each existing one.
    fn objects_of(&self, name: usize) -> Vec<Said> {
        let of_name = self.store.iter().filter(|(object, _)| *object % 3 == name);
        let known = of_name.filter_map(|(object, said)| match self.unreadable.get(object) {
            Some(known) => known.clone(),
            None => Some(said.clone()),
        });
        known.collect()
    }

    /// The union of all objects of a name, if each has a statement.
    fn wanted(&self, name: usize) -> Option<BTreeSet<String>> {
        let mut union = BTreeSet::new();
        let objects = self.objects_of(name);
        for said in &objects {
            match said {
                Said::Addresses(addresses) => union.extend(addresses.iter().map(|n| address(*n))),
                Said::NoAddress => {}
                Said::Nothing | Said::RuleEnded => return None,
            }
        }
        (!objects.is_empty()).then_some(union)
    }

    fn store_changed(&mut self, ended: Option<usize>) {
        for name in 0..3 {
            if !self.objects_of(name).is_empty() {
                self.away.remove(&name);
                if let Some(wanted) = self.wanted(name) {
                    self.last.insert(name, wanted);
                }
            } else if self.in_sync {
                let has_ended = ended == Some(name);
                self.away.entry(name).or_insert((self.world.now, has_ended));
            }
        }
    }

    fn list(&mut self) {
        let keys = self.unreadable.keys().map(|n| key(&format!("dns-{n}")));
        let keys = keys.collect();
        self.world.store(Event::Undecodable(keys));
        let readable = self.store.iter();
        let readable = readable.filter(|(object, _)| !self.unreadable.contains_key(object));
        let readable = readable
            .map(|(object, said)| resolver(*object, said))
            .collect();
        self.world.store(Event::Synced(readable));
        if !self.in_sync {
            // All delays begin again.
            for (since, _) in self.away.values_mut() {
                *since = self.world.now;
            }
        }
        self.in_sync = true;
        self.store_changed(None);
    }

    fn delete(&mut self, object: usize) {
        let Some(said) = self.store.remove(&object) else {
            return;
        };
        let said = match self.unreadable.remove(&object) {
            Some(known) => known.unwrap_or(Said::Nothing),
            None => said,
        };
        let object_key = key(&format!("dns-{object}"));
        self.world.store(Event::Deleted(object_key));
        self.tell_unreadable();
        self.store_changed((said == Said::RuleEnded).then_some(object % 3));
    }

    fn fill(&mut self, row: usize, address: String) {
        let Some(row) = self.world.model.rows.values_mut().nth(row) else {
            return;
        };
        let name = NAMES
            .iter()
            .position(|name| *name == row.id("k8s.ovn.org/name"));
        if row.addresses.is_empty() && name.is_some_and(|name| self.away.contains_key(&name)) {
            self.refilled.insert(row.name.clone(), BTreeSet::new());
        }
        if let Some(refilled) = self.refilled.get_mut(&row.name) {
            refilled.insert(address.clone());
        }
        row.addresses.insert(address);
    }

    fn tell_unreadable(&mut self) {
        let keys = self.unreadable.keys().map(|n| key(&format!("dns-{n}")));
        let keys = keys.collect();
        self.world.store(Event::Undecodable(keys));
    }

    fn is_named(&self, name: usize, family: Family) -> bool {
        let set = set_name(DEFAULT_NETWORK_CONTROLLER, NAMES[name], family);
        let mut acls = self.world.model.acls.values();
        acls.any(|acl| acl.expression.contains(&set))
    }

    fn rules_changed(&mut self) {
        for name in 0..3 {
            if self.is_named(name, Family::V4) {
                self.unused.remove(&name);
            } else {
                self.unused.entry(name).or_insert(self.world.now);
            }
        }
    }

    /// A new session: earlier times do not count.
    fn session(&mut self) {
        self.unused.clear();
        self.rules_changed();
    }

    /// One transaction. It must not remove a wanted address.
    fn step(&mut self) -> Result<bool, TestCaseError> {
        let Some(operations) = self.world.next() else {
            return Ok(false);
        };
        let before = self.world.model.clone();
        let outcome = self.world.model.transact(&operations);
        self.check(&before)?;
        self.finish(outcome);
        Ok(true)
    }

    fn finish(&mut self, outcome: Outcome) {
        self.world.tell();
        if let Finished::StartOver(_) = self.world.finish(outcome) {
            self.world.read();
            self.session();
        }
    }

    fn check(&self, before: &Model) -> Result<(), TestCaseError> {
        for (uuid, row) in &before.rows {
            let after = self.world.model.rows.get(uuid);
            let is_kept =
                |address: &&String| after.is_some_and(|row| row.addresses.contains(*address));
            let gone: BTreeSet<_> = row.addresses.iter().filter(|it| !is_kept(it)).collect();
            let name = NAMES
                .iter()
                .position(|name| *name == row.id("k8s.ovn.org/name"));
            let Some(name) = name.filter(|_| !gone.is_empty()) else {
                continue;
            };
            if let Some(wanted) = self.wanted(name) {
                let is_v6 = row.id("ip-family") == Family::V6.as_str();
                let is_wanted = |it: &&String| wanted.contains(*it) && it.contains(':') == is_v6;
                prop_assert!(!gone.iter().any(is_wanted), "{} {:?}", name, gone);
                continue;
            }
            let now = self.world.now;
            prop_assert!(self.in_sync, "the store cannot be read");
            let away = self.away.get(&name);
            prop_assert!(
                away.is_some(),
                "{} is there, and says nothing: {:?}",
                name,
                gone
            );
            let (since, ended) = *away.unwrap();
            prop_assert!(now >= since + AWAY, "{} has just gone", name);
            let is_default = row.id("k8s.ovn.org/owner-controller") == DEFAULT_NETWORK_CONTROLLER;
            if !is_default {
                continue;
            }
            let is_unused = self
                .unused
                .get(&name)
                .is_some_and(|unused| now >= *unused + AWAY);
            let has_ended = ended && !self.world.sync.state().is_managed();
            prop_assert!(
                is_unused || has_ended || now >= since + ABSENT,
                "{} is in use",
                name
            );
        }
        Ok(())
    }

    /// Lets time pass, timer by timer, with all due work.
    fn pass(&mut self, time: Duration) -> Result<(), TestCaseError> {
        let end = self.world.now + time;
        self.work()?;
        while let Some(timer) = self
            .world
            .sync
            .next_timer(self.world.now)
            .filter(|it| *it <= end)
        {
            self.world.now = self.world.now.max(timer);
            self.work()?;
        }
        self.world.now = end;
        Ok(())
    }

    fn work(&mut self) -> Result<(), TestCaseError> {
        self.world.tell();
        for _ in 0..1000 {
            if !self.step()? {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("no end"))
    }

    fn happen(&mut self, happening: Happening) -> Result<(), TestCaseError> {
        match happening {
            Happening::Applied { object, said } => {
                if self.in_sync {
                    self.unreadable.remove(&object);
                    self.tell_unreadable();
                    self.world.store(Event::Applied(resolver(object, &said)));
                    self.store.insert(object, said);
                    self.store_changed(None);
                }
            }
            Happening::Deleted { object } if self.in_sync => self.delete(object),
            Happening::Deleted { .. } => {}
            Happening::Listed { without } => {
                self.store.retain(|object, _| !without.contains(object));
                let store = &self.store;
                self.unreadable
                    .retain(|object, _| store.contains_key(object));
                let away: BTreeSet<_> = self.away.keys().copied().collect();
                self.list();
                // Whether the rule of such a name had ended depends on the last read: either is allowed here.
                let new = self
                    .away
                    .iter_mut()
                    .filter(|(name, _)| !away.contains(name));
                new.for_each(|(_, (_, ended))| *ended = true);
            }
            Happening::Unreadable { object, yes } => {
                let Some(said) = self.store.get(&object).cloned() else {
                    return Ok(());
                };
                if !self.in_sync {
                    return Ok(());
                }
                if yes {
                    self.unreadable.entry(object).or_insert(Some(said));
                    self.tell_unreadable();
                } else if self.unreadable.remove(&object).is_some() {
                    self.tell_unreadable();
                    self.world.store(Event::Applied(resolver(object, &said)));
                }
                self.store_changed(None);
            }
            Happening::OutOfSync => {
                self.world.store(Event::OutOfSync("x".into()));
                self.in_sync = false;
            }
            Happening::ForeignRow {
                controller,
                name,
                family,
            } => {
                let controller =
                    [DEFAULT_NETWORK_CONTROLLER, "blue-network-controller"][controller];
                let row = foreign(controller, NAMES[name], family, &[]);
                let mut rows = self.world.model.rows.values();
                if rows.all(|other| other.name != row.name) {
                    self.world.model.insert(row);
                }
            }
            Happening::ForeignAddress { row, address: n } => {
                self.fill(row, address(n));
            }
            Happening::ForeignDeletion { row } => {
                if let Some(uuid) = self.world.model.rows.keys().nth(row).copied() {
                    self.world.model.rows.remove(&uuid);
                }
            }
            Happening::Reference {
                name,
                by_ovn_kubernetes,
            } => {
                let name = NAMES[name];
                match by_ovn_kubernetes {
                    true => self
                        .world
                        .refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, name),
                    false => self.world.refer(DEFAULT_NETWORK_CONTROLLER, name),
                };
                self.rules_changed();
            }
            Happening::NoReference { rule } => {
                if let Some(uuid) = self.world.model.acls.keys().nth(rule).copied() {
                    self.world.model.acls.remove(&uuid);
                }
                // The writer learns of it now.
                self.world.tell();
                self.rules_changed();
            }
            Happening::Wait { millis } => self.pass(Duration::from_millis(millis))?,
            Happening::Transaction => drop(self.step()?),
            Happening::Transactions => {
                let Some(first) = self.world.next() else {
                    return Ok(());
                };
                let second = self.world.next();
                for operations in [Some(first), second].into_iter().flatten() {
                    let before = self.world.model.clone();
                    let outcome = self.world.model.transact(&operations);
                    self.check(&before)?;
                    self.world.tell();
                    if let Finished::StartOver(_) = self.world.finish(outcome) {
                        self.world.read();
                        self.session();
                        break;
                    }
                }
            }
            Happening::Loss { took_effect } => {
                while let Some(operations) = self.world.next() {
                    if took_effect {
                        let before = self.world.model.clone();
                        self.world.model.transact(&operations);
                        self.check(&before)?;
                    }
                }
                self.world.read();
                self.session();
            }
            Happening::Restart { without } => {
                self.store.retain(|object, _| !without.contains(object));
                let store = &self.store;
                self.unreadable
                    .retain(|object, _| store.contains_key(object));
                // The new writer has no last status of unreadable objects.
                self.unreadable.values_mut().for_each(|known| *known = None);
                let model = std::mem::take(&mut self.world.model);
                let now = self.world.now;
                self.world = World::on(self.policy(), model);
                self.world.now = now;
                self.in_sync = false;
                self.away.clear();
                self.last.clear();
                self.session();
                self.list();
            }
            Happening::Backup { restore: false } => self.backup = Some(self.world.model.clone()),
            Happening::Backup { restore: true } => {
                if let Some(mut model) = self.backup.clone() {
                    model.made = self.world.model.made.max(model.made);
                    self.world.model = model;
                    self.world.read();
                    self.session();
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_used_set_loses_a_wanted_address_and_rows_converge_to_statuses(
        happenings in prop::collection::vec(happening(), 0..40),
        rows in prop::sample::select(vec![1, 2, 1000]),
    ) {
        let mut life = Life::new(BatchLimits { rows, ..BatchLimits::default() });
        for happening in happenings {
            life.happen(happening)?;
        }
        life.end()?;
    }
}
