//! The programs and servers, and the steps that change them.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command, time::Duration};

use ovn_writer::sync::Policy;
use proto::api::{Family, Family::V4};
use rustix::process::Signal;
use tests::{
    monitor::Update,
    northbound::{Northbound, Row},
    ovnkube::set_name,
    store::Store,
    transaction_log,
};
use tokio::time::sleep;

use super::{
    judge::{ABSENT, Judge},
    steps::{COUNT, Step, address, addresses},
    told::{NO_RULE, Statement, Told},
};
use crate::{
    absence::fixture::Clock,
    harness::{Database, RunningWriter, absent_after, policy, quick},
    proxy::Proxy,
    server::run,
};

/// A file in the folder that was never readable.
const STRANGER: &str = "stranger.example.";

/// The `n`th name; one of them is a wildcard.
pub(super) fn name(n: usize) -> String {
    match n {
        0 => "*.wild.example.".to_owned(),
        _ => format!("n{n}.example."),
    }
}

/// A writer, its folder and its database.
pub(super) struct World {
    pub(super) database: Database,
    pub(super) writer: Option<RunningWriter>,
    /// The statement of each name's object in the folder; for an unreadable one the last statement.
    pub(super) objects: BTreeMap<usize, Statement>,
    /// The unreadable ones.
    pub(super) garbage: Vec<usize>,
    pub(super) told: Told,
    proxy: Proxy,
    store: Store,
    clock: Clock,
    /// The transactions of each replaced database.
    done: Vec<Vec<Update>>,
    /// The path of the objects' folder while it is moved away.
    aside: Option<PathBuf>,
    /// A copy of the database.
    saved: Option<PathBuf>,
}

fn quick_policy() -> Policy {
    absent_after(quick(policy()), ABSENT)
}

impl World {
    /// Every name has an object, an address of each family, and a rule.
    pub(super) async fn start() -> Self {
        let database = Database::start().await;
        let proxy = Proxy::start(database.workdir.join("nb.sock"));
        let store = Store::new(database.workdir.join("store"));
        let clock = Clock::start(&database.northbound.remote());
        let mut world = Self {
            writer: None,
            objects: BTreeMap::new(),
            garbage: Vec::new(),
            told: Told::default(),
            database,
            proxy,
            store,
            clock,
            done: Vec::new(),
            aside: None,
            saved: None,
        };
        for n in 0..COUNT {
            world.happen(&Step::Rule { name: n }).await;
            let addresses = vec![0, 1];
            world.happen(&Step::Status { name: n, addresses }).await;
        }
        world.happen(&Step::WriterStarts).await;
        world.writer.as_ref().unwrap().ready().await;
        world
    }

    pub(super) async fn happen(&mut self, step: &Step) {
        match step {
            Step::Status { .. }
            | Step::Silent { .. }
            | Step::NoAddress { .. }
            | Step::RuleEnded { .. }
            | Step::Deleted { .. }
            | Step::Garbage { .. }
            | Step::Stranger { .. } => {
                // There is no folder to write to.
                if self.aside.is_none() {
                    self.in_the_store(step);
                }
            }
            Step::FolderGoes => {
                let folder = self.store.objects_folder();
                if self.aside.is_none() && folder.is_dir() {
                    let aside = self.store.path().with_extension("aside");
                    fs::rename(folder, &aside).unwrap();
                    self.aside = Some(aside);
                }
            }
            Step::FolderReturns { lost } => self.folder_returns(lost),
            Step::Saved => {
                let remote = self.database.northbound.remote();
                let backup = run(Command::new("ovsdb-client").args(["backup", &remote])).unwrap();
                let file = self.database.workdir.join("saved.db");
                fs::write(&file, backup).unwrap();
                self.saved = Some(file);
            }
            Step::ServerRestarts => self.database.northbound.restart().await,
            Step::Restored => {
                if let Some(saved) = self.saved.clone() {
                    let copy = |file: PathBuf| {
                        fs::copy(&saved, file).unwrap();
                    };
                    self.replace_database(copy).await;
                }
            }
            Step::Wiped => {
                self.replace_database(|file| fs::remove_file(file).unwrap())
                    .await;
            }
            Step::ServerHangs => {
                let server = self.database.northbound.process();
                server.signal(Signal::STOP);
                sleep(Duration::from_millis(100)).await;
                server.signal(Signal::CONT);
            }
            Step::Cut => self.proxy.cut(),
            Step::WriterKilled => {
                if let Some(writer) = self.writer.take() {
                    writer.kill().await;
                    self.told.restart();
                }
            }
            Step::WriterStarts => {
                if self.writer.is_none() {
                    let (told, remote) = (self.told.clone(), self.proxy.remote());
                    let tell = move |event: &_| told.tell(event);
                    let folder = self.store.path();
                    self.writer =
                        Some(RunningWriter::follow(&remote, quick_policy(), folder, tell));
                }
            }
            Step::Delay => self.clock.tick(&self.database).await,
            other => self.in_the_database(other),
        }
    }

