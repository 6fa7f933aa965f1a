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
    /// Makes a row.
    pub fn insert(table: impl Into<Cow<'static, str>>, row: Row) -> Self {
        let table = table.into();
        Self::Insert { table, row }
    }

    /// Refuses the transaction, as `timed out`, if there is such a row.
    pub fn wait_for_none(table: impl Into<Cow<'static, str>>, filter: Vec<Condition>) -> Self {
        Self::Wait {
            table: table.into(),
            filter,
            columns: vec![SmolStr::new_static("_uuid")],
            until: Until::Equal,
            rows: Vec::new(),
            timeout: 0,
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

/// How a column is compared (RFC 7047 section 5.1, `<function>`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Function {
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

/// How a set or a map changes (RFC 7047 section 5.1, `<mutator>`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mutator {
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
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct OperationResult {
    /// The number of rows that met the conditions of a mutation or a deletion.
    pub count: Option<u64>,
    /// The rows that a [`Operation::Select`] read.
    pub rows: Option<Vec<Row>>,
    uuid: Option<Atom>,
    error: Option<String>,
    details: Option<String>,
}

impl OperationResult {
    /// The `_uuid` of the row that an insertion made.
    pub fn uuid(&self) -> Option<Uuid> {
        match self.uuid {
            Some(Atom::Uuid(uuid)) => Some(uuid),
            _ => None,
        }
    }

    /// What it lacks to be the result of this operation (RFC 7047 section 5.2).
    fn missing_member(&self, operation: &Operation) -> Option<&'static str> {
        let (member, is_there) = match operation {
            Operation::Insert { .. } => ("uuid", self.uuid().is_some()),
            Operation::Mutate { .. } | Operation::Delete { .. } => ("count", self.count.is_some()),
            Operation::Select { .. } => ("rows", self.rows.is_some()),
            Operation::Wait { .. } => return None,
        };
        (!is_there).then_some(member)
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

    let found: Vec<Option<Object<OperationResult>>> = reply.read()?;
    let expected = operations.len();
    let mut wrong = (found.len() != expected)
        .then(|| format!("{} results of {expected} operations", found.len()));
    let mut results = Vec::with_capacity(expected);
    for (index, result) in found.into_iter().enumerate() {
        let Some(Object(mut result)) = result else {
            let not_run = || format!("operation {index} was not run, and none failed");
            wrong.get_or_insert_with(not_run);
            continue;
        };
        // One more than there are operations is the error of the commit.
        if index <= expected
            && let Some(error) = result.error.take()
        {
            let details = result.details;
            return Ok(Outcome::Refused(Refusal {
                operation: (index < expected).then_some(index),
                reason: ServerError { error, details },
            }));
        }
        let operation = operations.get(index);
        if let Some(member) = operation.and_then(|it| result.missing_member(it)) {
            let incomplete = || format!("the result of operation {index} has no {member}");
            wrong.get_or_insert_with(incomplete);
        }
        results.push(result);
    }
    match wrong {
        Some(words) => Err(serde_json::Error::custom(words)),
        None => Ok(Outcome::Done(results)),
    }
}

#[cfg(test)]
mod tests;
