//! The objects with rules that use a name.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use runtime::store::ObjectKey;

use super::{RetentionPolicy, retention::OwnRetention, rule_object::RuleObject};
use crate::{
    clients::Namespace,
    state::{MAX_OWN_RETENTION, make_room},
};

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
    pub(super) terms: Arc<RetentionPolicy>,
}

impl Users {
    /// Adds a user or changes its retention. Returns whether that is new.
    pub(super) fn insert(&mut self, user: User) -> bool {
        match self.find(&user.rule_object.key) {
            Ok(at) => self.0.get_mut(at).is_some_and(|known| {
                let is_new = known.terms != user.terms;
                *known = user;
                is_new
            }),
            Err(at) => {
                // Most names have one user, and there are many names.
                make_room(&mut self.0);
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

    /// The retention of namespaces that keep the name for less time than others. If there are too
    /// many values, the default ones come first, and then those of the most namespaces. So a few
    /// namespaces with unusual values do not cause charges for others.
    pub(super) fn own_retention(&self, defaults: RetentionPolicy) -> Arc<[OwnRetention]> {
        let longest = joined(self.iter()).unwrap_or_default().times();
        if self.iter().all(|user| user.terms.times() == longest) {
            return Arc::default();
        }
        let mut of_namespaces: BTreeMap<Namespace, RetentionPolicy> = BTreeMap::new();
        for user in self.iter() {
            let terms = of_namespaces.entry(user.namespace).or_default();
            *terms = terms.join(user.terms.times());
        }
        let mut own: BTreeMap<RetentionPolicy, Vec<Namespace>> = BTreeMap::new();
        for (namespace, terms) in of_namespaces {
            if terms != longest {
                own.entry(terms).or_default().push(namespace);
            }
        }
        let mut own: Vec<_> = own.into_iter().collect();
        own.sort_by_key(|(terms, of)| (*terms != defaults.times(), Reverse(of.len())));
        let own = own.into_iter().take(MAX_OWN_RETENTION);
        let own = own.map(|(terms, of)| OwnRetention {
            policy: terms,
            namespaces: of.into(),
        });
        own.collect()
    }
}

/// The longest retention of all these.
pub(super) fn joined<'a>(users: impl Iterator<Item = &'a User>) -> Option<RetentionPolicy> {
    users.map(|user| *user.terms).reduce(RetentionPolicy::join)
}

#[cfg(test)]
mod tests {
    use super::super::{
        RetentionPolicy, Wanted,
        rule_set::Rules,
        tests::{annotate, firewall},
    };
    use crate::{clients::Clients, state::MAX_OWN_RETENTION};
    use std::{collections::BTreeMap, time::Duration};

    /// The grace and retain in seconds by which namespaces with these annotations are charged for a
    /// name, where these are not the longest.
    fn own(of: &[(&str, &[(&str, &str)])]) -> BTreeMap<String, [u64; 2]> {
        let clients = Clients::default();
        let mut terms = RetentionPolicy::default();
        terms.grace = Duration::from_secs(5);
        let mut rules = Rules::new(terms, clients.clone());
        for (namespace, annotations) in of {
            let mut object = firewall(namespace, &["www.example.com"]);
            annotate(&mut object, annotations);
            rules.apply(&object);
        }
        let mut wanted = Wanted::default();
        rules.settle(&mut wanted);
        let names = wanted.names.values();
        let own = names.flat_map(|it| it.own_retention.iter());
        let times = |it: &RetentionPolicy| [it.grace.as_secs(), it.retain.as_secs()];
        own.flat_map(|own| own.namespaces.iter().map(|of| (*of, times(&own.policy))))
            .map(|(of, times)| (clients.name(of).to_string(), times))
            .collect()
    }

    #[test]
    fn a_namespace_pays_on_its_own_terms_whatever_others_ask_for() {
        const WEEK: u64 = 168 * 3600;
        let honest = |times| ("honest".to_owned(), times);
        let greedy = |times| ("greedy".to_owned(), times);
        assert_eq!(own(&[("honest", &[]), ("greedy", &[])]), [].into());
        assert_eq!(
            own(&[("honest", &[]), ("greedy", &[("retain", "168h")])]),
            [honest([5, 0])].into()
        );
        let without_grace: &[_] = &[("retain", "168h"), ("grace", "0s")];
        assert_eq!(
            own(&[("honest", &[]), ("greedy", without_grace)]),
            [honest([5, 0]), greedy([0, WEEK])].into()
        );
        assert_eq!(
            own(&[
                ("honest", &[("grace", "1m")]),
                ("greedy", &[("retain", "168h")])
            ]),
            [honest([60, 0]), greedy([5, WEEK])].into()
        );
    }

    #[test]
    fn many_odd_terms_do_not_make_those_pay_more_who_have_the_default_ones() {
        let odd: Vec<_> = (0..20)
            .map(|i| (format!("n{i}"), format!("{i}m")))
            .collect();
        let odd: Vec<_> = odd
            .iter()
            .map(|(of, it)| (of, [("retain", &**it)]))
            .collect();
        let all = odd.iter().map(|(of, it)| (&***of, &it[..]));
        let all: Vec<_> = all.chain([("honest", &[][..])]).collect();
        let own = own(&all);
        // The namespace without retain has that of the flags too.
        assert_eq!(own["honest"], [5, 0]);
        assert_eq!(own.len(), MAX_OWN_RETENTION + 1);
    }
}
