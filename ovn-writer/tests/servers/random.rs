//! Random sequences of what the store says, what others do and how connections end: when all is quiet, the sets equal the store.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id, address_set_name};
use runtime::store::Event;
use rustix::process::Signal;
use tests::{soak::or_long, wait::eventually};

use crate::{
    harness::{Database, RunningWriter, deleted, object, policy, quick},
    proxy::Proxy,
};

const NAMES: [&str; 3] = ["a.example.", "b.example.", "*.c.example."];

/// Something that happens.
#[derive(Clone, Debug)]
enum Happening {
    Applied {
        name: usize,
        addresses: Vec<u8>,
    },
    Deleted {
        name: usize,
    },
    /// The store is read anew.
    Synced,
    /// Somebody makes a row of another network.
    ForeignRow {
        name: usize,
        family: Family,
    },
    /// Somebody makes all addresses of a row anew.
    Replaced {
        row: usize,
        addresses: Vec<u8>,
    },
    Destroyed {
        row: usize,
    },
    /// Somebody puts one address into a row, or takes one out.
    Added {
        row: usize,
        address: u8,
    },
    Removed {
        row: usize,
        address: u8,
    },
    /// Somebody makes a row that is for nothing, with the name of a set of ours.
    Clash {
        name: usize,
    },
    /// Somebody makes a rule that names a set, or takes all of them away.
    Reference {
        name: usize,
    },
    NoReferences,
    /// The server is killed and starts again.
    ServerRestarts,
    /// It hangs for a moment.
    ServerHangs,
    /// The connection ends.
    Cut,
    /// The writer is killed in the middle of whatever it does, and starts again.
    WriterRestarts,
}

fn happening() -> impl Strategy<Value = Happening> {
    let addresses = || prop::collection::vec(0..8_u8, 0..5);
    let family = prop::sample::select(Family::ALL.to_vec());
    prop_oneof![
        8 => (0..3_usize, addresses()).prop_map(|(name, addresses)| Happening::Applied { name, addresses }),
        2 => (0..3_usize).prop_map(|name| Happening::Deleted { name }),
        1 => Just(Happening::Synced),
        1 => (0..3_usize, family).prop_map(|(name, family)| Happening::ForeignRow { name, family }),
        3 => (0..9_usize, addresses()).prop_map(|(row, addresses)| Happening::Replaced { row, addresses }),
        2 => (0..9_usize).prop_map(|row| Happening::Destroyed { row }),
        1 => (0..3_usize).prop_map(|name| Happening::Reference { name }),
        1 => Just(Happening::NoReferences),
        1 => Just(Happening::ServerRestarts),
        1 => Just(Happening::ServerHangs),
        2 => Just(Happening::Cut),
        3 => (0..9_usize, 0..8_u8).prop_map(|(row, address)| Happening::Added { row, address }),
        3 => (0..9_usize, 0..8_u8).prop_map(|(row, address)| Happening::Removed { row, address }),
        1 => (0..3_usize).prop_map(|name| Happening::Clash { name }),
        1 => Just(Happening::WriterRestarts),
    ]
}

fn address(n: u8) -> String {
    if n.is_multiple_of(2) {
        format!("10.0.0.{n}")
    } else {
        format!("2001:db8::{n}")
    }
}

fn set(name: &str, family: Family) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family))
}

/// A writer whose store is known to be the right one, even when it is empty.
fn start(remote: &str) -> RunningWriter {
    let policy = quick(policy());
    RunningWriter::start_with(remote, policy, |writer| writer)
}

/// A writer, its store and its database.
struct World {
    database: Database,
    proxy: Proxy,
    writer: RunningWriter,
    store: BTreeMap<usize, Vec<u8>>,
    /// Names whose status had an address since the writer started.
    resolved: BTreeSet<usize>,
    /// Names that are in nothing that this writer saw.
    unseen: BTreeSet<usize>,
}

impl World {
    async fn start() -> Self {
        let database = Database::start().await;
        let proxy = Proxy::start(database.workdir.join("nb.sock"), &[]);
        let writer = start(&proxy.remote());
        writer.store(Event::Synced(vec![])).await;
        let (store, resolved) = (BTreeMap::new(), BTreeSet::new());
        let unseen = (0..NAMES.len()).collect();
        Self {
            database,
            proxy,
            writer,
            store,
            resolved,
            unseen,
        }
    }

    fn addresses(numbers: &[u8]) -> Vec<String> {
        numbers.iter().map(|n| address(*n)).collect()
    }

    async fn list(&mut self) {
        let objects = self.store.iter().map(|(name, numbers)| {
            let addresses = Self::addresses(numbers);
            object(
                NAMES[*name],
                &addresses.iter().map(String::as_str).collect::<Vec<_>>(),
            )
        });
        self.writer.store(Event::Synced(objects.collect())).await;
        for (name, numbers) in &self.store {
            self.unseen.remove(name);
            if !numbers.is_empty() {
                self.resolved.insert(*name);
            }
        }
    }

