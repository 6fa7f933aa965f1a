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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn many_rows_of_one_key_come_and_go_like_few() {
        let mut by_key = ByKey::default();
        let mut expected = BTreeSet::new();
        for n in 0..1000_u128 {
            // In no order.
            let uuid = Uuid::from_u128(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1009);
            by_key.insert("x", uuid);
            expected.insert(uuid);
        }
        by_key.insert("y", Uuid::nil());
        let rows = |by_key: &ByKey<_>| by_key.rows(&"x").collect::<BTreeSet<_>>();
        assert_eq!(rows(&by_key), expected);
        while let Some(uuid) = expected.pop_last() {
            by_key.remove(&"x", uuid);
            by_key.remove(&"x", uuid);
            assert_eq!(by_key.rows(&"x").count(), expected.len());
        }
        assert!(!by_key.contains(&"x") && by_key.contains(&"y"));
        assert_eq!(by_key.keys().collect::<Vec<_>>(), [&"y"]);
    }
}
