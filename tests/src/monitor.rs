//! Every change of the address sets, in order, as the database tells it to a client of its own (`ovsdb-client monitor`):
//! what a poll would miss is in it too.

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
    /// When it was received.
    pub at: Instant,
    /// How its client commented on it, if that is known: a monitor is not told.
    pub comment: Option<String>,
    /// The rows as they are after it; `None` for a row that was deleted.
    pub rows: BTreeMap<String, Option<Row>>,
    /// In the same way what ACLs match, with [`Monitor::with_rules`]. A transaction that changes both tables is two updates then,
    /// the rules first.
    pub rules: BTreeMap<String, Option<String>>,
}

/// Follows a northbound database from now on until it is dropped or the database ends.
#[derive(Debug)]
pub struct Monitor {
    updates: Arc<Mutex<Vec<Update>>>,
    reader: JoinHandle<()>,
    folder: PathBuf,
    _client: Child,
}

impl Monitor {
    /// Starts to follow the database in the folder. What is in it now comes as the first update.
    pub async fn start(folder: &Path) -> Self {
        Self::of(folder, &["Address_Set", "name,addresses,external_ids"]).await
    }

    /// The same, with the rules that refer to the sets.
    pub async fn with_rules(folder: &Path) -> Self {
        Self::of(folder, &["ALL"]).await
    }

    async fn of(folder: &Path, tables: &[&str]) -> Self {
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
            .args(tables)
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
                if let Ok(table) = serde_json::from_str(&line)
                    && let Some(update) = read_update(at, &table)
                {
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

    /// All updates so far.
    pub fn updates(&self) -> Vec<Update> {
        self.updates.lock().expect("no panic under it").clone()
    }

    /// Waits for the first moment at which `address` stands in the set of `name`, and returns it; it may be in the past.
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

    /// Every address that has left a set, as `name address`, with the removal of rows. First it waits until it has heard of
    /// all that another client of the database sees now.
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

/// What follows from all updates.
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

/// A modified row is two lines: `old`, with the uuid and what was changed, then `new`, with no uuid and all columns. `None` for a
/// table that is of no interest.
fn read_update(at: Instant, table: &Value) -> Option<Update> {
    let rules = match table["caption"].as_str() {
        None | Some("Address_Set") => false,
        Some("ACL") => true,
        Some(_) => return None,
    };
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
        if rules {
            let text = || line["match"].as_str().unwrap_or_default().to_owned();
            update.rules.insert(uuid.clone(), is_there.then(text));
        } else {
            let row = is_there.then(|| read_row(uuid.clone(), &line));
            update.rows.insert(uuid.clone(), row);
        }
    }
    Some(update)
}
