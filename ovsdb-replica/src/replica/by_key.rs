//! Rows by their key.

use std::hash::Hash;

use foldhash::HashMap;
use uuid::Uuid;

/// The rows of each key, in no order. Nearly all keys have one or two rows.
#[derive(Clone, Debug)]
pub(super) struct ByKey<K>(HashMap<K, Vec<Uuid>>);

impl<K> Default for ByKey<K> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Eq + Hash> ByKey<K> {
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn rows<'a>(&'a self, key: &K) -> impl Iterator<Item = Uuid> + use<'a, K> {
        self.0.get(key).into_iter().flatten().copied()
    }

    /// Adds a row to a key; the key must not have it yet.
    pub(super) fn insert(&mut self, key: K, uuid: Uuid) {
        let rows = self.0.entry(key).or_default();
        if rows.is_empty() {
            // By default a vector grows to four elements at once.
            rows.reserve_exact(1);
        }
        rows.push(uuid);
    }

    pub(super) fn remove(&mut self, key: &K, uuid: Uuid) {
        let Some(rows) = self.0.get_mut(key) else {
            return;
        };
        if let Some(at) = rows.iter().position(|row| *row == uuid) {
            rows.swap_remove(at);
        }
        if rows.is_empty() {
            self.0.remove(key);
        }
    }
}
