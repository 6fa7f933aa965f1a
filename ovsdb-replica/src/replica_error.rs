//! Updates that do not fit the rows at hand.

use uuid::Uuid;

use super::value::TypeError;

/// A column that a [`Record`](super::Record) cannot take.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct ColumnError {
    /// Its name.
    pub column: String,
    /// What is wrong.
    pub problem: ColumnProblem,
}

/// What is wrong with a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ColumnProblem {
    /// It was not asked for.
    #[error("it was not asked for")]
    Unknown,
    /// Its value is of another type.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// An element or a key stands in it twice.
    #[error("an element stands in it twice")]
    Duplicate,
}

impl ColumnProblem {
    /// The problem with its place.
    pub fn of(self, column: impl Into<String>) -> ColumnError {
        ColumnError {
            column: column.into(),
            problem: self,
        }
    }
}

/// An update that does not fit the rows at hand.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// A table that was not asked for.
    #[error("an update of the table {0}, which is not monitored")]
    Table(String),
    /// A row comes that is there.
    #[error("row {0} is inserted and is there already")]
    Present(Uuid),
    /// A row changes or goes that is not there.
    #[error("row {0} is changed or deleted and is not there")]
    Absent(Uuid),
    /// A row is not what its table has.
    #[error("row {uuid}: {source}")]
    Column {
        /// Which row.
        uuid: Uuid,
        /// What is wrong with it.
        source: ColumnError,
    },
    /// A row is no JSON object of columns.
    #[error("row {uuid}: {source}")]
    Row {
        /// Which row.
        uuid: Uuid,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}
