//! Transactions (RFC 7047 section 4.1.3 and 5.2): their operations, and their three outcomes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use uuid::Uuid;

use super::{
    error::{Error, NextStep, ServerError},
    transport::Text,
    value::{Atom, Datum, Object, Row},
};

/// One operation. Either all operations of a transaction take effect, or none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Inserts a row (RFC 7047 section 5.2.1).
    Insert {
        /// The table.
        table: Cow<'static, str>,
        /// Its columns; missing ones have their default.
        row: Row,
    },
    /// Changes columns relative to their values (RFC 7047 section 5.2.4).
    Mutate {
        /// The table.
        table: Cow<'static, str>,
        /// The rows that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
        /// The changes, in this order.
        mutations: Vec<Mutation>,
    },
    /// Deletes rows (RFC 7047 section 5.2.5).
    Delete {
        /// The table.
        table: Cow<'static, str>,
        /// The rows that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
    },
    /// Reads rows, with the effects of the operations before it (RFC 7047 section 5.2.2).
    Select {
        /// The table.
        table: Cow<'static, str>,
        /// The rows that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
        /// The columns to read.
        columns: Vec<SmolStr>,
    },
    /// Refuses the transaction unless the rows have the expected content, at once if `timeout` is 0 (RFC 7047 section
    /// 5.2.6).
    Wait {
        /// The table.
        table: Cow<'static, str>,
        /// The rows that meet all conditions.
        #[serde(rename = "where")]
        filter: Vec<Condition>,
        /// The columns to compare.
        columns: Vec<SmolStr>,
        /// Whether the rows must be these, or must not be.
        until: Until,
        /// The rows to compare with.
        rows: Vec<Row>,
        /// In milliseconds.
        timeout: u64,
    },
}

impl Operation {
    /// Inserts a row.
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

/// The condition of a [`Operation::Wait`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Until {
    /// The rows are exactly these.
    #[serde(rename = "==")]
    Equal,
}

/// A column, a function, and the value to compare with (RFC 7047 section 5.1, `<condition>`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Condition(pub Cow<'static, str>, pub Function, pub Datum);

/// The comparison of a column (RFC 7047 section 5.1, `<function>`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Function {
    /// The column is equal.
    #[serde(rename = "==")]
    Equal,
    /// The column has at least these elements or pairs.
    #[serde(rename = "includes")]
    Includes,
    /// The column has none of these elements or pairs.
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

/// A column, a mutator, and its operand (RFC 7047 section 5.1, `<mutation>`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mutation(pub Cow<'static, str>, pub Mutator, pub Datum);

/// The change of a set, a map or a number (RFC 7047 section 5.1, `<mutator>`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mutator {
    /// Adds elements; existing ones stay.
    Insert,
    /// Removes elements; missing ones are ignored.
    Delete,
}

/// How a transaction ended.
#[derive(Debug)]
pub enum Outcome {
    /// The transaction is in the database. One result for each operation, in their order.
    Done(Vec<OperationResult>),
    /// No part of the transaction is in the database.
    Refused(Refusal),
    /// The transaction may or may not be in the database. Call [`Client::restart`](crate::Client::restart) and check
    /// the replica of the next session; never send it again without a check.
    Unknown(Error),
}

impl Outcome {
    /// The caller's next step, if any.
    pub fn next_step(&self) -> Option<NextStep> {
        match self {
            Self::Done(_) => None,
            Self::Refused(refusal) => Some(refusal.next_step()),
            Self::Unknown(_) => Some(NextStep::UnknownOutcome),
        }
    }
}

/// The result of one operation.
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

    /// The member that the result of this operation must have but lacks (RFC 7047 section 5.2).
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
    /// The failed operation; `None` for the whole transaction, such as a constraint that fails at the commit.
    pub operation: Option<usize>,
    /// The server's error.
    pub reason: ServerError,
}

impl Refusal {
    /// [`NextStep::Retry`] if a precondition of the transaction failed, or the server was short of resources (RFC 7047
    /// section 3.1).
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

/// Parses the reply to these operations.
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
        // An additional result is the error of the commit.
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