    fn in_the_store(&mut self, step: &Step) {
        match step {
            Step::Status {
                name: n,
                addresses: numbers,
            } => {
                let texts = addresses(numbers);
                let texts: Vec<_> = texts.iter().map(String::as_str).collect();
                self.store.write_status(&name(*n), &texts);
                let all = texts.iter().map(|text| (*text).to_owned()).collect();
                self.says(*n, Statement::Addresses(all));
            }
            Step::Silent { name: n } => {
                self.store.write_object(&name(*n), "");
                self.says(*n, Statement::Nothing);
            }
            Step::NoAddress { name: n } => {
                self.store.write_no_address(&name(*n), "NXDOMAIN");
                self.says(*n, Statement::Addresses([].into()));
            }
            Step::RuleEnded { name: n } => {
                if self.objects.contains_key(n) {
                    self.store.write_no_address(&name(*n), NO_RULE);
                    self.says(*n, Statement::RuleEnded);
                    self.lose(&[*n]);
                }
            }
            Step::Deleted { names } => self.lose(names),
            Step::Garbage { name: n } => {
                if self.objects.contains_key(n) {
                    self.store.write_garbage(&name(*n));
                    self.garbage.push(*n);
                }
            }
            Step::Stranger { is_there: true } => self.store.write_garbage(STRANGER),
            Step::Stranger { is_there: false } => self.no_stranger(),
            other => unreachable!("{other:?} happens elsewhere"),
        }
    }

    fn says(&mut self, n: usize, statement: Statement) {
        self.objects.insert(n, statement);
        self.garbage.retain(|other| *other != n);
    }

    fn lose(&mut self, names: &[usize]) {
        for n in names {
            if self.objects.remove(n).is_some() {
                self.store.remove_object(&name(*n));
                self.garbage.retain(|other| other != n);
            }
        }
    }

    fn no_stranger(&self) {
        let _none = fs::remove_file(self.store.object_file(STRANGER));
    }

    fn folder_returns(&mut self, lost: &[usize]) {
        let Some(aside) = self.aside.take() else {
            return;
        };
        for n in lost {
            if self.objects.remove(n).is_some() {
                let file = self.store.object_file(&name(*n));
                fs::remove_file(aside.join(file.file_name().unwrap())).unwrap();
                self.garbage.retain(|other| other != n);
            }
        }
        fs::rename(aside, self.store.objects_folder()).unwrap();
    }

    /// Kills the server, changes its file, and starts it again.
    async fn replace_database(&mut self, change: impl FnOnce(PathBuf)) {
        let folder = self.database.workdir.path().to_owned();
        self.database.northbound.process().kill();
        self.done.push(transaction_log::read(&folder));
        let file = folder.join("nb.db");
        change(file.clone());
        if file.exists() {
            self.database.northbound.restart().await;
        } else {
            self.database.northbound = Northbound::start(&folder).await;
        }
    }

