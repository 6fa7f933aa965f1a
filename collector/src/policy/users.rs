//! The EgressFirewalls that have a name in their rules.

use std::sync::Arc;

use runtime::store::ObjectKey;

use super::{Terms, firewall::Firewall, terms::ShortestTerms};
use crate::clients::Namespace;

/// The EgressFirewalls that have a name, in order.
#[derive(Debug, Default)]
pub(super) struct Users(Vec<User>);

/// An EgressFirewall that has the name. What is looked at of all users of a name stands here, and not behind a pointer.
#[derive(Debug)]
pub(super) struct User {
    pub(super) firewall: Arc<Firewall>,
    pub(super) namespace: Namespace,
    pub(super) terms: Terms,
    /// The EgressFirewall went, and that is not believed yet.
    pub(super) is_away: bool,
}

impl Users {
    /// The EgressFirewall has the name on these terms. Returns whether that is new.
    pub(super) fn insert(&mut self, user: User) -> bool {
        match self.find(&user.firewall.key) {
            Ok(at) => self.0.get_mut(at).is_some_and(|known| {
                let is_new = (known.terms, known.is_away) != (user.terms, user.is_away);
                *known = user;
                is_new
            }),
            Err(at) => {
                self.0.insert(at, user);
                true
            }
        }
    }

    /// The EgressFirewall does not have the name any more.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Ok(at) = self.find(key) {
            self.0.remove(at);
        }
    }

    fn find(&self, key: &ObjectKey) -> Result<usize, usize> {
        self.0.binary_search_by(|user| user.firewall.key.cmp(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that are there.
    pub(super) fn present(&self) -> impl Iterator<Item = &User> {
        self.0.iter().filter(|user| !user.is_away)
    }

    /// Those that went.
    pub(super) fn away(&self) -> impl Iterator<Item = &User> {
        self.0.iter().filter(|user| user.is_away)
    }

    /// Their namespaces, in order.
    pub(super) fn namespaces(&self) -> Box<[Namespace]> {
        in_order(self.present().map(|user| user.namespace))
    }

    /// The shortest terms, and the namespaces that ask for no more; nothing if all ask for the same, or each for more.
    pub(super) fn shortest(&self) -> Option<Arc<ShortestTerms>> {
        let terms = self.present().map(|user| user.terms);
        let terms = terms.reduce(Terms::shortest)?;
        let asks_for_more = |user: &&User| !user.terms.keep_as_long(&terms);
        let asking = self.present().filter(asks_for_more);
        let asking = in_order(asking.map(|user| user.namespace));
        if asking.is_empty() {
            return None;
        }
        let others = self.present().map(|user| user.namespace);
        let namespaces = in_order(others.filter(|it| asking.binary_search(it).is_err()));
        (!namespaces.is_empty()).then(|| Arc::new(ShortestTerms { terms, namespaces }))
    }
}

fn in_order(namespaces: impl Iterator<Item = Namespace>) -> Box<[Namespace]> {
    let mut namespaces: Vec<Namespace> = namespaces.collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    namespaces.into()
}

/// The largest terms of all these.
pub(super) fn joined<'a>(users: impl Iterator<Item = &'a User>) -> Option<Terms> {
    users.map(|user| user.terms).reduce(Terms::join)
}
