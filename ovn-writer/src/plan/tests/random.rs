//! Random sequences: only an object that speaks takes an address out of a set in use, and the rows converge to the
//! statuses.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ovsdb_replica::{Error, Outcome};
use proptest::prelude::*;
use proto::api::{DEFAULT_NETWORK_CONTROLLER, DnsNameResolver, Family};
use runtime::store::Event;

use super::{
    model::Model,
    world::{World, foreign, policy},
};
use crate::{
    plan::{BatchLimits, Finished, Policy},
    testing::{key, object, without_addresses},
};

const NAMES: [&str; 3] = ["a.example.", "b.example.", "*.c.example."];

/// The controllers whose rules refer to the sets of these names.
const CONTROLLERS: [&str; 3] = [
    DEFAULT_NETWORK_CONTROLLER,
    "blue-network-controller",
    DEFAULT_NETWORK_CONTROLLER,
];

/// What the status of an object says.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Said {
    Nothing,
    Addresses(Vec<u8>),
    NoAddress,
}

#[derive(Clone, Debug)]
enum Happening {
    Applied(usize, Said),
    Deleted(usize),
    /// The store is listed again, without these objects.
    Listed(Vec<usize>),
    OutOfSync,
    ForeignRow(usize, Family),
    ForeignAddress(usize, u8),
    ForeignRemoval(usize),
    ForeignDeletion(usize),
    Reference(usize, bool),
    NoReference(usize),
    Wait(u64),
    Transaction,
    /// The connection is lost during a transaction, which may have taken effect.
    Loss(bool),
    /// The writer is killed, and starts again on a store without these objects.
    Restart(Vec<usize>),
    /// The database is saved, or restored from the copy.
    Backup(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    let said = || {
        prop_oneof![
            1 => Just(Said::Nothing),
            5 => prop::collection::vec(0..8_u8, 1..5).prop_map(Said::Addresses),
            1 => Just(Said::NoAddress),
        ]
    };
    let family = prop::sample::select(Family::ALL.to_vec());
    let objects = || prop::collection::vec(0..4_usize, 0..4);
    prop_oneof![
        5 => (0..4_usize, said()).prop_map(|(object, said)| Happening::Applied(object, said)),
        2 => (0..4_usize).prop_map(Happening::Deleted),
        1 => objects().prop_map(Happening::Listed),
        1 => Just(Happening::OutOfSync),
        1 => (0..3_usize, family).prop_map(|(name, family)| Happening::ForeignRow(name, family)),
        1 => (0..9_usize, 0..8_u8).prop_map(|(row, n)| Happening::ForeignAddress(row, n)),
        1 => (0..9_usize).prop_map(Happening::ForeignRemoval),
        1 => (0..9_usize).prop_map(Happening::ForeignDeletion),
        3 => (0..3_usize, prop::bool::weighted(0.2)).prop_map(|(name, by)| Happening::Reference(name, by)),
        1 => (0..9_usize).prop_map(Happening::NoReference),
        3 => prop_oneof![1..2_000_u64, 1..200_000_u64].prop_map(Happening::Wait),
        4 => Just(Happening::Transaction),
        1 => any::<bool>().prop_map(Happening::Loss),
        1 => objects().prop_map(Happening::Restart),
        1 => any::<bool>().prop_map(Happening::Backup),
    ]
}

fn address(n: u8) -> String {
    match n.is_multiple_of(2) {
        true => format!("10.0.0.{n}"),
        false => format!("2001:db8::{n}"),
    }
}

/// Object 3 has the same name as object 0.
fn resolver(number: usize, said: &Said) -> DnsNameResolver {
    let (object_name, name) = (format!("dns-{number}"), NAMES[number % 3]);
    match said {
        Said::Nothing => object(&object_name, name, &[]),
        Said::Addresses(addresses) => {
            let texts: Vec<_> = addresses.iter().map(|n| address(*n)).collect();
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            object(&object_name, name, &[&texts])
        }
        Said::NoAddress => without_addresses(&object_name, name, "NXDOMAIN"),
    }
}

/// A writer, and an independent model of its surroundings.
struct Life {
    world: World,
    limits: BatchLimits,
    store: BTreeMap<usize, Said>,
    in_sync: bool,
    backup: Option<Model>,
}

impl Life {
    fn new(limits: BatchLimits) -> Self {
        let policy = Policy { limits, ..policy() };
        let mut life = Self {
            world: World::with(policy),
            limits,
            store: BTreeMap::new(),
            in_sync: false,
            backup: None,
        };
        life.list();
        life
    }

