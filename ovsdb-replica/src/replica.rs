//! A copy of the monitored rows of one table, and the updates that keep it equal to the database.
//!
//! There is no IO here. An update that does not fit is refused without a guess; the copy is then unusable.

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

/// The client's own type of a row, with as few columns as it needs.
pub trait Record: Default + Send + 'static {
    /// The table of these rows.
    const TABLE: &'static str;

    /// The columns to read; no others are requested.
    const COLUMNS: &'static [Column];

    /// The key by which rows are found, apart from their `_uuid`; it need not be unique.
    type Key: Clone + Eq + Hash + Send + 'static;

    /// The rows to read: those that meet one of these conditions, or all if there are none.
    fn conditions() -> Vec<Condition> {
        Vec::new()
    }

    /// Applies a difference of `update3` to a column (ovsdb-server(7) section 4.1.14). For a set it has the elements
    /// that were added or removed ([`toggle`]), for a map the pairs that were added, removed or changed. For other
    /// columns it is the new value, also for a set of at most one element. [`ColumnValue`](super::columns::ColumnValue)
    /// implements this for the types of [`table!`](crate::table!).
    ///
    /// # Errors
    /// [`ColumnProblem`] for a column that was not requested, or a value of another type.
    fn modify_column(&mut self, column: &str, difference: Datum) -> Result<(), ColumnProblem>;

    /// A whole row; missing columns have their default.
    ///
    /// # Errors
    /// Those of [`Record::modify_column`].
    fn read(columns: Row) -> Result<Self, ColumnError> {
        let mut row = Self::default();
        row.modify(columns)?;
        Ok(row)
    }

    /// Applies a difference to the row.
    ///
    /// # Errors
    /// Those of [`Record::modify_column`].
    fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
        difference.into_iter().try_for_each(|(column, value)| {
            self.modify_column(&column, value)
                .map_err(|problem| problem.of(column))
        })
    }

    /// The key, if the row has one. Changes of rows without one cause no [`Event`](super::Event).
    fn key(&self) -> Option<Self::Key>;

    /// Whether [`Replica::counted`] counts the row: for such rows only the number matters.
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

    /// Applies changes of rows, and adds the old and new keys of these rows to `touched`.
    ///
    /// # Errors
    /// [`ReplicaError`]; the copy may then be partly changed, and must be dropped.
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

/// Applies a difference to a set: an existing element is removed, another one is added.
pub fn toggle<T: Ord>(set: &mut BTreeSet<T>, element: T) {
    if !set.remove(&element) {
        set.insert(element);
    }
}

#[cfg(test)]
mod tests;
