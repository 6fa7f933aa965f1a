//! Monitors (ovsdb-server(7) sections 4.1.12 to 4.1.15): what to ask for, and what comes: no IO.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use super::{error::Error, replica::TableUpdates, session::Notification, transact::Condition};

/// The transaction id that no server knows: everything is sent.
const NO_TRANSACTION: &str = "00000000-0000-0000-0000-000000000000";

/// What is wanted of one table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MonitorRequest {
    /// Only these columns.
    pub columns: Vec<String>,
    /// Only rows that meet one of these conditions; all rows if there are none.
    #[serde(rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The name of a monitor: its purpose and its database.
///
/// It is an array on the wire. `jsonrpsee` takes a text or a number as the first parameter of a notification for the id of a
/// subscription of its own.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct MonitorId<'a>(
    #[serde(borrow)] pub(super) Cow<'a, str>,
    #[serde(borrow)] pub(super) Cow<'a, str>,
);

impl MonitorId<'static> {
    pub(super) fn new(purpose: &'static str, database: &str) -> Self {
        Self(Cow::Borrowed(purpose), Cow::Owned(database.to_owned()))
    }
}

/// The parameters of `monitor_cond_since` and, without the last, of `monitor_cond`.
pub(super) type MonitorParams<'a> = (
    &'a str,
    &'a MonitorId<'a>,
    BTreeMap<&'a str, [&'a MonitorRequest; 1]>,
    &'static str,
);

/// Asks for everything of one table.
pub(super) fn since_the_beginning<'a>(
    id: &'a MonitorId<'a>,
    table: &'a str,
    request: &'a MonitorRequest,
) -> MonitorParams<'a> {
    (
        &id.1,
        id,
        BTreeMap::from([(table, [request])]),
        NO_TRANSACTION,
    )
}

/// The reply to `monitor_cond_since`: whether the transaction is known, the last transaction, and the rows.
#[derive(Deserialize)]
pub(super) struct SinceReply<'a>(
    #[expect(dead_code, reason = "only asked for from the beginning")] bool,
    #[expect(dead_code, reason = "not resumed from")] String,
    #[serde(borrow)] pub(super) TableUpdates<'a>,
);

/// What a notification brings.
pub(super) enum Update<'a> {
    /// `update2` or `update3`.
    Rows(MonitorId<'a>, TableUpdates<'a>),
    /// `monitor_canceled`.
    Canceled(MonitorId<'a>),
}

impl<'a> Update<'a> {
    /// Reads a notification.
    pub(super) fn parse(notification: &'a Notification) -> Result<Self, Error> {
        let malformed = |source| Error::Malformed {
            what: "a notification",
            source,
        };
        let params = notification.params.get();
        match notification.method.as_str() {
            "update3" => {
                let (id, _, updates): (_, Cow<'_, str>, _) =
                    serde_json::from_str(params).map_err(malformed)?;
                Ok(Self::Rows(id, updates))
            }
            "update2" => {
                let (id, updates) = serde_json::from_str(params).map_err(malformed)?;
                Ok(Self::Rows(id, updates))
            }
            "monitor_canceled" => {
                let (id,) = serde_json::from_str(params).map_err(malformed)?;
                Ok(Self::Canceled(id))
            }
            other => Err(Error::Unexpected(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn a_request_is_written_as_the_server_reads_it() {
        let request = MonitorRequest {
            columns: vec!["title".into()],
            conditions: vec![Condition::has_pair("ids", "k", "v")],
        };
        let id = MonitorId::new("books", "Library");
        assert_eq!(
            serde_json::to_string(&since_the_beginning(&id, "Book", &request)).unwrap(),
            r#"["Library",["books","Library"],{"Book":[{"columns":["title"],"where":[["ids","includes",["map",[["k","v"]]]]]}]},"00000000-0000-0000-0000-000000000000"]"#
        );
    }

    #[test]
    fn notifications_are_told_apart() {
        let parsed = |method: &str, params: &str| {
            let params = RawValue::from_string(params.to_owned()).unwrap();
            match Update::parse(&Notification {
                method: method.to_owned(),
                params,
            }) {
                Ok(Update::Rows(id, _)) => format!("rows of {}", id.0),
                Ok(Update::Canceled(id)) => format!("end of {}", id.0),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(parsed("update3", r#"[["a","b"],"0",{}]"#), "rows of a");
        assert_eq!(parsed("update2", r#"[["a","b"],{}]"#), "rows of a");
        assert_eq!(parsed("monitor_canceled", r#"[["a","b"]]"#), "end of a");
        assert_eq!(parsed("stolen", "[]"), "an unexpected notification: stolen");
        assert!(parsed("update3", r#"[["a","b"],{}]"#).contains("cannot be read"));
        assert!(parsed("update2", r#"["text",{}]"#).contains("cannot be read"));
    }
}