    fn in_the_database(&mut self, step: &Step) {
        let row = |n: usize| {
            let rows = self.database.northbound.rows().unwrap();
            let row = rows.into_iter().filter(is_of_ours).nth(n);
            row.map(|row| row.uuid)
        };
        let nbctl = |args: &[&str]| self.database.northbound.nbctl(args);
        let priority = |n: usize| 100 + u16::try_from(n).unwrap();
        match step {
            Step::Rule { name: n } => {
                let sets = Family::ALL.map(|family| set_name(&name(*n), family));
                let sets = sets.each_ref().map(String::as_str);
                self.database
                    .northbound
                    .create_acl("allow", priority(*n), &sets, false);
            }
            Step::NoRule { name: n } => {
                let filter = format!("priority={}", priority(*n));
                let found = nbctl(&["--bare", "--columns=_uuid", "find", "ACL", &filter]).unwrap();
                let uuids: Vec<_> = found.split_whitespace().map(str::to_owned).collect();
                self.database.northbound.remove_acls(&uuids);
            }
            Step::NoRules => drop(nbctl(&["--if-exists", "ls-del", "switch"]).unwrap()),
            Step::ForeignRow { name: n, family } => {
                let set = format!("blue{n}{family}");
                if nbctl(&["get", "Address_Set", &set, "name"]).is_err() {
                    self.database
                        .northbound
                        .create_set(&set, &name(*n), *family, "[]");
                }
            }
            // The writer may have deleted the row meanwhile.
            Step::Replaced {
                row: n,
                addresses: numbers,
            } => {
                if let Some(uuid) = row(*n) {
                    let all = addresses(numbers)
                        .into_iter()
                        .map(|text| format!("\"{text}\""));
                    let column = format!("addresses=[{}]", all.collect::<Vec<_>>().join(","));
                    let _gone = nbctl(&["set", "Address_Set", &uuid, &column]);
                }
            }
            Step::Destroyed { row: n } => {
                if let Some(uuid) = row(*n) {
                    nbctl(&["--if-exists", "destroy", "Address_Set", &uuid]).unwrap();
                }
            }
            Step::Added { row: n, address: a } | Step::Removed { row: n, address: a } => {
                let verb = match step {
                    Step::Added { .. } => "add",
                    _ => "remove",
                };
                if let Some(uuid) = row(*n) {
                    let address = format!("\"{}\"", address(*a));
                    let _gone = nbctl(&[verb, "Address_Set", &uuid, "addresses", &address]);
                }
            }
            Step::NameConflict { name: n } => {
                let column = format!("name={}", set_name(&name(*n), V4));
                // If the set exists, the conflicting row cannot be created.
                let _refused = nbctl(&["create", "Address_Set", &column, "addresses=10.9.9.9"]);
            }
            other => unreachable!("{other:?} happens elsewhere"),
        }
    }

    /// Ends all faults: folder, server and writer are there, and every object is readable.
    pub(super) async fn end_faults(&mut self) {
        self.folder_returns(&[]);
        self.no_stranger();
        for n in std::mem::take(&mut self.garbage) {
            self.lose(&[n]);
        }
        for row in self.database.northbound.rows().unwrap() {
            if row.external_ids.is_empty() {
                let args = ["--if-exists", "destroy", "Address_Set", &row.uuid];
                self.database.northbound.nbctl(&args).unwrap();
            }
        }
        self.happen(&Step::WriterStarts).await;
    }

    /// Checks all removals from sets in use; returns their number.
    pub(super) fn judge(mut self) -> Result<usize, String> {
        let last = transaction_log::read(self.database.workdir.path());
        self.done.push(last);
        let mut judge = Judge::new(&self.told);
        judge.judge(&self.done)?;
        Ok(judge.judged)
    }
}

/// Excludes the rows of the clock.
fn is_of_ours(row: &Row) -> bool {
    row.dns_name()
        .is_some_and(|name| !name.starts_with("tick") && name != "other.example.")
}
