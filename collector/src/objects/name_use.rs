//! How rules use a name.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use crate::{
    clients::Namespace,
    rules::{RetentionPolicy, SourceSet, WantedName},
    state::{Limits, OwnLimits},
};

/// How the rules of all sources use a name. Many names share one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct NameUse {
    /// The sources with a rule for it.
    pub(crate) by: SourceSet,
    /// An Allow rule uses it.
    pub(crate) allowed: bool,
    /// A Deny rule uses it.
    pub(crate) denied: bool,
    /// The limits for this name: the flags, and the annotations of its EgressFirewalls.
    pub(crate) limits: Arc<Limits>,
    /// The namespaces with a rule for it, sorted.
    pub(crate) with_rule: Arc<[Namespace]>,
    /// The limits of those namespaces that asked for shorter retention than others.
    pub(crate) own_limits: Box<[OwnLimits]>,
    /// A policy for which each namespace counts as having a rule for the name.
    pub(crate) policy: Option<Namespace>,
}

impl NameUse {
    /// No rule uses the name.
    pub(super) fn none(limits: Arc<Limits>) -> Self {
        Self {
            by: SourceSet::default(),
            allowed: false,
            denied: false,
            limits,
            with_rule: Arc::default(),
            own_limits: Box::default(),
            policy: None,
        }
    }

    /// The same without rules: the addresses stay for as long as before.
    pub(super) fn without_rules(&self) -> Self {
        Self {
            by: SourceSet::default(),
            allowed: false,
            denied: false,
            ..self.clone()
        }
    }
}

/// The retention of each namespace with a rule of any source.
pub(super) fn of_namespaces<'a>(
    sources: impl Iterator<Item = &'a WantedName>,
) -> BTreeMap<Namespace, RetentionPolicy> {
    let mut all: BTreeMap<Namespace, RetentionPolicy> = BTreeMap::new();
    for of_source in sources {
        let of = |namespace: Namespace| {
            let mut own = of_source.own_retention.iter();
            let own = own.find(|it| it.namespaces.binary_search(&namespace).is_ok());
            own.map_or(of_source.retention.times(), |it| it.policy)
        };
        for namespace in of_source.namespaces.iter() {
            let terms = of(*namespace);
            let known = all.entry(*namespace).or_insert(terms);
            *known = known.join(terms);
        }
    }
    all
}

/// The namespaces, sorted, and those that keep the addresses for less than the `longest` time.
/// There may be too many values. Then the `defaults` come first, and then those of the most
/// namespaces, as in the rules of one source.
#[expect(clippy::type_complexity, reason = "the two lists of an entry")]
pub(super) fn charged(
    namespaces: &BTreeMap<Namespace, RetentionPolicy>,
    longest: RetentionPolicy,
    defaults: &[RetentionPolicy],
) -> (Arc<[Namespace]>, Vec<(RetentionPolicy, Box<[Namespace]>)>) {
    let mut own: BTreeMap<RetentionPolicy, Vec<Namespace>> = BTreeMap::new();
    for (namespace, terms) in namespaces {
        if *terms != longest.times() {
            own.entry(*terms).or_default().push(*namespace);
        }
    }
    let mut own: Vec<_> = own.into_iter().collect();
    own.sort_by_key(|(terms, of)| (!defaults.contains(terms), Reverse(of.len())));
    let own = own.into_iter().take(crate::state::MAX_OWN_RETENTION);
    let own = own.map(|(terms, of)| (terms, of.into_boxed_slice()));
    (namespaces.keys().copied().collect(), own.collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{clients::Clients, state::MAX_OWN_RETENTION};

    fn retained(minutes: u64) -> RetentionPolicy {
        RetentionPolicy {
            retain: Duration::from_secs(60 * minutes),
            ..RetentionPolicy::default()
        }
    }

    #[test]
    fn of_many_retentions_the_default_ones_and_those_of_most_namespaces_count() {
        let clients = Clients::default();
        let mut namespaces = BTreeMap::new();
        for odd in 0..20 {
            namespaces.insert(clients.number(&format!("odd{odd}")), retained(odd));
        }
        let default = clients.number("default");
        namespaces.insert(default, retained(60));
        let many = ["a", "b"].map(|it| clients.number(it));
        for namespace in many {
            namespaces.insert(namespace, retained(50));
        }
        let (all, own) = charged(&namespaces, retained(1000), &[retained(60)]);
        assert_eq!(all.len(), namespaces.len());
        assert_eq!(own.len(), MAX_OWN_RETENTION);
        assert_eq!(own[0], (retained(60), [default].into()));
        assert_eq!(own[1], (retained(50), many.into()));
    }
}
