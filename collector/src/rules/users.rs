//! The objects with rules that use a name.

use std::sync::Arc;

use runtime::store::ObjectKey;

use super::{RetentionPolicy, rule_object::RuleObject};
use names::{Namespace, reserve_one};

/// Sorted.
#[derive(Debug, Default)]
pub(super) struct Users(Vec<User>);

/// An object that uses the name. Fields that are read for all users of a name are here, and
/// not behind a pointer.
#[derive(Debug)]
pub(super) struct User {
    pub(super) rule_object: Arc<RuleObject>,
    pub(super) namespace: Namespace,
    /// Shared by the names of the object.
    pub(super) retention: Arc<RetentionPolicy>,
}

impl Users {
    /// Adds a user or changes its retention. Returns whether that is new.
    pub(super) fn insert(&mut self, user: User) -> bool {
        match self.find(&user.rule_object.key) {
            Ok(at) => self.0.get_mut(at).is_some_and(|known| {
                let is_new = known.retention != user.retention;
                *known = user;
                is_new
            }),
            Err(at) => {
                // Most names have one user, and there are many names.
                reserve_one(&mut self.0);
                self.0.insert(at, user);
                true
            }
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Ok(at) = self.find(key) {
            self.0.remove(at);
        }
    }

    fn find(&self, key: &ObjectKey) -> Result<usize, usize> {
        self.0
            .binary_search_by(|user| user.rule_object.key.cmp(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &User> {
        self.0.iter()
    }

    /// Their namespaces, sorted.
    pub(super) fn namespaces(&self) -> Arc<[Namespace]> {
        let mut namespaces: Vec<_> = self.iter().map(|user| user.namespace).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces.into()
    }
}

/// The longest retention of all these.
pub(super) fn joined<'a>(users: impl Iterator<Item = &'a User>) -> Option<RetentionPolicy> {
    users
        .map(|user| *user.retention)
        .reduce(RetentionPolicy::join)
}
