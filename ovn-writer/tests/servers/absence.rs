//! Objects that are absent: no set that a rule uses loses an address because of them.

mod table;

use std::{fs, path::PathBuf, process::Command};

use proto::api::Family::V4;
use tests::{northbound::Row, ovsdb_server::run, store::Store, transaction_log::departures};

use crate::harness::{Database, RunningWriter, managed, policy, quick};

/// An object that stays, to see that everything before was done.
const FENCE: &str = "fence.example.";

/// A writer that follows a folder, and a real northbound database with rules for the names.
struct Fixture {
    writer: Option<RunningWriter>,
    store: Store,
    database: Database,
    is_managed: bool,
    fences: usize,
}

fn name(n: usize) -> String {
    format!("n{n}.example.")
}

fn address(n: usize) -> String {
    format!("10.0.0.{n}")
}

impl Fixture {
    /// Starts with `count` names. Each has its address in the folder and in its set, and a rule that refers to the set.
    /// Also returns the uuids of the rules.
    async fn start(count: usize, is_managed: bool) -> (Self, Vec<String>) {
        let mut fixture = Self::empty(is_managed).await;
        for n in 0..count {
            fixture.store.write_status(&name(n), &[&address(n)]);
        }
        let names: Vec<_> = (0..count).map(name).collect();
        let acls = fixture.database.northbound.create_acls(&names, false);
        fixture.start_writer();
        fixture.fence().await;
        fixture.expect(0..count).await;
        (fixture, acls)
    }

    /// A folder without objects and a database, without a writer.
    async fn empty(is_managed: bool) -> Self {
        let database = Database::start().await;
        let store = Store::new(database.workdir.join("store"));
        let fence = [FENCE.to_owned()];
        database.northbound.create_acls(&fence, false);
        Self {
            writer: None,
            store,
            database,
            is_managed,
            fences: 0,
        }
    }

    fn start_writer(&mut self) {
        let policy = quick(policy());
        let policy = match self.is_managed {
            true => managed(policy),
            false => policy,
        };
        let remote = self.database.northbound.remote();
        let writer = RunningWriter::follow(&remote, policy, self.store.path());
        self.writer = Some(writer);
    }

    async fn kill_writer(&mut self) {
        self.writer.take().unwrap().kill().await;
    }

    /// Waits until the database has the current content of the folder.
    async fn fence(&mut self) {
        self.fences += 1;
        let address = format!("10.1.0.{}", self.fences);
        self.store.write_status(FENCE, &[&address]);
        let what = format!("{FENCE} has {address}");
        let has = |rows: &[Row]| rows.iter().any(|row| row.addresses.contains(&address));
        self.database.expect_rows(&what, FENCE, V4, has).await;
    }

    /// Waits for twice the delay after which an unused set is deleted: those of two names that come and go in turn.
    async fn outlast(&mut self) {
        for n in 0..2 {
            let name = format!("unused{n}.example.");
            self.fence().await;
            if self.is_managed {
                // ovn-kubernetes makes sets without a rule there, and deletes them.
                tokio::time::sleep(crate::harness::DELETE).await;
                continue;
            }
            self.store.write_status(&name, &["192.0.2.1"]);
            self.database.expect(&name, V4, &["192.0.2.1"]).await;
            self.store.remove_object(&name);
            self.expect_no_row(&name).await;
        }
        self.fence().await;
    }

    fn put_folder_aside(&self) -> PathBuf {
        let aside = self.store.path().with_extension("aside");
        fs::rename(self.store.objects_folder(), &aside).unwrap();
        aside
    }

    fn bring_folder_back(&self, aside: PathBuf) {
        let _none = fs::remove_dir_all(self.store.objects_folder());
        fs::rename(aside, self.store.objects_folder()).unwrap();
    }

    async fn expect_no_row(&self, name: &str) {
        let what = format!("{name} has no row");
        let is_gone = |rows: &[Row]| rows.is_empty();
        self.database.expect_rows(&what, name, V4, is_gone).await;
    }

    async fn expect(&self, numbers: std::ops::Range<usize>) {
        for n in numbers {
            self.database.expect(&name(n), V4, &[&address(n)]).await;
        }
    }

