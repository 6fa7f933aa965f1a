//! Transactions (RFC 7047 section 4.1.3 and 5.2): what to do, and the three ways in which it can end.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use uuid::Uuid;

use super::{
    error::{Error, NextStep, ServerError},
    transport::Text,
    value::{Atom, Datum, Object, Row},
};

/// One operation. All of a transaction's operations take effect, or none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Makes a row (RFC 7047 section 5.2.1).
    Insert {
        /// Where.
        table: Cow<'static, str>,
        /// Its columns; those left out have their default.
        row: Row,
        /// By which other operations of the transaction refer to the row: [`Atom::NamedUuid`].
        #[serde(rename = "uuid-name", skip_serializing_if = "Option::is_none")]
        uuid_name: Option<String>,
    },
    /// Sets columns (RFC 7047 section 5.2.3).
    Update {
        /// Where.
        table: Cow<'static, str>,
        /// Which rows: those that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
        /// What the columns hold then.
        row: Row,
    },
    /// Changes columns relative to what they hold (RFC 7047 section 5.2.4).
    Mutate {
        /// Where.
        table: Cow<'static, str>,
        /// Which rows: those that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
        /// What changes, in this order.
        mutations: Vec<Mutation>,
    },
    /// Deletes rows (RFC 7047 section 5.2.5).
    Delete {
        /// Where.
        table: Cow<'static, str>,
        /// Which rows: those that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
    },
    /// Reads rows, as the operations before it leave them (RFC 7047 section 5.2.2).
    Select {
        /// Where.
        table: Cow<'static, str>,
        /// Which rows: those that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
        /// The columns that are read.
        columns: Vec<SmolStr>,
    },
    /// Refuses the transaction unless the rows hold what they are expected to, at once if `timeout` is 0 (RFC 7047 section 5.2.6).
    Wait {
        /// Where.
        table: Cow<'static, str>,
        /// Which rows: those that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
        /// The columns that are compared.
        columns: Vec<SmolStr>,
        /// Whether the rows must be these, or must not be.
        until: Until,
        /// What they are compared with.
        rows: Vec<Row>,
        /// Milliseconds.
        timeout: u64,
    },
}

impl Operation {
    /// Makes a row to which no other operation of the transaction refers.
    pub fn insert(table: impl Into<Cow<'static, str>>, row: Row) -> Self {
        Self::Insert {
            table: table.into(),
            row,
            uuid_name: None,
        }
    }

    /// Refuses the transaction, as `timed out`, unless the row holds these values at this moment: a guard in front of changes
    /// that rely on them. A row that is gone does not hold them.
    pub fn guard(table: impl Into<Cow<'static, str>>, uuid: Uuid, values: Row) -> Self {
        Self::Wait {
            table: table.into(),
            filter: vec![Condition::uuid(uuid)],
            columns: values.keys().cloned().collect(),
            until: Until::Equal,
            rows: vec![values],
            timeout: 0,
        }
    }

    /// Its length on the wire in bytes, give or take a fifth.
    pub fn estimated_wire_len(&self) -> usize {
        const FRAME: usize = 40;
        let row = |row: &Row| {
            row.iter()
                .map(|(k, v)| k.len() + 3 + v.estimated_wire_len())
                .sum::<usize>()
        };
        let filter = |filter: &[Condition]| -> usize {
            filter
                .iter()
                .map(|c| c.0.len() + 11 + c.2.estimated_wire_len())
                .sum()
        };
        FRAME
            + match self {
                Self::Insert {
                    table,
                    row: columns,
                    uuid_name,
                } => {
                    let name = uuid_name.as_ref().map_or(0, |name| name.len() + 15);
                    table.len() + row(columns) + name
                }
                Self::Update {
                    table,
                    filter: rows,
                    row: columns,
                } => table.len() + filter(rows) + row(columns),
                Self::Mutate {
                    table,
                    filter: rows,
                    mutations,
                } => {
                    let mutation = |m: &Mutation| m.0.len() + 16 + m.2.estimated_wire_len();
                    table.len() + filter(rows) + mutations.iter().map(mutation).sum::<usize>()
                }
                Self::Delete {
                    table,
                    filter: rows,
                } => table.len() + filter(rows),
                Self::Select {
                    table,
                    filter: rows,
                    columns,
                } => {
                    let columns: usize = columns.iter().map(|column| column.len() + 3).sum();
                    table.len() + filter(rows) + columns
                }
                Self::Wait {
                    table,
                    filter: rows,
                    columns,
                    rows: expected,
                    ..
                } => {
                    let columns: usize = columns.iter().map(|column| column.len() + 3).sum();
                    table.len() + filter(rows) + columns + expected.iter().map(row).sum::<usize>()
                }
            }
    }
}

