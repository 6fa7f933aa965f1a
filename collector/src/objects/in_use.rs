//! The names that rules use, and their retention. Each source of names counts by itself.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{name_use::NameUse, names::NameTable, namespace_caps::NamespaceUse};
use crate::{
    interner::Interner,
    namespaces::Namespace,
    rules::{BySource, RetentionPolicy, RuleChange, Source, Version, Wanted},
    state::Limits,
};

/// Values that many names share.
#[derive(Debug, Default)]
struct SharedValues {
    limits: HashMap<RetentionPolicy, Arc<Limits>>,
    uses: Interner<NameUse>,
}

#[derive(Debug)]
pub(crate) struct NamesInUse {
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

impl NamesInUse {
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

    /// Applies changes of the wanted names.
    pub(crate) fn want(
        &mut self,
        all: &BySource<Wanted>,
        names: &mut NameTable,
        namespaces: &mut NamespaceUse,
        now: Timestamp,
    ) {
        let mut changed = BTreeSet::new();
        for (source, wanted) in all.iter() {
            let Some(known) = self.of_mut(source) else {
                continue;
            };
            if wanted.in_sync != known.is_in_sync {
                known.is_in_sync = wanted.in_sync;
                names.look_at_all();
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
                                namespaces.set_names(*namespace, names_of(all, *namespace));
                            }
                        }
                    }
                }
                None => {
                    let in_use = names.entries.iter();
                    let in_use = in_use.filter(|(_, entry)| entry.in_use.by.has(source));
                    let in_use = in_use.map(|(name, _)| name);
                    changed.extend(in_use.chain(wanted.names.keys()).cloned());
                    namespaces.clear_names();
                    let with_names = all.iter();
                    let with_names = with_names.flat_map(|(_, it)| it.names_of_namespaces.keys());
                    for namespace in with_names {
                        namespaces.set_names(*namespace, names_of(all, *namespace));
                    }
                }
            }
        }
        let mut shared = SharedValues::default();
        for name in changed {
            self.want_name(&name, all, names, &mut shared, now);
        }
    }

    /// Adds up the use of one name by all sources.
    fn want_name(
        &self,
        name: &DnsName,
        all: &BySource<Wanted>,
        names: &mut NameTable,
        shared: &mut SharedValues,
        now: Timestamp,
    ) {
        let wanting = all.iter().filter_map(|(source, wanted)| {
            let wanted_name = wanted.names.get(name)?;
            self.of(source)?;
            Some((source, &**wanted_name))
        });
        let wanting: Vec<_> = wanting.collect();
        let terms = wanting.iter().map(|(_, of_source)| of_source.retention);
        let Some(terms) = terms.reduce(RetentionPolicy::join) else {
            if let Some(entry) = names.entries.get_mut(name).filter(|it| it.is_wanted()) {
                entry.release(shared.uses.share(entry.in_use.without_rules()), now);
                names.dirty.insert(name.clone());
            }
            return;
        };
        let default = Arc::clone(&names.limits);
        let mut limits_on = |terms: &RetentionPolicy| {
            let limits = shared.limits.entry(terms.times());
            Arc::clone(limits.or_insert_with(|| Arc::new(terms.limits(&default))))
        };
        let mut next = NameUse {
            allowed: terms.allowed,
            denied: terms.denied,
            ..NameUse::none(limits_on(&terms))
        };
        for (source, of_source) in &wanting {
            next.by.insert(*source);
            next.with_rule = joined(&next.with_rule, &of_source.namespaces);
        }
        let entry = names.entry_or_new(name, now);
        entry.unused_since = None;
        let had_same_limits = entry.is_wanted() && entry.in_use.limits == next.limits;
        let is_new = entry.set_use(shared.uses.share(next));
        if is_new {
            entry.writes.missing_since = entry.writes.missing_since.max(now);
        }
        if had_same_limits && !is_new {
            return;
        }
        let fresh = std::mem::take(&mut entry.fresh);
        names.dirty.insert(name.clone());
        names.reschedule(name);
        if fresh {
            names.newly_wanted.insert(name.clone());
        }
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
