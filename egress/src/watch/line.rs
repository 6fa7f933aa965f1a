//! A new address as a line of text or JSON.

use std::collections::BTreeMap;

use proto::{
    facts::{NameAddress, RowAddress},
    text::{few, printable},
    timestamp::Timestamp,
};
use serde::Serialize;

/// The most nodes named in a line.
const MOST_NAMED: usize = 3;

/// An address to print.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    #[serde(flatten)]
    pub(super) address: NameAddress,
    /// Whether it has a status, and a row of each ovn-writer.
    pub(super) is_complete: bool,
    /// By ovn-writer.
    pub(super) rows: BTreeMap<String, RowAddress>,
    /// The ovn-writers without a row.
    pub(super) without_row: Vec<String>,
    pub(super) milliseconds: Legs,
}

/// The times between the parts in milliseconds.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Legs {
    /// From the answer to the collector.
    read: Option<i64>,
    /// From there to the store's acknowledgement of the status.
    status: Option<i64>,
    /// From there to the acknowledgement of the last database.
    row: Option<i64>,
    /// From the answer to the last known time.
    all: i64,
}

/// The milliseconds from one time to another. Negative if the clocks of two machines differ.
pub(super) fn millis(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millis().saturating_sub(from.as_millis())
}

impl Legs {
    pub(super) fn of(address: &NameAddress, rows: &BTreeMap<String, RowAddress>) -> Self {
        let (answered, read) = (address.answered_at, address.read_at);
        let status = address.status_written_at;
        let row = slowest(rows).map(|(_, row)| row.committed_at);
        let leg = |from: Option<Timestamp>, to: Option<Timestamp>| Some(millis(from?, to?));
        let last = [status, row]
            .into_iter()
            .flatten()
            .fold(read, Timestamp::max);
        Self {
            read: leg(answered, Some(read)),
            status: leg(Some(read), status),
            row: leg(status, row),
            all: millis(answered.unwrap_or(read), last),
        }
    }
}

/// The row that was committed last, with its ovn-writer.
fn slowest(rows: &BTreeMap<String, RowAddress>) -> Option<(&String, &RowAddress)> {
    rows.iter().max_by_key(|(_, row)| row.committed_at)
}

impl Line {
    pub(super) fn text(&self) -> String {
        let Self {
            address,
            rows,
            milliseconds: legs,
            ..
        } = self;
        let mut parts = Vec::new();
        parts.push(match legs.read {
            Some(read) => format!("read {read} ms"),
            None => format!("seen {}", address.seen_where),
        });
        parts.push(match legs.status {
            Some(status) => format!("status {status} ms"),
            None => "no status".to_owned(),
        });
        if let Some((writer, _)) = slowest(rows) {
            let row = legs.row.map_or("?".to_owned(), |row| format!("{row} ms"));
            let nodes = match rows.len() {
                1 => String::new(),
                count => format!(" on {count} nodes, the slowest {writer}"),
            };
            parts.push(format!("row {row}{nodes}"));
        }
        if !self.without_row.is_empty() {
            let named = few(self.without_row.iter(), MOST_NAMED);
            parts.push(format!("no row of ovn-writer {named}"));
        }
        parts.push(format!("in all {} ms", legs.all));
        let mut name = address.name.clone();
        if address.rule != address.name {
            name += &format!(" ({})", address.rule);
        }
        let at = address.answered_at.unwrap_or(address.read_at);
        let mark = if self.is_complete { "" } else { "? " };
        let line = format!(
            "{mark}{at} {name} {}: {}",
            address.address,
            parts.join(", ")
        );
        printable(&line)
    }
}
