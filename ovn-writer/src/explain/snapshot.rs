//! A summary of the writer's state, for `/status.json`.

use serde::Serialize;

use super::{Idle, Selection, SetShown, Sets, SetsQuery, Sides};
use crate::{sync::Differences, verify::Absent};

/// The maximum number of addresses per set.
const MOST_ADDRESSES: usize = 10;

/// The state of a writer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Why this process writes nothing; `None` if it writes.
    pub idle: Option<Idle>,
    pub database: Database,
    /// The number of DNSNameResolver objects with a valid name.
    pub objects: usize,
    /// The differences between store and database, by kind.
    pub differences: Differences,
    /// The names in use without an object; `None` if there are none.
    pub absent: Option<Absent>,
    /// The number of names in the store or the database.
    pub names: usize,
    /// The sets with differences, at most 500.
    pub sets: Vec<SetShown>,
    /// The number of further names with differences.
    pub more_names: usize,
}

/// The connection to the northbound database.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Database {
    /// The server of the session, or the one that is tried next.
    pub remote: String,
    pub is_connected: bool,
    /// The number of address sets of names; `None` without a session.
    pub rows: Option<usize>,
    /// Whether ovn-kubernetes manages the address sets, as far as known.
    pub is_managed: bool,
}

impl Snapshot {
    /// Summarizes the state. `remote` is of the connection.
    pub fn new(sides: Sides<'_>, remote: String) -> Self {
        let state = sides.state();
        let query = SetsQuery {
            selection: Selection::Differing,
            addresses: MOST_ADDRESSES,
            ..SetsQuery::default()
        };
        let differing = Sets::new(&query, sides);
        Self {
            idle: sides.idle,
            database: Database {
                remote,
                is_connected: sides.replica.is_some(),
                rows: sides.replica.map(|replica| replica.0.len()),
                is_managed: state.is_managed(),
            },
            objects: state.desired.objects(),
            differences: state.differences,
            absent: Absent::of(state),
            names: differing.names,
            sets: differing.sets,
            more_names: differing.hidden,
        }
    }
}
