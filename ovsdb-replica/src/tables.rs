//! The tables of a client: one [`Record`], or several in a tuple, in one monitor.

use foldhash::HashSet;

use super::{
    monitor::Requests,
    replica::{Record, Replica, TableUpdates},
    replica_error::ReplicaError,
    schema::{Schema, SchemaError},
};

/// The tables that a client replicates.
///
/// A [`Record`] is one table. A tuple of up to eight records of different tables is several; its replica and its
/// changes are tuples, too. All of them are read at once and change together, transaction by transaction.
pub trait Tables: Send + 'static {
    /// The copies: a [`Replica`], or a tuple of them.
    type Replica: Default + Send;

    /// The changes: the keys of the affected rows, or a tuple of such sets.
    type Changes: Default + Send;

    /// The monitor requests.
    ///
    /// # Errors
    /// [`SchemaError`] if the database does not fit.
    fn requests(schema: &Schema) -> Result<Requests, SchemaError>;

    /// Applies updates.
    ///
    /// # Errors
    /// [`ReplicaError`]; the copy is then unusable.
    fn apply(
        replica: &mut Self::Replica,
        updates: TableUpdates<'_>,
        changes: &mut Self::Changes,
    ) -> Result<(), ReplicaError>;

    /// Whether all sets are empty.
    fn nothing_changed(changes: &Self::Changes) -> bool;

    /// The number of rows that [count](Record::counts), in all tables together.
    fn counted(replica: &Self::Replica) -> usize;
}

impl<R: Record> Tables for R {
    type Replica = Replica<R>;
    type Changes = HashSet<R::Key>;

    fn requests(schema: &Schema) -> Result<Requests, SchemaError> {
        let mut requests = Requests::default();
        requests.add::<R>(schema)?;
        Ok(requests)
    }

    fn apply(
        replica: &mut Replica<R>,
        updates: TableUpdates<'_>,
        changes: &mut HashSet<R::Key>,
    ) -> Result<(), ReplicaError> {
        for (table, rows) in updates.0 {
            if table != R::TABLE {
                return Err(ReplicaError::Table(table));
            }
            replica.apply(rows, changes)?;
        }
        Ok(())
    }

    fn nothing_changed(changes: &HashSet<R::Key>) -> bool {
        changes.is_empty()
    }

    fn counted(replica: &Replica<R>) -> usize {
        replica.counted()
    }
}

macro_rules! tables {
    ($($record:ident $index:tt),+) => {
        impl<$($record: Record),+> Tables for ($($record,)+) {
            type Replica = ($(Replica<$record>,)+);
            type Changes = ($(HashSet<$record::Key>,)+);

            fn requests(schema: &Schema) -> Result<Requests, SchemaError> {
                let mut requests = Requests::default();
                $(requests.add::<$record>(schema)?;)+
                Ok(requests)
            }

            fn apply(
                replica: &mut Self::Replica,
                updates: TableUpdates<'_>,
                changes: &mut Self::Changes,
            ) -> Result<(), ReplicaError> {
                for (table, rows) in updates.0 {
                    $(
                        if table == $record::TABLE {
                            replica.$index.apply(rows, &mut changes.$index)?;
                            continue;
                        }
                    )+
                    return Err(ReplicaError::Table(table));
                }
                Ok(())
            }

            fn nothing_changed(changes: &Self::Changes) -> bool {
                $(changes.$index.is_empty())&&+
            }

            fn counted(replica: &Self::Replica) -> usize {
                [$(replica.$index.counted()),+].into_iter().sum()
            }
        }
    };
}

tables!(A 0, B 1);
tables!(A 0, B 1, C 2);
tables!(A 0, B 1, C 2, D 3);
tables!(A 0, B 1, C 2, D 3, E 4);
tables!(A 0, B 1, C 2, D 3, E 4, F 5);
tables!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tables!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

#[cfg(test)]
pub(super) mod testing;
