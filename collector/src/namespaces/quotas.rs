//! The quotas of namespaces.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use serde::Serialize;

use crate::clients::Namespace;

/// How much a namespace may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct NamespaceQuota {
    /// Addresses that are charged to it.
    pub addresses: usize,
    /// Names in its rules.
    pub names: usize,
}

/// The quotas of namespaces with annotations; of all others the flags hold. Clones share them.
///
/// By default no namespace has any, as with a folder.
#[derive(Clone, Debug, Default)]
pub struct NamespaceQuotas(Arc<RwLock<Table>>);

#[derive(Debug, Default)]
struct Table {
    annotated: HashMap<Namespace, NamespaceQuota>,
    is_unread: bool,
}

impl NamespaceQuotas {
    /// The Namespaces are still to be read.
    pub fn unread() -> Self {
        let quotas = Self::default();
        quotas.0.write().is_unread = true;
        quotas
    }

    /// Whether the Namespaces were read, or cannot be. Before that a limit of the flags may be too low for a namespace.
    pub fn are_known(&self) -> bool {
        !self.0.read().is_unread
    }

    /// The quota that annotations give a namespace.
    pub fn get(&self, namespace: Namespace) -> Option<NamespaceQuota> {
        self.0.read().annotated.get(&namespace).copied()
    }

    /// These are all namespaces with a quota of their own.
    pub fn replace(&self, annotated: HashMap<Namespace, NamespaceQuota>) {
        *self.0.write() = Table {
            annotated,
            is_unread: false,
        };
    }

    /// A namespace has a quota of its own, or none.
    pub fn set(&self, namespace: Namespace, quota: Option<NamespaceQuota>) {
        let mut table = self.0.write();
        match quota {
            Some(quota) => table.annotated.insert(namespace, quota),
            None => table.annotated.remove(&namespace),
        };
    }

    /// The Namespaces cannot be read: what was known of them holds.
    pub fn cannot_be_read(&self) {
        self.0.write().is_unread = false;
    }
}
