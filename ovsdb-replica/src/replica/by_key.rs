//! Rows by their key.

use std::hash::Hash;

use foldhash::{HashMap, HashSet};
use uuid::Uuid;

/// As long as no more rows have the same key, no room is kept for one more.
const FEW: usize = 4;

/// From this number of rows with the same key on, their order costs more than it saves.
const MANY: usize = 64;

/// The rows of each key.
#[derive(Clone, Debug)]
pub(super) struct ByKey<K>(HashMap<K, Rows>);

/// The rows of one key. Nearly all keys have one or two; some may have nearly all rows.
#[derive(Clone, Debug)]
enum Rows {
    /// In order.
    Few(Vec<Uuid>),
    /// Boxed, as it is larger than the others.
    Many(Box<HashSet<Uuid>>),
}

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

    /// The rows with this key, in no order.
    pub(super) fn rows<'a>(&'a self, key: &K) -> impl Iterator<Item = Uuid> + use<'a, K> {
        let (few, many) = match self.0.get(key) {
            None => (None, None),
            Some(Rows::Few(rows)) => (Some(rows), None),
            Some(Rows::Many(rows)) => (None, Some(rows)),
        };
        let many = many.into_iter().flat_map(|rows| rows.iter());
        few.into_iter().flatten().chain(many).copied()
    }

    pub(super) fn insert(&mut self, key: K, uuid: Uuid) {
        let rows = self.0.entry(key).or_insert(Rows::Few(Vec::new()));
        match rows {
            Rows::Few(few) => {
                let Err(at) = few.binary_search(&uuid) else {
                    return;
                };
                if few.len() < FEW {
                    few.reserve_exact(1);
                }
                few.insert(at, uuid);
                if few.len() >= MANY {
                    *rows = Rows::Many(Box::new(few.drain(..).collect()));
                }
            }
            Rows::Many(many) => {
                many.insert(uuid);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K, uuid: Uuid) {
        let is_empty = match self.0.get_mut(key) {
            None => return,
            Some(Rows::Few(few)) => {
                if let Ok(at) = few.binary_search(&uuid) {
                    few.remove(at);
                }
                few.is_empty()
            }
            Some(Rows::Many(many)) => {
                many.remove(&uuid);
                many.is_empty()
            }
        };
        if is_empty {
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
        // Each is told of twice, as a key that stays the same is.
        for n in (0..1000_u128).chain(0..1000) {
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
