//! The limit of names in all objects of a namespace, for one source. An EgressFirewall is the only one of
//! its namespace, but a namespace may have any number of DNSResolvers.
//!
//! Objects count in the order of their names, until the limit is reached. The first one beyond it,
//! and all after that, are left out as a whole: nothing of them stays but their keys. So the
//! result does not depend on the order of events. When there is room again, the first of them is
//! read again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use runtime::store::ObjectKey;

/// The most names of a namespace that are read: twice as many as count, so that a change of the rules needs no room twice.
const MAX_NAMES: usize = 20_000;

/// The names of each namespace, and the objects that are left out.
#[derive(Debug)]
pub(super) struct NamesCounted {
    /// The most names of a namespace. A name counts once for each object that has it.
    most: usize,
    namespaces: HashMap<String, InNamespace>,
    /// The number of objects that are left out.
    left_out: usize,
    /// Objects to read again, with the number of the request. A change of the object ends the
    /// request: its answer could be older than the change.
    unread: BTreeMap<ObjectKey, u64>,
    requests: u64,
}

#[derive(Debug, Default)]
struct InNamespace {
    names: usize,
    /// The names of each object that counts.
    objects: BTreeMap<String, usize>,
    left_out: BTreeSet<String>,
}

impl Default for NamesCounted {
    fn default() -> Self {
        Self {
            most: MAX_NAMES,
            namespaces: HashMap::new(),
            left_out: 0,
            unread: BTreeMap::new(),
            requests: 0,
        }
    }
}

impl NamesCounted {
    #[cfg(test)]
    pub(super) fn set_limit(&mut self, most: usize) {
        self.most = most;
    }

    /// The number of objects that are left out.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether an object before this one is left out, so that this one is left out too.
    pub(super) fn is_beyond(&self, key: &ObjectKey) -> bool {
        let known = self.namespaces.get(&key.namespace);
        let first = known.and_then(|known| known.left_out.first());
        first.is_some_and(|first| *first < key.name)
    }

    /// The names of a namespace.
    pub(super) fn of(&self, namespace: &str) -> usize {
        self.namespaces.get(namespace).map_or(0, |it| it.names)
    }

    /// Whether there is room for the object with so many names.
    pub(super) fn has_room(&self, key: &ObjectKey, names: usize) -> bool {
        let known = self.namespaces.get(&key.namespace);
        let own = known.and_then(|known| known.objects.get(&key.name));
        let others = self.of(&key.namespace) - own.copied().unwrap_or(0);
        others + names <= self.most
    }

    /// The last object of the namespace that counts, if it comes after this one.
    pub(super) fn last_after(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let known = self.namespaces.get(&key.namespace)?;
        let (last, _) = known.objects.last_key_value()?;
        (*last > key.name).then(|| ObjectKey {
            namespace: key.namespace.clone(),
            name: last.clone(),
        })
    }

    /// The object counts with so many names. 0: it does not count any more.
    pub(super) fn count(&mut self, key: &ObjectKey, names: usize) {
        self.unread.remove(key);
        let known = self.namespaces.entry(key.namespace.clone()).or_default();
        let before = match names {
            0 => known.objects.remove(&key.name),
            names => known.objects.insert(key.name.clone(), names),
        };
        let before = before.unwrap_or(0);
        known.names = (known.names + names).saturating_sub(before);
        self.left_out -= usize::from(known.left_out.remove(&key.name));
        self.tidy(&key.namespace);
    }

    /// The object is left out.
    pub(super) fn leave_out(&mut self, key: &ObjectKey) {
        self.count(key, 0);
        let known = self.namespaces.entry(key.namespace.clone()).or_default();
        self.left_out += usize::from(known.left_out.insert(key.name.clone()));
    }

    /// There may be room: the first object that is left out is read again.
    pub(super) fn read_again(&mut self, namespace: &str) {
        let known = self.namespaces.get(namespace);
        if let Some(first) = known.and_then(|known| known.left_out.first()) {
            let key = ObjectKey {
                namespace: namespace.to_owned(),
                name: first.clone(),
            };
            self.requests += 1;
            self.unread.insert(key, self.requests);
        }
    }

    /// The next object to read again, and the number of the request.
    pub(super) fn next_unread(&self) -> Option<(ObjectKey, u64)> {
        let (key, request) = self.unread.first_key_value()?;
        Some((key.clone(), *request))
    }

    /// Ends the request. Returns whether its answer is as new as all events.
    pub(super) fn end_request(&mut self, key: &ObjectKey, request: u64) -> bool {
        let is_current = self.unread.get(key) == Some(&request);
        if is_current {
            self.unread.remove(key);
        }
        is_current
    }

    fn tidy(&mut self, namespace: &str) {
        let known = self.namespaces.get(namespace);
        if known.is_some_and(|known| known.objects.is_empty() && known.left_out.is_empty()) {
            self.namespaces.remove(namespace);
        }
    }
}
