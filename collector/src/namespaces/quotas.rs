use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use serde::Serialize;

use crate::clients::Namespace;

/// The quota of a namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct NamespaceQuota {
    /// Addresses that are charged to it.
    pub addresses: usize,
    /// Names in its rules.
    pub names: usize,
}

/// The quotas of namespaces with annotations; the flags apply to all others. Clones share them.
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
    /// The Namespaces were not read yet.
    pub fn unread() -> Self {
        let quotas = Self::default();
        quotas.0.write().is_unread = true;
        quotas
    }

    /// Whether the Namespaces were read, or cannot be. Before that, a limit of the flags may be too
    /// low for a namespace.
    pub fn are_known(&self) -> bool {
        !self.0.read().is_unread
    }

    /// The quota of a namespace by annotations.
    pub fn get(&self, namespace: Namespace) -> Option<NamespaceQuota> {
        self.0.read().annotated.get(&namespace).copied()
    }

    /// Replaces the quotas of all namespaces.
    pub fn replace(&self, annotated: HashMap<Namespace, NamespaceQuota>) {
        *self.0.write() = Table {
            annotated,
            is_unread: false,
        };
    }

    /// Sets or removes the quota of a namespace.
    pub fn set(&self, namespace: Namespace, quota: Option<NamespaceQuota>) {
        let mut table = self.0.write();
        match quota {
            Some(quota) => table.annotated.insert(namespace, quota),
            None => table.annotated.remove(&namespace),
        };
    }

    /// The Namespaces cannot be read: their last known quotas apply.
    pub fn cannot_be_read(&self) {
        self.0.write().is_unread = false;
    }
}