    fn list(&mut self) {
        let objects = self.store.iter();
        let objects = objects.map(|(object, said)| resolver(*object, said));
        self.world.store(Event::Synced(objects.collect()));
        self.in_sync = true;
    }

    fn has_object(&self, name: usize) -> bool {
        self.store.keys().any(|object| object % 3 == name)
    }

    /// The addresses of all objects of a name, if each of them speaks.
    fn wanted(&self, name: usize) -> Option<BTreeSet<String>> {
        let mut wanted = BTreeSet::new();
        for said in self.store.iter().filter(|(object, _)| *object % 3 == name) {
            match said.1 {
                Said::Addresses(addresses) => wanted.extend(addresses.iter().map(|n| address(*n))),
                Said::NoAddress => {}
                Said::Nothing => return None,
            }
        }
        self.has_object(name).then_some(wanted)
    }

    fn transact(&mut self) -> Result<bool, TestCaseError> {
        let Some(operations) = self.world.next() else {
            return Ok(false);
        };
        let before = self.world.model.clone();
        let outcome = self.world.model.transact(&operations);
        self.check(&before)?;
        self.world.tell();
        if let Finished::StartOver(_) = self.world.finish(outcome) {
            self.world.read();
        }
        Ok(true)
    }

    /// A transaction takes only addresses out that objects do not want, and deletes only sets without an object and a
    /// rule.
    fn check(&self, before: &Model) -> Result<(), TestCaseError> {
        for (uuid, row) in &before.rows {
            let name = row.id("k8s.ovn.org/name");
            let Some(name) = NAMES.iter().position(|it| *it == name) else {
                continue;
            };
            let after = self.world.model.rows.get(uuid);
            let Some(after) = after else {
                let is_used = |acl: &super::model::ModelAcl| acl.expression.contains(&row.name);
                prop_assert!(!self.has_object(name) && !before.acls.values().any(is_used));
                continue;
            };
            let mut gone = row.addresses.difference(&after.addresses).peekable();
            if gone.peek().is_some() {
                let wanted = self.wanted(name);
                prop_assert!(wanted.is_some(), "{} says nothing", name);
                let mut wanted = wanted.unwrap_or_default();
                let is_v6 = row.id("ip-family") == Family::V6.as_str();
                wanted.retain(|it| it.contains(':') == is_v6);
                prop_assert!(gone.all(|it| !wanted.contains(it)), "{} wants it", name);
            }
        }
        Ok(())
    }

