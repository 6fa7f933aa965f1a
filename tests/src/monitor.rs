//! Every change of the address sets, in order, as the database tells it to a client of its own (`ovsdb-client monitor`):
//! what a poll would miss is in it too.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
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
    northbound::{Row, Table, read_row, remote},
    wait::eventually,
};

/// A transaction that changed address sets.
#[derive(Clone, Debug)]
pub struct Update {
    /// When it was received.
    pub at: Instant,
    /// The rows as they are after it; `None` for a row that was deleted.
    pub rows: BTreeMap<String, Option<Row>>,
}

/// Follows a northbound database from now on until it is dropped or the database ends.
#[derive(Debug)]
pub struct Monitor {
    updates: Arc<Mutex<Vec<Update>>>,
    reader: JoinHandle<()>,
    _client: Child,
}

impl Monitor {
    /// Starts to follow the database in the folder. What is in it now comes as the first update.
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
            .args([
                "OVN_Northbound",
                "Address_Set",
                "name,addresses,external_ids",
            ])
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
                    sink.lock()
                        .expect("no panic under it")
                        .push(read_update(at, &table));
                }
            }
        });
        Self {
            updates,
            reader,
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

    /// Every address that has left a set, as `name address`, with the removal of rows.
    pub fn departures(&self) -> Vec<String> {
        let mut now: BTreeMap<String, Row> = BTreeMap::new();
        let mut left = Vec::new();
        for update in self.updates() {
            for (uuid, new) in update.rows {
                let none = BTreeSet::new();
                let kept = new.as_ref().map_or(&none, |row| &row.addresses);
                if let Some(old) = now.get(&uuid) {
                    let name = old.dns_name().unwrap_or(&old.name);
                    let gone = old.addresses.difference(kept);
                    left.extend(gone.map(|address| format!("{name} {address}")));
                }
                match new {
                    Some(row) => now.insert(uuid, row),
                    None => now.remove(&uuid),
                };
            }
        }
        left
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A modified row is two lines: `old`, with the uuid and what was changed, then `new`, with no uuid and all columns.
fn read_update(at: Instant, table: &Value) -> Update {
    let mut rows = BTreeMap::new();
    let mut uuid = String::new();
    for line in Table(table).lines() {
        let row = line["row"].as_str().unwrap_or_default();
        if !row.is_empty() {
            uuid = row.to_owned();
        }
        match line["action"].as_str() {
            Some("old") => {}
            Some("delete") => {
                rows.insert(uuid.clone(), None);
            }
            _ => {
                rows.insert(uuid.clone(), Some(read_row(uuid.clone(), &line)));
            }
        }
    }
    Update { at, rows }
}
