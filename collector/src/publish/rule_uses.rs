//! The names that rules use, and their retention. Each source of names counts by itself.

use std::{collections::HashMap, sync::Arc};

use names::{Limits, Names, Namespace, RuleUse};
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{name_objects::NameObjects, queue::WorkQueue};
use crate::rules::{
    BySource, RetentionPolicy, RuleChanges, Source, SourceSet, Wanted, interner::Interner, replace,
};

/// Values that many names share.
#[derive(Debug, Default)]
struct SharedValues {
    limits: HashMap<RetentionPolicy, Arc<Limits>>,
    uses: Interner<RuleUse>,
}

#[derive(Debug)]
pub(crate) struct RuleUses(BySource<Wanted>);

impl RuleUses {
    pub(crate) fn new(sources: impl Iterator<Item = Source>) -> Self {
        Self(BySource::of(&sources.collect::<Vec<_>>()))
    }

    /// Whether every name in use is known, as far as the sources can be read.
    pub(crate) fn are_known(&self) -> bool {
        let mut sources = self.0.iter().map(|(_, wanted)| wanted);
        let are_read = sources.all(|it| it.in_sync || it.has_failed);
        are_read && self.0.iter().any(|(_, it)| it.in_sync)
    }

    /// Whether every name that the source uses is known.
    pub(super) fn is_in_sync(&self, source: Source) -> bool {
        self.0.get(source).is_some_and(|wanted| wanted.in_sync)
    }

    /// The names of one source.
    #[cfg(test)]
    pub(crate) fn of_source(&self, source: Source) -> Wanted {
        self.0.get(source).cloned().unwrap_or_default()
    }

    /// Applies changes of the names in rules.
    pub(super) fn apply(
        &mut self,
        changes: RuleChanges,
        names: &mut Names,
        by_name: &mut foldhash::HashMap<DnsName, Box<NameObjects>>,
        dirty: &mut WorkQueue,
        now: Timestamp,
    ) {
        let wanted = self.0.get_mut(changes.source);
        if wanted.in_sync != changes.in_sync {
            names.mark_all();
        }
        wanted.in_sync = changes.in_sync;
        wanted.has_failed = changes.has_failed;
        let mut changed = Vec::new();
        for (name, in_use) in changes.uses.names {
            if wanted.names.get(&name) != in_use.as_ref() {
                match in_use {
                    Some(in_use) => wanted.names.insert(name.clone(), in_use),
                    None => wanted.names.remove(&name),
                };
                changed.push(name);
            }
        }
        for (namespace, of_source) in changes.uses.namespaces {
            let wanted = self.0.get_mut(changes.source);
            replace(&mut wanted.names_of_namespaces, &namespace, of_source);
            names.set_names_of_namespace(namespace, self.names_of(namespace));
        }
        let mut shared = SharedValues::default();
        for name in changed {
            let (sources, rule_use) = self.use_of(&name, names, &mut shared);
            if let Some(of_name) = by_name.get(&name)
                && of_name.sources == sources
            {
                names.apply_rule(&name, rule_use, now);
                continue;
            }
            if sources.is_empty() && !by_name.contains_key(&name) {
                continue;
            }
            let of_name = by_name.entry(name.clone()).or_default();
            of_name.sources = sources;
            of_name.missing_since = of_name.missing_since.max(now);
            names.apply_rule(&name, rule_use, now);
            dirty.insert(name);
        }
    }

    /// The use of one name by all sources; `None` if none uses it.
    fn use_of(
        &self,
        name: &DnsName,
        names: &Names,
        shared: &mut SharedValues,
    ) -> (SourceSet, Option<Arc<RuleUse>>) {
        let mut sources = SourceSet::default();
        let mut namespaces = Arc::default();
        let mut retention: Option<RetentionPolicy> = None;
        for (source, wanted) in self.0.iter() {
            let Some(wanted) = wanted.names.get(name) else {
                continue;
            };
            sources.insert(source);
            namespaces = joined(&namespaces, &wanted.namespaces);
            let of_source = wanted.retention;
            retention = Some(retention.map_or(of_source, |known| known.join(of_source)));
        }
        let rule_use = retention.map(|retention| {
            let limits = shared.limits.entry(retention.times());
            let limits = limits.or_insert_with(|| Arc::new(retention.limits(names.limits())));
            shared.uses.share(RuleUse {
                allowed: retention.allowed,
                denied: retention.denied,
                limits: Arc::clone(limits),
                namespaces,
            })
        });
        (sources, rule_use)
    }

    /// The names of a namespace in the rules of all sources.
    fn names_of(&self, namespace: Namespace) -> Option<Arc<[DnsName]>> {
        let of_sources = self.0.iter();
        let of_sources = of_sources.filter_map(|(_, it)| it.names_of_namespaces.get(&namespace));
        of_sources
            .cloned()
            .reduce(|one, other| joined(&one, &other))
    }
}

/// Both lists, sorted and without duplicates.
fn joined<T: Clone + Ord>(one: &Arc<[T]>, other: &Arc<[T]>) -> Arc<[T]> {
    if one.is_empty() {
        return Arc::clone(other);
    }
    let mut both: Vec<T> = one.iter().chain(other.iter()).cloned().collect();
    both.sort_unstable();
    both.dedup();
    both.into()
}
