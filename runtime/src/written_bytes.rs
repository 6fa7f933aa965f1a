//! The bytes that a program wrote lately, by key, such as the namespace that they count for.

use std::{
    borrow::Borrow,
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use crate::clock::Timestamp;

/// For how long written bytes count.
pub const COUNTED_FOR: Duration = Duration::from_secs(10);

/// The bytes of the writes of the last 10 s, in sum for each key.
#[derive(Debug)]
pub struct WrittenBytes<K> {
    writes: VecDeque<(Timestamp, K, usize)>,
    sums: HashMap<K, usize>,
}

impl<K> Default for WrittenBytes<K> {
    fn default() -> Self {
        Self {
            writes: VecDeque::new(),
            sums: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> WrittenBytes<K> {
    /// The bytes of a key that were not [forgotten](Self::forget).
    pub fn of<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.sums.get(key).copied().unwrap_or(0)
    }

    /// Adds a write.
    pub fn add(&mut self, key: K, bytes: usize, now: Timestamp) {
        *self.sums.entry(key.clone()).or_default() += bytes;
        self.writes.push_back((now, key, bytes));
    }

    /// Forgets the writes that are older than [`COUNTED_FOR`].
    pub fn forget(&mut self, now: Timestamp) {
        // A clock that was set back must not keep them.
        let is_old = |at: Timestamp| at + COUNTED_FOR <= now || at > now;
        while let Some((_, key, bytes)) = self.writes.pop_front_if(|(at, ..)| is_old(*at)) {
            if let Some(sum) = self.sums.get_mut(&key) {
                *sum = sum.saturating_sub(bytes);
                if *sum == 0 {
                    self.sums.remove(&key);
                }
            }
        }
    }
}
