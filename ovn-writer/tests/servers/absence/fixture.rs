//! A writer that follows a folder, a real northbound database with rules for the names, and a clock.

use std::{fs, ops::Range, path::PathBuf};

use ovn_writer::sync::{CreateSets, Policy};
use proto::api::Family::V4;
use runtime::store::Event;
use tests::{northbound::Row, store::Store, wait::eventually};

use crate::harness::{
    AWAY, Database, RunningWriter, absent_after, deleted, named_store, object, policy, quick,
};

pub(crate) struct Fixture {
    pub(crate) writer: RunningWriter,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) policy: Policy,
    pub(crate) database: Database,
    fences: usize,
}

/// The `n`th name, and its address.
pub(crate) fn name(n: usize) -> String {
    format!("n{n}.example.")
}

pub(crate) fn address(n: usize) -> String {
    format!("10.0.{}.{}", n >> 8, n & 255)
}

pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(name).collect()
}

/// Absent names in use are closed after three times the shortest delay.
pub(crate) fn closing_soon() -> Policy {
    let policy = quick(policy());
    let absent = AWAY * 3;
    absent_after(policy, absent)
}

const FENCE: &str = "fence.example.";

impl Fixture {
    /// Starts with `count` names. Each has its address in the folder and in its set, and a rule that refers to the set.
    /// Also returns the uuids of the rules.
    pub(crate) async fn start(count: usize) -> (Self, Vec<String>) {
        Self::start_with(count, quick(policy())).await
    }

    pub(crate) async fn start_with(count: usize, policy: Policy) -> (Self, Vec<String>) {
        let database = Database::start().await;
        let store = Store::new(database.workdir.join("store"));
        for n in 0..count {
            store.write_status(&name(n), &[&address(n)]);
        }
        let acls = database.northbound.create_acls(&names(count), false);
        if policy.is_managed {
            // Without a rule no set is created there.
            database.northbound.create_acls(&[FENCE.to_owned()], false);
        }
        let remote = database.northbound.remote();
        let mut fixture = Self {
            writer: start_writer(&remote, &policy, &store),
            clock: Clock::start(&remote),
            store,
            policy,
            database,
            fences: 0,
        };
        fixture.fence().await;
        fixture.writer.ready().await;
        (fixture, acls)
    }

    /// Ends the writer after its last transaction.
    pub(crate) async fn stop_writer(&mut self) {
        // An idle writer takes its place.
        let none = RunningWriter::start("unix:/nowhere/nb.sock");
        std::mem::replace(&mut self.writer, none).stop().await;
    }

    /// Starts the writer again, and replaces a running one.
    pub(crate) fn start_writer(&mut self) {
        self.writer = start_writer(
            &self.database.northbound.remote(),
            &self.policy,
            &self.store,
        );
    }

    /// Moves the folder of the objects away, and returns where.
    pub(crate) fn put_folder_aside(&self) -> PathBuf {
        let aside = self.store.path().with_extension("aside");
        fs::rename(self.store.objects_folder(), &aside).unwrap();
        aside
    }

    pub(crate) fn bring_folder_back(&self, aside: PathBuf) {
        let _none = fs::remove_dir_all(self.store.objects_folder());
        fs::rename(aside, self.store.objects_folder()).unwrap();
    }

    /// Waits until the database has the current content of the folder.
    pub(crate) async fn fence(&mut self) {
        self.fences += 1;
        let address = address(1 << 15 | self.fences);
        self.store.write_status(FENCE, &[&address]);
        let what = format!("{FENCE} has {address}");
        let has = |rows: &[Row]| rows.iter().any(|row| row.addresses.contains(&address));
        self.database.expect_rows(&what, FENCE, V4, has).await;
    }

    /// Waits for this many times the delay after which an absent, unused name is removed. The database then has the
    /// content of the folder.
    pub(crate) async fn outlast(&mut self, delays: usize) {
        for _ in 0..delays {
            self.clock.tick(&self.database).await;
        }
        self.fence().await;
    }

    /// The addresses that left a set in use, as `NAME ADDRESS`.
    pub(crate) fn closings(&self) -> Vec<String> {
        self.database.closings()
    }

    /// Waits until the name has one row, which is empty.
    pub(crate) async fn expect_empty(&self, name: &str) {
        self.database.expect(name, V4, &[]).await;
    }

    pub(crate) async fn expect_no_row(&self, name: &str) {
        let what = format!("{name} has no row");
        let is_gone = |rows: &[Row]| rows.is_empty();
        self.database.expect_rows(&what, name, V4, is_gone).await;
    }

    pub(crate) async fn expect_all(&self, count: usize) {
        self.expect_rest(0..count).await;
    }

    pub(crate) async fn expect_rest(&self, numbers: Range<usize>) {
        let count = numbers.len();
        eventually("all names have their addresses", async || {
            let rows = self.database.northbound.rows()?;
            let is_whole = |n: &usize| {
                let (name, address) = (name(*n), address(*n));
                let mut rows = rows.iter().filter(|row| row.is_of(&name, V4));
                rows.any(|row| row.addresses.iter().eq([&address]))
            };
            let whole = numbers.clone().filter(is_whole).count();
            (whole == count)
                .then_some(())
                .ok_or_else(|| whole.to_string())
        })
        .await;
    }
}

fn start_writer(remote: &str, policy: &Policy, store: &Store) -> RunningWriter {
    RunningWriter::follow(remote, policy.clone(), store.path(), |_| {})
}

/// Another writer of the database, with a store of its own. An unused name is added and removed in it; the removal of
/// its set shows that the delay is over.
pub(crate) struct Clock {
    writer: RunningWriter,
    ticks: usize,
}

impl Clock {
    pub(crate) fn start(remote: &str) -> Self {
        let mut policy = named_store(quick(policy()), "kube/clock");
        policy.create = CreateSets::Always;
        Self {
            writer: RunningWriter::start_with(remote, policy, |writer| writer),
            ticks: 0,
        }
    }

    pub(crate) async fn tick(&mut self, database: &Database) {
        let name = self.begin(database).await;
        let is_empty = |rows: &[Row]| rows.iter().all(|row| row.addresses.is_empty());
        let what = format!("{name} is emptied");
        database.expect_rows(&what, &name, V4, is_empty).await;
    }

    /// Starts the delay: the set of the returned name is emptied when it is over.
    pub(crate) async fn begin(&mut self, database: &Database) -> String {
        self.ticks += 1;
        if self.ticks == 1 {
            let other = object("other.example.", &[]);
            self.writer.store(Event::Synced(vec![other])).await;
        }
        let name = format!("tick{}.example.", self.ticks);
        self.writer.applied(&name, &["192.0.2.1"]).await;
        database.expect(&name, V4, &["192.0.2.1"]).await;
        self.writer.store(deleted(&name)).await;
        // The writer handles its events in order.
        let address = address(self.ticks);
        self.writer.applied("other.example.", &[&address]).await;
        database.expect("other.example.", V4, &[&address]).await;
        name
    }
}
