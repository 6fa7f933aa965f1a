//! Every change of the address sets, in order, as the database reports it to a client (`ovsdb-client monitor`). Unlike
//! polling, this misses nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use proto::api::Family;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    task::JoinHandle,
    time::Instant,
};

use crate::{
    northbound::{Row, Table, read_row, remote, rows},
    wait::eventually,
};

/// A transaction that changed address sets.
#[derive(Clone, Debug)]
pub struct Update {
    /// The time of its receipt.
    pub at: Instant,
    /// The comment of its client, if known: a monitor does not get it.
    pub comment: Option<String>,
    /// The rows after it; `None` for a deleted row.
    pub rows: BTreeMap<String, Option<Row>>,
    /// The matches of ACLs after it, if known: a monitor does not get them.
    pub rules: BTreeMap<String, Option<String>>,
}

/// Follows a northbound database until it is dropped or the database ends.
#[derive(Debug)]
pub struct Monitor {
    updates: Arc<Mutex<Vec<Update>>>,
    reader: JoinHandle<()>,
    folder: PathBuf,
    _client: Child,
}

impl Monitor {
    /// Starts to follow the database in the folder. Its current content is the first update.
    pub async fn start(folder: &Path) -> Self {
        let mut client = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "KILL",
                "--",
                "ovsdb-client",
                "--format=json",
                "monitor",
            ])
            .arg(remote(folder))
            .arg("OVN_Northbound")
            .args(["Address_Set", "name,addresses,external_ids"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .expect("ovsdb-client runs");
        let mut lines = BufReader::new(client.stdout.take().expect("its output")).lines();
        let updates = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&updates);
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let at = Instant::now();
                if let Ok(table) = serde_json::from_str(&line) {
                    let update = read_update(at, &table);
                    sink.lock().expect("no panic under it").push(update);
                }
            }
        });
        Self {
            updates,
            reader,
            folder: folder.to_owned(),
            _client: client,
        }
    }

    pub fn updates(&self) -> Vec<Update> {
        self.updates.lock().expect("no panic under it").clone()
    }

    /// The first time at which `address` was in the set of `name`; waits for it if needed.
    pub async fn seen(&self, name: &str, family: Family, address: &str) -> Instant {
        eventually(&format!("{address} in the set of {name}"), async || {
            let updates = self.updates();
            let has = |row: &Row| row.is_of(name, family) && row.addresses.contains(address);
            updates
                .iter()
                .find(|update| update.rows.values().flatten().any(has))
                .map(|update| update.at)
                .ok_or_else(|| format!("{} updates", updates.len()))
        })
        .await
    }

    /// Every address that has left a set, as `name address`, also by the deletion of rows. It first waits until the
    /// monitor has the state that another client sees now.
    pub async fn departures(&self) -> Vec<String> {
        eventually("the monitor is up to date", async || {
            let mut rows = rows(&self.folder)?;
            rows.sort_by(|a, b| a.uuid.cmp(&b.uuid));
            let heard = self.replay().now;
            let same = heard.values().eq(&rows);
            same.then_some(()).ok_or_else(|| format!("{heard:?}"))
        })
        .await;
        self.replay().left
    }

    fn replay(&self) -> Replay {
        let mut replay = Replay::default();
        for (uuid, new) in self.updates().into_iter().flat_map(|update| update.rows) {
            replay.apply(uuid, new);
        }
        replay
    }
}

/// The state after all updates.
#[derive(Default)]
struct Replay {
    now: BTreeMap<String, Row>,
    left: Vec<String>,
}

impl Replay {
    fn apply(&mut self, uuid: String, new: Option<Row>) {
        let none = BTreeSet::new();
        let kept = new.as_ref().map_or(&none, |row| &row.addresses);
        if let Some(old) = self.now.get(&uuid) {
            let name = old.dns_name().unwrap_or(&old.name);
            let gone = old.addresses.difference(kept);
            self.left
                .extend(gone.map(|address| format!("{name} {address}")));
        }
        match new {
            Some(row) => self.now.insert(uuid, row),
            None => self.now.remove(&uuid),
        };
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A modified row has two lines: `old`, with the uuid and the old values of changed columns, then `new`, with no uuid
/// and all columns.
fn read_update(at: Instant, table: &Value) -> Update {
    let mut update = Update {
        at,
        comment: None,
        rows: BTreeMap::new(),
        rules: BTreeMap::new(),
    };
    let mut uuid = String::new();
    for line in Table(table).lines() {
        let row = line["row"].as_str().unwrap_or_default();
        if !row.is_empty() {
            uuid = row.to_owned();
        }
        let is_there = match line["action"].as_str() {
            Some("old") => continue,
            action => action != Some("delete"),
        };
        let row = is_there.then(|| read_row(uuid.clone(), &line));
        update.rows.insert(uuid.clone(), row);
    }
    update
}