/// What a [`Operation::Wait`] waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Until {
    /// The rows are exactly these.
    #[serde(rename = "==")]
    Equal,
    /// The rows are not exactly these.
    #[serde(rename = "!=")]
    NotEqual,
}

/// A column, a function, and what it is compared with (RFC 7047 section 5.1, `<condition>`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Condition(pub Cow<'static, str>, pub Function, pub Datum);

/// How a column is compared (RFC 7047 section 5.1, `<function>`). Only numbers have an order.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Function {
    /// The column is less.
    #[serde(rename = "<")]
    Less,
    /// The column is less or equal.
    #[serde(rename = "<=")]
    AtMost,
    /// The column is different.
    #[serde(rename = "!=")]
    NotEqual,
    /// The column is greater or equal.
    #[serde(rename = ">=")]
    AtLeast,
    /// The column is greater.
    #[serde(rename = ">")]
    Greater,
    /// The column is equal.
    #[serde(rename = "==")]
    Equal,
    /// The column holds at least these elements or pairs.
    #[serde(rename = "includes")]
    Includes,
    /// The column holds none of these elements or pairs.
    #[serde(rename = "excludes")]
    Excludes,
}

impl Condition {
    /// The row with this `_uuid`.
    pub fn uuid(uuid: Uuid) -> Self {
        Self("_uuid".into(), Function::Equal, uuid.into())
    }

    /// Rows whose column has this value.
    pub fn equal(column: impl Into<Cow<'static, str>>, value: impl Into<Datum>) -> Self {
        Self(column.into(), Function::Equal, value.into())
    }

    /// Rows whose map of strings has this pair.
    pub fn has_pair(column: &'static str, key: &str, value: &str) -> Self {
        Self(
            column.into(),
            Function::Includes,
            Datum::string_map([(key, value)]),
        )
    }
}

/// A column, what happens to it, and by what (RFC 7047 section 5.1, `<mutation>`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mutation(pub Cow<'static, str>, pub Mutator, pub Datum);

/// How a column changes (RFC 7047 section 5.1, `<mutator>`). The arithmetic ones are for numbers, and for sets of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mutator {
    /// The number is added.
    #[serde(rename = "+=")]
    Add,
    /// The number is subtracted.
    #[serde(rename = "-=")]
    Subtract,
    /// The column is multiplied by the number.
    #[serde(rename = "*=")]
    Multiply,
    /// The column is divided by the number.
    #[serde(rename = "/=")]
    Divide,
    /// The column is the remainder of a division by the number.
    #[serde(rename = "%=")]
    Remainder,
    /// Elements are added; those that are there stay.
    Insert,
    /// Elements are removed; those that are not there do not matter.
    Delete,
}

/// How a transaction ended.
#[derive(Debug)]
pub enum Outcome {
    /// It is in the database. One result for each operation, in their order.
    Done(Vec<OperationResult>),
    /// Nothing of it is in the database.
    Refused(Refusal),
    /// It is not known whether it is in the database. Call [`Client::restart`](crate::Client::restart) and look at the replica of the
    /// next session; never send it again unseen.
    Unknown(Error),
}

impl Outcome {
    /// What the caller does next, if anything.
    pub fn next_step(&self) -> Option<NextStep> {
        match self {
            Self::Done(_) => None,
            Self::Refused(refusal) => Some(refusal.next_step()),
            Self::Unknown(_) => Some(NextStep::UnknownOutcome),
        }
    }
}

/// What one operation did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationResult {
    /// The number of rows that met the conditions of a mutation or a deletion.
    pub count: Option<u64>,
    /// The rows that a [`Operation::Select`] read.
    pub rows: Option<Vec<Row>>,
    uuid: Option<Atom>,
}

