//! The body of the fuzz target. The tests on a stable toolchain run it too.
//!
//! It takes any bytes and panics if an invariant does not hold. It is compiled for tests and for `cargo fuzz`, which
//! sets `cfg(fuzzing)`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a target tells what it found"
)]

use std::collections::{HashMap, HashSet};

use ovsdb_replica::{Record, Replica, Tables, replica::TableUpdates};
use serde_json::value::RawValue;

use crate::references::{Northbound, NorthboundChanges, NorthboundReplica, References};

/// Updates of the followed tables of the northbound database: one JSON text a line. Each is applied to the same replica
/// until one does not fit.
///
/// The replica must find its rows by their keys, and the incremental state must equal that of a fresh read.
pub fn updates(data: &[u8]) {
    let Ok(lines) = std::str::from_utf8(data) else {
        return;
    };
    let (mut replica, mut references) = (NorthboundReplica::default(), References::default());
    for line in lines.lines() {
        let Ok(json) = serde_json::from_str::<&RawValue>(line) else {
            return;
        };
        let Ok(updates) = TableUpdates::read_differences(json) else {
            return;
        };
        let mut changes = NorthboundChanges::default();
        if Northbound::apply(&mut replica, updates, &mut changes).is_err() {
            // The session ends here, and the replica is dropped.
            return;
        }
        references.update(&replica, &changes);
        check_keys(&replica.0);
        check_keys(&replica.1);
        check_keys(&replica.2);
        check_keys(&replica.3);
        check_keys(&replica.4);
        check_references(&replica, &references);
    }
}

/// Every row is found by its key and by no other.
fn check_keys<R: Record>(replica: &Replica<R>) {
    let counted = replica.iter().filter(|(_, row)| row.counts()).count();
    assert_eq!(replica.counted(), counted);
    let mut keys = HashMap::<R::Key, HashSet<_>>::new();
    for (uuid, row) in replica.iter() {
        assert!(replica.get(uuid).is_some());
        if let Some(key) = row.key() {
            keys.entry(key).or_default().insert(uuid);
        }
    }
    for (key, uuids) in keys {
        let found: Vec<_> = replica.with_key(&key).map(|(uuid, _)| uuid).collect();
        assert_eq!(found.len(), uuids.len());
        assert_eq!(found.into_iter().collect::<HashSet<_>>(), uuids);
    }
}

/// The references of each set equal those of a new index over the same rows.
fn check_references(replica: &NorthboundReplica, references: &References) {
    let anew = References::of(replica);
    for (_, set) in replica.0.iter() {
        let name = set.name().into();
        assert_eq!(references.contain(&name), anew.contain(&name), "{name:?}");
    }
}

#[cfg(test)]
mod tests;
