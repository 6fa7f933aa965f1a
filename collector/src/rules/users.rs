//! The objects with rules that use a name.

use std::sync::Arc;

use proto::api::DnsName;
use runtime::store::ObjectKey;

use super::{RetentionPolicy, rule_object::RuleObject};
use names::{Namespace, reserve_one};

/// Sorted by key.
#[derive(Debug, Default)]
pub(super) struct Users(Vec<Arc<RuleObject>>);

impl Users {
    /// Adds a user, or replaces the one with its key.
    pub(super) fn insert(&mut self, user: Arc<RuleObject>) {
        match self.find(&user.key) {
            Ok(at) => {
                if let Some(known) = self.0.get_mut(at) {
                    *known = user;
                }
            }
            Err(at) => {
                // Most names have one user, and there are many names.
                reserve_one(&mut self.0);
                self.0.insert(at, user);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Ok(at) = self.find(key) {
            self.0.remove(at);
        }
    }

    fn find(&self, key: &ObjectKey) -> Result<usize, usize> {
        self.0.binary_search_by(|user| user.key.cmp(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RuleObject> {
        self.0.iter().map(|user| &**user)
    }

    /// Their namespaces, sorted.
    pub(super) fn namespaces(&self) -> Arc<[Namespace]> {
        let mut namespaces: Vec<_> = self.iter().map(|user| user.namespace).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces.into()
    }

    /// The longest retention of the name in all of them.
    pub(super) fn retention(&self, name: &DnsName) -> Option<RetentionPolicy> {
        self.iter()
            .filter_map(|user| user.retention_of(name))
            .reduce(RetentionPolicy::join)
    }
}