    /// Whether a numbered set, which a rule refers to, has lost an address.
    fn has_lost(&self) -> bool {
        let departures = departures(self.database.workdir.path());
        departures.iter().any(|it| it.starts_with('n'))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_that_vanishes_takes_nothing_out() {
    for is_restarted in [false, true] {
        let (mut fixture, _) = Fixture::start(3, false).await;
        let aside = fixture.put_folder_aside();
        if is_restarted {
            // A new process does not know that there was a folder.
            fixture.kill_writer().await;
            fixture.start_writer();
        } else {
            fixture.outlast().await;
        }
        // An empty folder takes its place, and then gets one of the objects.
        fs::create_dir_all(fixture.store.objects_folder()).unwrap();
        fixture.outlast().await;
        fixture.store.write_status(&name(0), &[&address(0)]);
        fixture.outlast().await;
        assert!(!fixture.has_lost());
        fixture.bring_folder_back(aside);
        fixture.fence().await;
        fixture.expect(0..3).await;
        assert!(!fixture.has_lost());
    }
}

/// How a database is restored.
#[derive(Clone, Copy, Debug)]
enum Restore {
    /// By one transaction.
    AtWork,
    /// As a file, while no server runs.
    Replaced,
    /// As a file, while neither a server nor the writer runs.
    AllKilled,
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_database_beside_empty_store_keeps_sets_in_use() {
    for restore in [Restore::AtWork, Restore::Replaced, Restore::AllKilled] {
        let (mut fixture, _) = Fixture::start(3, false).await;
        let remote = fixture.database.northbound.remote();
        let backup = run(Command::new("ovsdb-client").args(["backup", &remote])).unwrap();
        let file = fixture.database.workdir.join("backup.db");
        fs::write(&file, backup).unwrap();
        // Since then a name got another address, and all objects are lost.
        fixture.store.write_status(&name(0), &["10.9.0.1"]);
        fixture.database.expect(&name(0), V4, &["10.9.0.1"]).await;
        for n in 0..3 {
            fixture.store.remove_object(&name(n));
        }
        fixture.outlast().await;
        let nb = fixture.database.workdir.join("nb.db");
        if let Restore::AllKilled = restore {
            fixture.kill_writer().await;
        }
        match restore {
            Restore::AtWork => {
                let shell = format!("ovsdb-client restore {remote} <{}", file.display());
                run(Command::new("sh").args(["-c", &shell])).unwrap();
            }
            Restore::Replaced | Restore::AllKilled => {
                fixture.database.northbound.process().kill();
                fs::copy(file, nb).unwrap();
                fixture.database.northbound.restart().await;
            }
        }
        if let Restore::AllKilled = restore {
            fixture.start_writer();
        }
        fixture.outlast().await;
        fixture.expect(1..3).await;
        // The last address that the writer heard is there, too, if it remembers.
        let rows = fixture.database.northbound.sets(&name(0), V4).unwrap();
        assert!(
            rows[0].addresses.contains(&address(0)),
            "{restore:?} {rows:?}"
        );
        if !matches!(restore, Restore::AllKilled) {
            assert!(
                rows[0].addresses.contains("10.9.0.1"),
                "{restore:?} {rows:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn set_that_nat_or_qos_or_policy_refers_to_is_in_use() {
    let (mut fixture, acls) = Fixture::start(3, false).await;
    let nbctl = |args: &[&str]| fixture.database.northbound.nbctl(args).unwrap();
    let rows = [0, 1, 2].map(|n| fixture.database.row(&name(n), V4));
    let matches = [1, 2].map(|n: usize| format!("ip4.dst == ${}", rows[n].name));
    nbctl(&["lr-add", "r"]);
    nbctl(&["lr-nat-add", "r", "snat", "192.0.2.1", "10.0.0.0/8"]);
    let nat = nbctl(&["--bare", "--columns=_uuid", "list", "NAT"]);
    let ips = format!("allowed_ext_ips={}", rows[0].uuid);
    nbctl(&["set", "NAT", &nat, &ips]);
    nbctl(&["qos-add", "switch", "to-lport", "10", &matches[0], "dscp=1"]);
    nbctl(&["lr-policy-add", "r", "10", &matches[1], "allow"]);
    fixture.database.northbound.remove_acls(&acls);
    for n in 0..3 {
        fixture.store.remove_object(&name(n));
    }
    fixture.outlast().await;
    fixture.expect(0..3).await;
    fixture.writer.as_ref().unwrap().ready().await;
    let nbctl = |args: &[&str]| fixture.database.northbound.nbctl(args).unwrap();
    nbctl(&["clear", "NAT", &nat, "allowed_ext_ips"]);
    nbctl(&["qos-del", "switch"]);
    nbctl(&["lr-policy-del", "r"]);
    for n in 0..3 {
        fixture.expect_no_row(&name(n)).await;
    }
}
