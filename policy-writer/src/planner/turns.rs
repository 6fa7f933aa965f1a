//! Keys that wait, in turns of namespaces.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound::{Excluded, Unbounded},
};

use runtime::store::ObjectKey;

/// Each key waits once. Namespaces take turns, and in a namespace the key that has waited longest is first.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The names by namespace and order of arrival.
    waiting: BTreeMap<String, BTreeMap<u64, String>>,
    arrivals: HashMap<ObjectKey, u64>,
    next_arrival: u64,
    /// The namespace that had the last turn.
    last: Option<String>,
}

impl Turns {
    /// Adds a key, unless it waits already.
    pub(super) fn insert(&mut self, key: ObjectKey) {
        if self.arrivals.contains_key(&key) {
            return;
        }
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        let names = self.waiting.entry(key.namespace.clone()).or_default();
        names.insert(arrival, key.name.clone());
        self.arrivals.insert(key, arrival);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let Some(arrival) = self.arrivals.remove(key) else {
            return;
        };
        if let Some(names) = self.waiting.get_mut(&key.namespace) {
            names.remove(&arrival);
            if names.is_empty() {
                self.waiting.remove(&key.namespace);
            }
        }
    }

    /// Takes the first key of the next namespace that may have a turn.
    pub(super) fn pop(&mut self, may: impl Fn(&str) -> bool) -> Option<ObjectKey> {
        let behind = self.last.as_deref().map(|last| {
            let behind = (Excluded(last), Unbounded);
            self.waiting.range::<str, _>(behind)
        });
        let mut all = behind.into_iter().flatten().chain(&self.waiting);
        let (namespace, names) = all.find(|(namespace, _)| may(namespace))?;
        let key = ObjectKey {
            namespace: namespace.clone(),
            name: names.values().next()?.clone(),
        };
        self.last = Some(key.namespace.clone());
        self.remove(&key);
        Some(key)
    }

    /// The namespaces with keys.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.waiting.keys().map(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.arrivals.keys()
    }
}

#[cfg(test)]
mod tests {
    use std::iter::from_fn;

    use super::*;

    fn key(text: &str) -> ObjectKey {
        text.parse().unwrap()
    }

    #[test]
    fn namespaces_take_turns_and_each_begins_with_the_oldest_key() {
        let mut turns = Turns::default();
        for text in ["a/3", "a/1", "a/2", "a/1", "c/1", "b/1", "b/2"] {
            turns.insert(key(text));
        }
        turns.remove(&key("b/2"));
        let order = from_fn(|| turns.pop(|_| true)).map(|it| it.to_string());
        let order: Vec<_> = order.collect();
        assert_eq!(order, ["a/3", "b/1", "c/1", "a/1", "a/2"]);
        assert_eq!(turns.namespaces().count(), 0);
    }

    #[test]
    fn a_namespace_without_a_turn_keeps_its_keys() {
        let mut turns = Turns::default();
        turns.insert(key("a/1"));
        turns.insert(key("b/1"));
        assert_eq!(turns.pop(|namespace| namespace != "a"), Some(key("b/1")));
        assert_eq!(turns.pop(|namespace| namespace != "a"), None);
        assert_eq!(turns.pop(|_| true), Some(key("a/1")));
    }
}
