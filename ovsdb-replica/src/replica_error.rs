//! Updates that do not fit the current rows.

use uuid::Uuid;

use super::value::TypeError;

/// An error of a [`Record`](super::Record) for one column.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct ColumnError {
    /// Its name.
    pub column: String,
    /// The problem.
    pub problem: ColumnProblem,
}

/// The problem of a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ColumnProblem {
    /// It was not requested.
    #[error("the client did not request it")]
    Unknown,
    /// Its value is of another type.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// It has an element or a key twice.
    #[error("it has an element twice")]
    Duplicate,
}

impl ColumnProblem {
    /// The problem with its column.
    pub fn of(self, column: impl Into<String>) -> ColumnError {
        ColumnError {
            column: column.into(),
            problem: self,
        }
    }
}

/// An update that does not fit the current rows.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The table was not requested.
    #[error("an update of the table {0}, which is not monitored")]
    Table(String),
    /// An inserted row exists already.
    #[error("inserted row {0} exists already")]
    Present(Uuid),
    /// A changed or deleted row does not exist.
    #[error("changed or deleted row {0} does not exist")]
    Absent(Uuid),
    /// A row does not fit its table.
    #[error("row {uuid}: {source}")]
    Column {
        /// The row.
        uuid: Uuid,
        /// The error.
        source: ColumnError,
    },
    /// A row is no JSON object of columns.
    #[error("row {uuid}: {source}")]
    Row {
        /// The row.
        uuid: Uuid,
        /// The error.
        source: serde_json::Error,
    },
}
