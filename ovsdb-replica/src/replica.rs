//! A copy of the monitored rows of one table, and the updates that keep it equal to the database.
//!
//! There is no IO here. What does not fit is refused and never guessed at: the copy is then of no more use.

mod by_key;
mod updates;

use std::{collections::BTreeSet, hash::Hash};

use foldhash::{HashMap, HashSet};
use serde_json::value::RawValue;
use uuid::Uuid;

pub use self::updates::{RowUpdates, TableUpdates};
use self::{by_key::ByKey, updates::RowUpdate};
use super::{
    replica_error::{ColumnError, ReplicaError},
    schema::Column,
    transact::Condition,
    value::Row,
};

/// How a row is kept: the client's own type, as small as it likes.
pub trait Record: Sized + Send + 'static {
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

    /// A row as it is; columns that are not named have their default.
    ///
    /// # Errors
    /// [`ColumnError`] for a column that the client did not ask for, or with a value of another type.
    fn read(columns: Row) -> Result<Self, ColumnError>;

    /// Changes the row by a difference as `update3` has it (ovsdb-server(7) section 4.1.14): the elements of a set that came
    /// or went ([`toggle`]), the pairs of a map that came, went or changed ([`toggle_pair`]), anything else anew. A set whose
    /// type allows one element at most counts as anything else.
    ///
    /// # Errors
    /// As [`Record::read`].
    fn modify(&mut self, difference: Row) -> Result<(), ColumnError>;

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
    pub fn apply(
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
        match update {
            RowUpdate::Insert(json) => {
                let row = R::read(columns(json)?).map_err(column_error)?;
                self.index(uuid, row.key(), touched);
                self.recount(false, row.counts());
                if self.rows.insert(uuid, row).is_some() {
                    return Err(ReplicaError::Present(uuid));
                }
            }
            RowUpdate::Modify(json) => {
                let row = self.rows.get_mut(&uuid).ok_or(ReplicaError::Absent(uuid))?;
                let before = (row.key(), row.counts());
                row.modify(columns(json)?).map_err(column_error)?;
                let after = (row.key(), row.counts());
                self.reindex(uuid, before.0, after.0, touched);
                self.recount(before.1, after.1);
            }
            RowUpdate::Delete => {
                let row = self.rows.remove(&uuid).ok_or(ReplicaError::Absent(uuid))?;
                self.unindex(uuid, row.key(), touched);
                self.recount(row.counts(), false);
            }
        }
        Ok(())
    }

    fn recount(&mut self, before: bool, after: bool) {
        match (before, after) {
            (false, true) => self.counted += 1,
            (true, false) => self.counted = self.counted.saturating_sub(1),
            _ => {}
        }
    }

    fn reindex(
        &mut self,
        uuid: Uuid,
        before: Option<R::Key>,
        after: Option<R::Key>,
        touched: &mut HashSet<R::Key>,
    ) {
        if before == after {
            touched.extend(after);
        } else {
            self.unindex(uuid, before, touched);
            self.index(uuid, after, touched);
        }
    }

    fn index(&mut self, uuid: Uuid, key: Option<R::Key>, touched: &mut HashSet<R::Key>) {
        if let Some(key) = key {
            self.by_key.insert(key.clone(), uuid);
            touched.insert(key);
        }
    }

    fn unindex(&mut self, uuid: Uuid, key: Option<R::Key>, touched: &mut HashSet<R::Key>) {
        if let Some(key) = key {
            self.by_key.remove(&key, uuid);
            touched.insert(key);
        }
    }
}

/// Takes over a difference of a set: elements that are there go, the others come.
pub fn toggle<T: Ord>(set: &mut BTreeSet<T>, element: T) {
    if !set.remove(&element) {
        set.insert(element);
    }
}

/// Takes over a difference of a map, kept as pairs in the order of their keys: a pair that is there goes, a key that is there
/// takes the new value, the others come.
pub fn toggle_pair<K: Ord, V: Eq>(map: &mut Vec<(K, V)>, key: K, value: V) {
    match map.binary_search_by(|(k, _)| k.cmp(&key)) {
        Ok(index) => match map.get_mut(index) {
            Some((_, old)) if *old != value => *old = value,
            _ => drop(map.remove(index)),
        },
        Err(index) => map.insert(index, (key, value)),
    }
}

#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;
