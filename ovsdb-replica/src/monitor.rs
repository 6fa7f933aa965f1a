//! Monitors (ovsdb-server(7) sections 4.1.12 to 4.1.15): requests and updates, without IO.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    error::Error,
    replica::{Record, TableUpdates},
    schema::{Schema, SchemaError},
    transact::Condition,
    transport::Notification,
};

/// A transaction id that no server knows: the server sends everything.
pub(super) const NO_TRANSACTION: &str = "00000000-0000-0000-0000-000000000000";

/// The monitor requests of all tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Requests(BTreeMap<&'static str, [Request; 1]>);

/// The monitor request of one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Request {
    columns: Vec<&'static str>,
    /// Only rows that meet one of these; all rows if it is empty.
    #[serde(rename = "where", skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
}

impl Requests {
    /// Adds the columns of a record, as far as the schema has them.
    ///
    /// # Errors
    /// [`SchemaError`] if a required column is missing.
    pub fn add<R: Record>(&mut self, schema: &Schema) -> Result<(), SchemaError> {
        if let Some(columns) = schema.columns(R::TABLE, R::COLUMNS)? {
            let request = Request {
                columns,
                conditions: R::conditions(),
            };
            self.0.insert(R::TABLE, [request]);
        }
        Ok(())
    }
}

/// The name of a monitor: its purpose and its database, as an array on the wire.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct MonitorId(pub(super) String, pub(super) String);

impl MonitorId {
    pub(super) fn new(purpose: &str, database: &str) -> Self {
        Self(purpose.to_owned(), database.to_owned())
    }
}

/// The reply to `monitor_cond_since`: whether the server knows the given transaction, the last transaction, and the
/// changes between them, or else all rows.
#[derive(Deserialize)]
pub(super) struct SinceReply<'a>(
    pub(super) bool,
    pub(super) String,
    #[serde(borrow)] pub(super) &'a RawValue,
);

/// The content of a notification.
pub(super) enum Update<'a> {
    /// `update3`.
    Rows {
        /// The monitor.
        id: MonitorId,
        /// The last transaction.
        last: String,
        /// The changes.
        updates: TableUpdates<'a>,
    },
    /// `monitor_canceled`.
    Canceled(MonitorId),
}

impl<'a> Update<'a> {
    /// Parses a notification.
    pub(super) fn parse(notification: &'a Notification) -> Result<Self, Error> {
        let params = &notification.params;
        let read = match notification.method.as_str() {
            "update3" => params.read().and_then(|(id, last, updates)| {
                let updates = TableUpdates::read_differences(updates)?;
                Ok(Self::Rows { id, last, updates })
            }),
            "monitor_canceled" => params.read().map(|(id,)| Self::Canceled(id)),
            other => return Err(Error::Unexpected(other.to_owned())),
        };
        read.map_err(|source| Error::Malformed {
            what: "a notification",
            source,
        })
    }
}
