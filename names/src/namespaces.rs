//! Namespaces with rules, as numbers.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc};

use parking_lot::RwLock;

/// A namespace, by a number that holds for the life of the process.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Namespace(NonZeroU32);

/// The numbers of namespaces. Clones share them; the default has none.
#[derive(Clone, Debug, Default)]
pub struct Namespaces(Arc<RwLock<Table>>);

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<Arc<str>, Namespace>,
    /// The names, by their numbers.
    names: Vec<Arc<str>>,
}

impl Namespaces {
    pub fn number(&self, namespace: &str) -> Namespace {
        let mut table = self.0.write();
        if let Some(number) = table.numbers.get(namespace) {
            return *number;
        }
        let next = u32::try_from(table.numbers.len()).unwrap_or(u32::MAX - 1);
        let number = Namespace(NonZeroU32::MIN.saturating_add(next));
        let name: Arc<str> = namespace.into();
        table.names.push(Arc::clone(&name));
        table.numbers.insert(name, number);
        number
    }

    /// The number of a namespace, if it has one.
    pub fn known(&self, namespace: &str) -> Option<Namespace> {
        self.0.read().numbers.get(namespace).copied()
    }

    pub fn name(&self, namespace: Namespace) -> Arc<str> {
        let place = usize::try_from(namespace.0.get() - 1).unwrap_or(usize::MAX);
        // Every number has a name.
        self.0.read().names.get(place).cloned().unwrap_or_default()
    }
}
