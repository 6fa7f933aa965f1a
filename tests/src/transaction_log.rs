//! Every transaction of a northbound database, from the log of a standalone `ovsdb-server` (ovsdb(5)). It has the
//! server's order and times, and the comments that identify clients.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use proto::api::Family;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    northbound::{Row, read_map, read_set},
    wait::eventually,
};

/// A transaction, of any tables.
#[derive(Clone, Debug)]
pub struct Update {
    /// The time of the server.
    pub at: Instant,
    /// The comment of its client.
    pub comment: Option<String>,
    /// The changed address sets after it; `None` for a deleted row.
    pub rows: BTreeMap<String, Option<Row>>,
}

/// The first time at which `address` was in the set of `name`; waits for it if needed.
///
/// # Panics
/// If it does not come in time.
pub async fn seen(folder: &Path, name: &str, family: Family, address: &str) -> Instant {
    eventually(&format!("{address} in the set of {name}"), async || {
        let has = |row: &Row| row.is_of(name, family) && row.addresses.contains(address);
        let mut updates = read(folder).into_iter();
        let first = updates.find(|update| update.rows.values().flatten().any(has));
        first
            .map(|it| it.at)
            .ok_or_else(|| "it never was".to_owned())
    })
    .await
}

/// Every address that has left a set since the creation of the database, as `name address`, also by the deletion of rows.
///
/// # Panics
/// If the log cannot be read.
pub fn departures(folder: &Path) -> Vec<String> {
    let (mut now, mut left) = (BTreeMap::<String, Row>::new(), Vec::new());
    for (uuid, new) in read(folder).into_iter().flat_map(|update| update.rows) {
        if let Some(old) = now.remove(&uuid) {
            let kept = |address: &&String| {
                let mut rows = new.iter();
                rows.any(|row| row.addresses.contains(*address))
            };
            let name = old.dns_name().unwrap_or(&old.name);
            let gone = old.addresses.iter().filter(|address| !kept(address));
            left.extend(gone.map(|address| format!("{name} {address}")));
        }
        now.extend(new.map(|row| (uuid, row)));
    }
    left
}

/// All transactions since the creation of the database.
///
/// # Panics
/// If the log cannot be read.
pub fn read(folder: &Path) -> Vec<Update> {
    let text = fs::read_to_string(folder.join("nb.db")).expect("the log of the database");
    // A record is a line with its length, and a line of JSON. The first one is the schema; the last one may be half
    // written.
    let records = text.lines().skip(1).step_by(2).skip(1);
    let (now, since_epoch) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH));
    let since_epoch = since_epoch.expect("a clock after 1970");
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    records
        .map_while(|record| serde_json::from_str::<Value>(record).ok())
        .map(|record| {
            let date = record["_date"].as_u64().map(Duration::from_millis);
            let ago = date.and_then(|date| since_epoch.checked_sub(date));
            Update {
                at: now - ago.unwrap_or_default(),
                comment: record["_comment"].as_str().map(str::to_owned),
                rows: sets_in(&record, &mut rows),
            }
        })
        .collect()
}

fn sets_in(record: &Value, rows: &mut BTreeMap<String, Row>) -> BTreeMap<String, Option<Row>> {
    let changed = record["Address_Set"].as_object();
    let changed = changed.into_iter().flatten().map(|(uuid, columns)| {
        if columns.is_null() {
            rows.remove(uuid);
            return (uuid.clone(), None);
        }
        let row = rows.entry(uuid.clone()).or_insert_with(|| Row {
            uuid: uuid.clone(),
            name: String::new(),
            addresses: Default::default(),
            external_ids: Default::default(),
        });
        apply(row, columns);
        (uuid.clone(), Some(row.clone()))
    });
    changed.collect()
}

/// A set is logged as its added or removed elements, a map as its added, changed or removed pairs.
fn apply(row: &mut Row, columns: &Value) {
    if let Some(name) = columns["name"].as_str() {
        name.clone_into(&mut row.name);
    }
    if let Some(difference) = columns.get("addresses") {
        let difference = read_set(difference);
        row.addresses = row
            .addresses
            .symmetric_difference(&difference)
            .cloned()
            .collect();
    }
    if let Some(difference) = columns.get("external_ids") {
        for (key, value) in read_map(difference) {
            if row.external_ids.get(&key) == Some(&value) {
                row.external_ids.remove(&key);
            } else {
                row.external_ids.insert(key, value);
            }
        }
    }
}