    fn work(&mut self) -> Result<(), TestCaseError> {
        self.world.tell();
        for _ in 0..1000 {
            if !self.transact()? {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("no end"))
    }

    /// Lets time pass, timer by timer, with all due work.
    fn pass(&mut self, time: Duration) -> Result<(), TestCaseError> {
        let end = self.world.now + time;
        self.work()?;
        while let Some(timer) = self.world.sync.next_timer().filter(|it| *it <= end) {
            self.world.now = self.world.now.max(timer);
            self.work()?;
        }
        self.world.now = end;
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Result<(), TestCaseError> {
        let model = &mut self.world.model;
        match happening {
            Happening::Applied(object, said) if self.in_sync => {
                self.world.store(Event::Applied(resolver(object, &said)));
                self.store.insert(object, said);
            }
            Happening::Deleted(object) if self.in_sync => {
                self.store.remove(&object);
                let deleted = Event::Deleted(key(&format!("dns-{object}")));
                self.world.store(deleted);
            }
            Happening::Applied(..) | Happening::Deleted(_) => {}
            Happening::Listed(without) => {
                self.store.retain(|object, _| !without.contains(object));
                self.list();
            }
            Happening::OutOfSync => {
                self.world.store(Event::OutOfSync("x".into()));
                self.in_sync = false;
            }
            Happening::ForeignRow(name, family) => {
                let row = foreign(DEFAULT_NETWORK_CONTROLLER, NAMES[name], family, &[]);
                if model.rows.values().all(|other| other.name != row.name) {
                    model.insert(row);
                }
            }
            Happening::ForeignAddress(row, n) => {
                if let Some(row) = model.rows.values_mut().nth(row) {
                    row.addresses.insert(address(n));
                }
            }
            Happening::ForeignRemoval(row) => {
                if let Some(row) = model.rows.values_mut().nth(row) {
                    row.addresses.pop_first();
                }
            }
            Happening::ForeignDeletion(row) => {
                if let Some(uuid) = model.rows.keys().nth(row).copied() {
                    model.rows.remove(&uuid);
                }
            }
            Happening::Reference(name, true) => {
                let world = &mut self.world;
                world.refer_as_ovn_kubernetes(CONTROLLERS[name], NAMES[name]);
                world.tell();
            }
            Happening::Reference(name, false) => {
                self.world.refer(CONTROLLERS[name], NAMES[name]);
                self.world.tell();
            }
            Happening::NoReference(rule) => {
                if let Some(uuid) = model.acls.keys().nth(rule).copied() {
                    model.acls.remove(&uuid);
                }
            }
            Happening::Wait(millis) => self.pass(Duration::from_millis(millis))?,
            Happening::Transaction => drop(self.transact()?),
            Happening::Loss(took_effect) => {
                if let Some(operations) = self.world.next() {
                    let before = self.world.model.clone();
                    if took_effect {
                        self.world.model.transact(&operations);
                    }
                    self.check(&before)?;
                    let unknown = Outcome::Unknown(Error::Canceled("x".to_owned()));
                    let finished = self.world.finish(unknown);
                    prop_assert!(matches!(finished, Finished::StartOver(_)));
                }
                self.world.read();
            }
            Happening::Restart(without) => {
                self.store.retain(|object, _| !without.contains(object));
                let (model, now) = (std::mem::take(model), self.world.now);
                let limits = self.limits;
                self.world = World::on(Policy { limits, ..policy() }, model);
                self.world.now = now;
                self.list();
            }
            Happening::Backup(false) => self.backup = Some(model.clone()),
            Happening::Backup(true) => {
                if let Some(mut restored) = self.backup.clone() {
                    restored.made = model.made.max(restored.made);
                    *model = restored;
                    self.world.read();
                }
            }
        }
        Ok(())
    }

    /// Everything can be read, and time passes: the rows are as the objects say.
    fn end(&mut self) -> Result<(), TestCaseError> {
        self.list();
        self.pass(Duration::from_secs(3600))?;
        prop_assert!(self.world.sync.is_idle() && self.world.sync.refused() == 0);
        let is_managed = self.world.sync.state().is_managed();
        for (index, name) in NAMES.iter().enumerate() {
            for family in Family::ALL {
                for row in self.world.rows(name, family.as_str()) {
                    let mut acls = self.world.model.acls.values();
                    let is_used = acls.any(|acl| acl.expression.contains(&row.name));
                    let is_ours = row.external_ids.contains_key("ovn-writer/created");
                    let stays = is_managed || is_used || !is_ours || self.has_object(index);
                    prop_assert!(stays, "{:?}", row);
                    if let Some(mut wanted) = self.wanted(index) {
                        wanted.retain(|it| it.contains(':') == (family == Family::V6));
                        prop_assert_eq!(&row.addresses, &wanted);
                    }
                }
                let has_row = !self.world.rows(name, family.as_str()).is_empty();
                prop_assert!(has_row || is_managed || !self.has_object(index));
            }
        }
        // A new read of everything changes nothing.
        self.world.read();
        prop_assert_eq!(self.world.work(), 0);
        Ok(())
    }
}

proptest! {
    #[test]
    fn only_objects_that_speak_take_addresses_out_and_rows_converge_to_statuses(
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
