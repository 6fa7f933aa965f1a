//! Which sources use a name, and how long each keeps its addresses.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use proto::api::DnsName;

use crate::{
    clients::Namespace,
    rules::{RetentionPolicy, Source, SourceSet, Wanted},
    state::Limits,
};

/// Which sources use a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameUse {
    pub(crate) by: SourceSet,
    /// Those whose last rule has ended: the collector's own objects of these are deleted.
    pub(crate) released: SourceSet,
    /// A policy for which each namespace counts as having a rule for the name.
    pub(crate) policy: Option<Namespace>,
    /// The limits of sources that keep addresses for less time than others.
    shorter: Vec<(Source, Arc<Limits>)>,
}

impl NameUse {
    /// Adds a source with its limits. `longest` are those of all sources together.
    pub(super) fn add(&mut self, source: Source, limits: Arc<Limits>, longest: &Arc<Limits>) {
        self.by.insert(source);
        if limits != *longest {
            self.shorter.push((source, limits));
        }
    }

    /// Replaces the sources. Returns whether a source is new, or has other limits.
    pub(super) fn replace(&mut self, next: Self) -> bool {
        let mut released = self.released;
        released.extend(self.by);
        let released = released.without(next.by);
        let is_new = self.by != next.by || self.shorter != next.shorter;
        *self = Self { released, ..next };
        is_new
    }

    /// The last rule of the source has ended.
    pub(super) fn release(&mut self, source: Source) {
        self.by.remove(source);
        self.released.insert(source);
        self.shorter.retain(|(of, _)| *of != source);
    }

    /// The last rule of each source has ended.
    pub(super) fn release_all(&mut self) {
        self.released.extend(self.by);
        self.by = SourceSet::default();
        self.policy = None;
        self.shorter.clear();
    }

    /// The limits of the objects of this source, if other sources keep addresses for longer.
    pub(super) fn shorter(&self, source: Source) -> Option<&Arc<Limits>> {
        let mut shorter = self.shorter.iter();
        shorter.find(|(of, _)| *of == source).map(|(_, it)| it)
    }
}

/// The retention of each namespace with a rule of any source.
pub(super) fn of_namespaces(
    name: &DnsName,
    wanting: &[(Source, &Wanted, RetentionPolicy)],
) -> BTreeMap<Namespace, RetentionPolicy> {
    let mut all: BTreeMap<Namespace, RetentionPolicy> = BTreeMap::new();
    for (_, wanted, longest) in wanting {
        let own = wanted.own_retention.get(name);
        let of = |namespace: Namespace| {
            let mut own = own.iter().flat_map(|it| it.iter());
            let own = own.find(|it| it.namespaces.binary_search(&namespace).is_ok());
            own.map_or(longest.times(), |it| it.policy)
        };
        for namespace in wanted.namespaces.get(name).iter().flat_map(|it| it.iter()) {
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
) -> (Box<[Namespace]>, Vec<(RetentionPolicy, Box<[Namespace]>)>) {
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