    async fn happen(&mut self, happening: Happening) {
        let nbctl = |args: &[&str]| self.database.northbound.nbctl(args);
        let row = |n: usize| {
            let rows = self.database.northbound.rows().unwrap();
            rows.into_iter().nth(n).map(|row| row.uuid)
        };
        match happening {
            Happening::Applied { name, addresses } => {
                self.store.insert(name, addresses.clone());
                let texts = Self::addresses(&addresses);
                let texts: Vec<_> = texts.iter().map(String::as_str).collect();
                self.writer.applied(NAMES[name], &texts).await;
                self.unseen.remove(&name);
                if !texts.is_empty() {
                    self.resolved.insert(name);
                }
            }
            Happening::Deleted { name } => {
                if self.store.remove(&name).is_some() {
                    self.writer.store(deleted(NAMES[name])).await;
                }
            }
            Happening::Synced => self.list().await,
            Happening::ForeignRow { name, family } => {
                let name_of_set = format!("blue{name}{family}");
                if nbctl(&["get", "Address_Set", &name_of_set, "name"]).is_err() {
                    self.database
                        .northbound
                        .create_set(&name_of_set, NAMES[name], family, "[]");
                }
            }
            Happening::Replaced { row: n, addresses } => {
                if let Some(uuid) = row(n) {
                    let texts: Vec<_> = addresses
                        .iter()
                        .map(|n| format!("\"{}\"", address(*n)))
                        .collect();
                    let column = format!("addresses=[{}]", texts.join(","));
                    // The writer may have deleted it meanwhile.
                    let _gone = nbctl(&["set", "Address_Set", &uuid, &column]);
                }
            }
            Happening::Destroyed { row: n } => {
                if let Some(uuid) = row(n) {
                    nbctl(&["--if-exists", "destroy", "Address_Set", &uuid]).unwrap();
                }
            }
            Happening::Added { row: n, address: a } | Happening::Removed { row: n, address: a } => {
                let verb = match happening {
                    Happening::Added { .. } => "add",
                    _ => "remove",
                };
                if let Some(uuid) = row(n) {
                    let address = format!("\"{}\"", address(a));
                    let args = [verb, "Address_Set", &uuid, "addresses", &address];
                    // The writer may have deleted it meanwhile.
                    let _gone = nbctl(&args);
                }
            }
            Happening::Clash { name } => {
                let column = format!("name={}", set(NAMES[name], Family::V4));
                // If the set is there, it is the clash that cannot be made.
                let _refused = nbctl(&["create", "Address_Set", &column, "addresses=10.9.9.9"]);
            }
            Happening::Cut => self.proxy.cut(),
            Happening::Reference { name } => {
                let set = set(NAMES[name], Family::V4);
                self.database
                    .northbound
                    .create_acl("allow", 1, &[&set], false);
            }
            Happening::NoReferences => {
                nbctl(&["--if-exists", "ls-del", "switch"]).unwrap();
            }
            Happening::ServerRestarts => self.database.northbound.restart().await,
            Happening::ServerHangs => {
                let server = self.database.northbound.process();
                server.signal(Signal::STOP);
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                server.signal(Signal::CONT);
            }
            Happening::WriterRestarts => {
                let next = start(&self.proxy.remote());
                std::mem::replace(&mut self.writer, next).kill().await;
                self.resolved.clear();
                self.unseen = (0..NAMES.len()).collect();
                self.list().await;
            }
        }
    }

    /// Whoever made clashes takes them away.
    fn end_clashes(&self) {
        for row in self.database.northbound.rows().unwrap() {
            if row.external_ids.is_empty() {
                let args = ["--if-exists", "destroy", "Address_Set", &row.uuid];
                self.database.northbound.nbctl(&args).unwrap();
            }
        }
    }

    /// Whether the database is as the store says.
    fn is_right(&self) -> Result<(), String> {
        let acls = self
            .database
            .northbound
            .nbctl(&["--bare", "--columns=match", "list", "ACL"])?;
        for (index, name) in NAMES.iter().enumerate() {
            for family in Family::ALL {
                let rows = self.database.northbound.sets(name, family)?;
                let what = format!("{name} {family}: {rows:?}");
                let Some(numbers) = self.store.get(&index) else {
                    let is_named = acls.contains(&format!("${}", set(name, family)));
                    for row in &rows {
                        let ours = row.external_ids.contains_key("ovn-writer/created");
                        // What others left when nobody looked is theirs.
                        let is_theirs = !ours && self.unseen.contains(&index);
                        let is_right = row.addresses.is_empty() && (!ours || is_named);
                        if !is_right && !is_theirs {
                            return Err(format!("{what} is gone"));
                        }
                    }
                    continue;
                };
                let wanted: BTreeSet<_> = numbers
                    .iter()
                    .map(|n| address(*n))
                    .filter(|a| a.contains(':') == (family == Family::V6))
                    .collect();
                let is_right = |row: &tests::northbound::Row| {
                    row.addresses == wanted || !self.resolved.contains(&index)
                };
                if rows.is_empty() || !rows.iter().all(is_right) {
                    return Err(format!("{what} != {wanted:?}"));
                }
            }
        }
        Ok(())
    }
}

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn whatever_happens_the_sets_end_as_the_store_says() {
        let rounds = std::env::var("RANDOM_ROUNDS")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(or_long(6, 100));
        for round in 0..rounds {
            let seed: u64 = match std::env::var("RANDOM_SEED")
                .ok()
                .and_then(|text| text.parse().ok())
            {
                Some(seed) => seed,
                None => rand_seed(),
            };
            let mut runner = TestRunner::new_with_rng(
                Config::default(),
                TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_le_bytes(); 4].concat()),
            );
            let happenings = prop::collection::vec(happening(), 10..40)
                .new_tree(&mut runner)
                .unwrap()
                .current();
            let mut world = World::start().await;
            for happening in happenings.clone() {
                world.happen(happening).await;
            }
            let what = format!("round {round}, RANDOM_SEED={seed}: {happenings:?}");
            world.end_clashes();
            eventually(&what, async || world.is_right()).await;
            // It stays so.
            world.writer.ready().await;
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            world
                .is_right()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            world.writer.stop().await;
        }
    }
}

/// One that differs from run to run.
fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
