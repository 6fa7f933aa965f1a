//! A copy of the monitored rows of one table, and the updates that keep it equal to the database.
//!
//! There is no IO here. What does not fit is refused and never guessed at: the copy is then of no more use.

mod by_key;
mod updates;

use std::{collections::BTreeSet, hash::Hash};

use foldhash::{HashMap, HashSet};
use serde_json::value::RawValue;
use uuid::Uuid;

pub use self::updates::TableUpdates;
use self::{
    by_key::ByKey,
    updates::{RowUpdate, RowUpdates},
};
use super::{
    replica_error::{ColumnError, ColumnProblem, ReplicaError},
    schema::Column,
    transact::Condition,
    value::{Datum, Row},
};

/// How a row is kept: the client's own type, as small as it likes.
pub trait Record: Default + Send + 'static {
    /// The table whose rows these are.
    const TABLE: &'static str;

    /// The columns that are read; no others are asked for.
    const COLUMNS: &'static [Column];

    /// By what rows are found, apart from their `_uuid`; several rows may have the same.
    type Key: Clone + Eq + Hash + Send + 'static;

    /// Which rows are wanted: those that meet one of these conditions, or all if there are none.
    fn conditions() -> Vec<Condition> {
        Vec::new()
    }

    /// Changes a column by a difference as `update3` has it (ovsdb-server(7) section 4.1.14): the elements of a set that came or
    /// went ([`toggle`]), the pairs of a map that came, went or changed, anything else anew. A set whose type allows one element
    /// at most counts as anything else. [`ColumnValue`](super::columns::ColumnValue) does so for the types of
    /// [`table!`](crate::table!).
    ///
    /// # Errors
    /// [`ColumnProblem`] for a column that the client did not ask for, or with a value of another type.
    fn modify_column(&mut self, column: &str, difference: Datum) -> Result<(), ColumnProblem>;

    /// A row as it is; columns that are not named have their default.
    ///
    /// # Errors
    /// As [`Record::modify_column`].
    fn read(columns: Row) -> Result<Self, ColumnError> {
        let mut row = Self::default();
        row.modify(columns)?;
        Ok(row)
    }

    /// Changes the row by a difference.
    ///
    /// # Errors
    /// As [`Record::modify_column`].
    fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
        difference.into_iter().try_for_each(|(column, value)| {
            self.modify_column(&column, value)
                .map_err(|problem| problem.of(column))
        })
    }

    /// The key, if the row has one. Changes of rows without one are no [`Event`](super::Event).
    fn key(&self) -> Option<Self::Key>;

    /// Whether the row is one of those that [`Replica::counted`] counts: of these only the number matters.
    fn counts(&self) -> bool {
        false
    }
}

/// The copy.
#[derive(Clone, Debug)]
pub struct Replica<R: Record> {
    rows: HashMap<Uuid, R>,
    by_key: ByKey<R::Key>,
    counted: usize,
}

impl<R: Record> Default for Replica<R> {
    fn default() -> Self {
        Self {
            rows: HashMap::default(),
            by_key: ByKey::default(),
            counted: 0,
        }
    }
}

impl<R: Record> Replica<R> {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of rows that [count](Record::counts).
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// All rows, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &R)> {
        self.rows.iter().map(|(uuid, row)| (*uuid, row))
    }

    /// One row.
    pub fn get(&self, uuid: Uuid) -> Option<&R> {
        self.rows.get(&uuid)
    }

    /// The keys that rows have, each once, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &R::Key> {
        self.by_key.keys()
    }

    /// Whether a row has this key.
    pub fn has_key(&self, key: &R::Key) -> bool {
        self.by_key.contains(key)
    }

    /// The rows with this key, in no order.
    pub fn with_key<'a>(
        &'a self,
        key: &R::Key,
    ) -> impl Iterator<Item = (Uuid, &'a R)> + use<'a, R> {
        let uuids = self.by_key.rows(key);
        uuids.filter_map(|uuid| Some((uuid, self.rows.get(&uuid)?)))
    }

    /// Takes over what happened to rows, and adds the keys of these rows, those before and those after, to `touched`.
    ///
    /// # Errors
    /// [`ReplicaError`]; the copy may then have been changed in part, and must be given up.
    pub(super) fn apply(
        &mut self,
        updates: RowUpdates<'_>,
        touched: &mut HashSet<R::Key>,
    ) -> Result<(), ReplicaError> {
        for (uuid, update) in updates.0 {
            self.apply_row(uuid, update, touched)?;
        }
        Ok(())
    }

    fn apply_row(
        &mut self,
        uuid: Uuid,
        update: RowUpdate<'_>,
        touched: &mut HashSet<R::Key>,
    ) -> Result<(), ReplicaError> {
        let columns = |json: &RawValue| {
            serde_json::from_str::<Row>(json.get())
                .map_err(|source| ReplicaError::Row { uuid, source })
        };
        let column_error = |source| ReplicaError::Column { uuid, source };
        let (key_before, counted_before) = self.facts(uuid);
        match update {
            RowUpdate::Insert(_) if self.rows.contains_key(&uuid) => {
                return Err(ReplicaError::Present(uuid));
            }
            RowUpdate::Insert(json) => {
                let row = R::read(columns(json)?).map_err(column_error)?;
                self.rows.insert(uuid, row);
            }
            RowUpdate::Modify(json) => {
                let row = self.rows.get_mut(&uuid).ok_or(ReplicaError::Absent(uuid))?;
                row.modify(columns(json)?).map_err(column_error)?;
            }
            RowUpdate::Delete(()) => {
                self.rows.remove(&uuid).ok_or(ReplicaError::Absent(uuid))?;
            }
        }
        let (key, is_counted) = self.facts(uuid);
        self.counted += usize::from(is_counted);
        self.counted -= usize::from(counted_before);
        if key_before != key {
            if let Some(key) = &key_before {
                self.by_key.remove(key, uuid);
            }
            if let Some(key) = &key {
                self.by_key.insert(key.clone(), uuid);
            }
        }
        touched.extend(key_before.into_iter().chain(key));
        Ok(())
    }

    /// The key of a row, and whether it counts.
    fn facts(&self, uuid: Uuid) -> (Option<R::Key>, bool) {
        let row = self.rows.get(&uuid);
        row.map_or((None, false), |row| (row.key(), row.counts()))
    }
}

/// Takes over a difference of a set: elements that are there go, the others come.
pub fn toggle<T: Ord>(set: &mut BTreeSet<T>, element: T) {
    if !set.remove(&element) {
        set.insert(element);
    }
}

#[cfg(test)]
mod tests;