impl OperationResult {
    /// The `_uuid` of the row that an insertion made.
    pub fn uuid(&self) -> Option<Uuid> {
        match self.uuid {
            Some(Atom::Uuid(uuid)) => Some(uuid),
            _ => None,
        }
    }
}

/// Why the server did not carry a transaction out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// Which operation is to blame; `None` for the whole, such as a constraint that fails when it is committed.
    pub operation: Option<usize>,
    /// The server's words.
    pub reason: ServerError,
}

impl Refusal {
    /// [`NextStep::Retry`] if the server refused what the transaction relied on, or was short of resources (RFC 7047 section 3.1).
    pub fn next_step(&self) -> NextStep {
        match self.reason.error.as_str() {
            "timed out" | "aborted" | "resources exhausted" | "I/O error" => NextStep::Retry,
            _ => NextStep::Refuse,
        }
    }
}

impl std::error::Error for Refusal {}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.operation {
            Some(index) => write!(f, "operation {index}: {}", self.reason),
            None => self.reason.fmt(f),
        }
    }
}

/// Why the results of a transaction make no sense.
#[derive(Debug, thiserror::Error)]
enum ResultError {
    #[error("{found} results of {expected} operations")]
    Count { found: usize, expected: usize },
    #[error("operation {0} was not run, and none failed")]
    NotRun(usize),
    #[error("the result of operation {index} has no {member}")]
    Incomplete { index: usize, member: &'static str },
}

/// What stands in a reply for an operation, whichever it is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Element {
    error: Option<String>,
    details: Option<String>,
    count: Option<u64>,
    uuid: Option<Atom>,
    rows: Option<Vec<Row>>,
}

impl Element {
    /// The result, if it is one that this operation has (RFC 7047 section 5.2).
    fn result_of(
        self,
        index: usize,
        operation: &Operation,
    ) -> Result<OperationResult, ResultError> {
        let result = OperationResult {
            count: self.count,
            rows: self.rows,
            uuid: self.uuid,
        };
        let (member, is_there) = match operation {
            Operation::Insert { .. } => ("uuid", result.uuid().is_some()),
            Operation::Update { .. } | Operation::Mutate { .. } | Operation::Delete { .. } => {
                ("count", result.count.is_some())
            }
            Operation::Select { .. } => ("rows", result.rows.is_some()),
            Operation::Wait { .. } => return Ok(result),
        };
        if is_there {
            Ok(result)
        } else {
            Err(ResultError::Incomplete { index, member })
        }
    }
}

/// Reads the reply to these operations.
pub(super) fn outcome(operations: &[Operation], reply: &Text) -> Outcome {
    match read(operations, reply) {
        Ok(outcome) => outcome,
        Err(source) => Outcome::Unknown(Error::Malformed {
            what: "the reply to a transaction",
            source,
        }),
    }
}

fn read(operations: &[Operation], reply: &Text) -> Result<Outcome, serde_json::Error> {
    use serde::de::Error as _;

    let elements: Vec<Option<Object<Element>>> = reply.read()?;
    let (found, expected) = (elements.len(), operations.len());
    let mut results = Vec::with_capacity(expected);
    let mut wrong = (found != expected).then_some(ResultError::Count { found, expected });
    for (index, element) in elements.into_iter().enumerate() {
        let Some(Object(mut element)) = element else {
            wrong = wrong.or(Some(ResultError::NotRun(index)));
            continue;
        };
        // One more than there are operations is the error of the commit.
        if index <= expected
            && let Some(error) = element.error.take()
        {
            let reason = ServerError {
                error,
                details: element.details,
            };
            return Ok(Outcome::Refused(Refusal {
                operation: (index < expected).then_some(index),
                reason,
            }));
        }
        if let Some(operation) = operations.get(index) {
            match element.result_of(index, operation) {
                Ok(result) => results.push(result),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
    }
    match wrong {
        Some(error) => Err(serde_json::Error::custom(error)),
        None => Ok(Outcome::Done(results)),
    }
}

#[cfg(test)]
mod tests;
