//! The names that rules use, and their retention. Each source of names counts by itself.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use names::{Limits, Names, Namespace, RuleUse};
use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{name_objects::NameObjects, queue::DirtyNames};
use crate::rules::{
    BySource, RetentionPolicy, RuleChange, Source, SourceSet, Version, Wanted, interner::Interner,
};

/// Values that many names share.
#[derive(Debug, Default)]
struct SharedValues {
    limits: HashMap<RetentionPolicy, Arc<Limits>>,
    uses: Interner<RuleUse>,
}

#[derive(Debug)]
pub(crate) struct RuleUses {
    sources: Vec<SourceInUse>,
}

/// The names that the rules of one source use.
#[derive(Debug)]
struct SourceInUse {
    source: Source,
    /// Whether every name in use is known, so that any other name is unused.
    is_in_sync: bool,
    /// The rules could not be read so far.
    has_failed: bool,
    /// The version of the wanted names that was applied last.
    seen: Version,
}

impl RuleUses {
    pub(crate) fn new(sources: impl Iterator<Item = Source>) -> Self {
        let sources = sources.map(|source| SourceInUse {
            source,
            is_in_sync: false,
            has_failed: false,
            seen: Version::default(),
        });
        Self {
            sources: sources.collect(),
        }
    }

    /// Whether every name in use is known, as far as the sources can be read.
    pub(crate) fn are_known(&self) -> bool {
        let mut sources = self.sources.iter();
        let are_read = sources.all(|it| it.is_in_sync || it.has_failed);
        are_read && self.sources.iter().any(|it| it.is_in_sync)
    }

    /// Whether every name that the source uses is known.
    pub(super) fn is_in_sync(&self, source: Source) -> bool {
        self.of(source).is_some_and(|it| it.is_in_sync)
    }

    fn of(&self, source: Source) -> Option<&SourceInUse> {
        self.sources.iter().find(|it| it.source == source)
    }

    fn of_mut(&mut self, source: Source) -> Option<&mut SourceInUse> {
        self.sources.iter_mut().find(|it| it.source == source)
    }

    /// Applies changes of the names in rules.
    pub(super) fn apply(
        &mut self,
        all: &BySource<Wanted>,
        names: &mut Names,
        by_name: &mut foldhash::HashMap<DnsName, Box<NameObjects>>,
        dirty: &mut DirtyNames,
        now: Timestamp,
    ) {
        let mut changed = BTreeSet::new();
        for (source, wanted) in all.iter() {
            let Some(known) = self.of_mut(source) else {
                continue;
            };
            if wanted.in_sync != known.is_in_sync {
                known.is_in_sync = wanted.in_sync;
                names.mark_all();
            }
            known.has_failed = wanted.has_failed;
            let seen = std::mem::replace(&mut known.seen, wanted.changes.version());
            match wanted.changes.since(seen) {
                Some(changes) => {
                    for change in changes {
                        match change {
                            RuleChange::Name(name) => {
                                changed.insert(name.clone());
                            }
                            RuleChange::Names(namespace) => {
                                let of_namespace = names_of(all, *namespace);
                                names.set_names_of_namespace(*namespace, of_namespace);
                            }
                        }
                    }
                }
                None => {
                    let in_rules = by_name.iter();
                    let in_rules = in_rules.filter(|(_, it)| it.sources.has(source));
                    let in_rules = in_rules.map(|(name, _)| name);
                    changed.extend(in_rules.chain(wanted.names.keys()).cloned());
                    names.clear_names_of_namespaces();
                    let with_names = all.iter();
                    let with_names = with_names.flat_map(|(_, it)| it.names_of_namespaces.keys());
                    for namespace in with_names {
                        names.set_names_of_namespace(*namespace, names_of(all, *namespace));
                    }
                }
            }
        }
        let mut shared = SharedValues::default();
        for name in changed {
            let (sources, rule_use) = self.use_of(&name, all, names, &mut shared);
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
        all: &BySource<Wanted>,
        names: &Names,
        shared: &mut SharedValues,
    ) -> (SourceSet, Option<Arc<RuleUse>>) {
        let mut sources = SourceSet::default();
        let mut namespaces = Arc::default();
        let mut retention: Option<RetentionPolicy> = None;
        for (source, wanted) in all.iter().filter(|(source, _)| self.of(*source).is_some()) {
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
}

/// The names of a namespace in the rules of all sources.
fn names_of(all: &BySource<Wanted>, namespace: Namespace) -> Option<Arc<[DnsName]>> {
    let of_sources = all.iter();
    let of_sources = of_sources.filter_map(|(_, it)| it.names_of_namespaces.get(&namespace));
    of_sources
        .cloned()
        .reduce(|one, other| joined(&one, &other))
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
