//! A queue that serves namespaces in turns and that no single namespace can fill.

use std::collections::{HashMap, VecDeque};

/// The waiting items, by namespace.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    items: HashMap<String, VecDeque<T>>,
    /// The namespaces with items. The first one has the next turn.
    turns: VecDeque<String>,
    /// The number of free places.
    free: usize,
}

impl<T> FairQueue<T> {
    pub(super) fn new(room: usize) -> Self {
        Self {
            items: HashMap::new(),
            turns: VecDeque::new(),
            free: room,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Appends an item. A namespace takes no more places than it leaves free, so there is a place for a namespace with
    /// few items.
    ///
    /// # Errors
    /// There is no place for the item, which is returned.
    pub(super) fn push(&mut self, namespace: String, item: T) -> Result<(), T> {
        let taken = self.items.get(&namespace).map_or(0, VecDeque::len);
        if taken >= self.free {
            return Err(item);
        }
        self.free -= 1;
        if taken == 0 {
            self.turns.push_back(namespace.clone());
        }
        self.items.entry(namespace).or_default().push_back(item);
        Ok(())
    }

    /// The oldest item of the namespace that has the turn.
    pub(super) fn pop(&mut self) -> Option<T> {
        let namespace = self.turns.pop_front()?;
        let items = self.items.get_mut(&namespace)?;
        let item = items.pop_front()?;
        self.free += 1;
        if items.is_empty() {
            self.items.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use std::iter::from_fn;

    use super::*;

    #[test]
    fn each_namespace_has_a_turn_in_each_round() {
        let mut queue = FairQueue::new(64);
        for item in ["a1", "a2", "a3", "b1", "c1", "c2"] {
            queue.push(item[..1].to_owned(), item).unwrap();
        }
        let first: Vec<_> = from_fn(|| queue.pop()).take(4).collect();
        assert_eq!(first, ["a1", "b1", "c1", "a2"]);
        // A new namespace waits for one turn of each other.
        queue.push("b".to_owned(), "b2").unwrap();
        let rest: Vec<_> = from_fn(|| queue.pop()).collect();
        assert_eq!(rest, ["c2", "a3", "b2"]);
        assert!(queue.is_empty() && queue.items.is_empty());
        assert_eq!(queue.free, 64);
    }

    #[test]
    fn a_namespace_takes_no_more_places_than_it_leaves_free() {
        let mut queue = FairQueue::new(64);
        let mut taken = |namespace: &str| {
            let pushed = (0..100).map(|i| queue.push(namespace.to_owned(), i));
            pushed.filter(Result::is_ok).count()
        };
        assert_eq!(["a", "b", "c"].map(&mut taken), [32, 16, 8]);
        assert_eq!(taken("a"), 0);
        assert_eq!(["d", "e", "f", "g", "h"].map(taken), [4, 2, 1, 1, 0]);
        // Each turn of the first namespace frees a place for a namespace without items.
        assert_eq!(queue.pop(), Some(0));
        assert_eq!(queue.push("a".to_owned(), 0), Err(0));
        assert_eq!(queue.push("h".to_owned(), 0), Ok(()));
    }
}
