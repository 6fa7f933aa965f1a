//! The objects of the store, and the writes in flight.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
    token_bucket::TokenBucket,
    written_bytes::WrittenBytes,
};

use super::{
    policy::{ManageObjects, ObjectPolicy},
    queue::Tenant,
};
use crate::rules::Source;

/// The most writes of addresses and of objects in flight: enough to keep a store busy. A waiting
/// write is computed when its turn comes, so it is never outdated.
pub(crate) const MAX_IN_FLIGHT: usize = 32;

/// The objects of one source.
#[derive(Debug)]
pub(super) struct SourceObjects {
    source: Source,
    /// The name that each object is for, by the object's own name.
    pub(super) by_name: HashMap<Arc<str>, DnsName>,
    /// Whether every object of the store is known, so that an unknown one does not exist.
    pub(super) are_in_sync: bool,
    /// They could not be read so far.
    pub(super) have_failed: bool,
    /// Objects that cannot be decoded.
    pub(super) unreadable: BTreeSet<ObjectKey>,
}

/// The state of the store, and the writes in flight.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(super) policy: ObjectPolicy,
    sources: Vec<SourceObjects>,
    /// Objects with a write in flight, with the watch events that came meanwhile.
    pub(super) in_flight: HashMap<ObjectKey, VecDeque<Event<DnsNameResolver>>>,
    /// The bytes of all writes are used up until then.
    pub(crate) paused_until: Option<Timestamp>,
    /// The bytes of all writes.
    pub(super) bucket: TokenBucket,
    pub(super) written: WrittenBytes<Tenant>,
    /// The program ends: writes that do not go now are lost.
    pub(super) is_ending: bool,
}

impl Objects {
    pub(crate) fn new(policy: ObjectPolicy) -> Self {
        let sources = policy.sources.iter().map(|it| SourceObjects {
            source: it.source,
            by_name: HashMap::new(),
            are_in_sync: false,
            have_failed: false,
            unreadable: BTreeSet::new(),
        });
        Self {
            bucket: TokenBucket::default(),
            written: WrittenBytes::default(),
            sources: sources.collect(),
            policy,
            in_flight: HashMap::new(),
            paused_until: None,
            is_ending: false,
        }
    }

    pub(crate) fn policy(&self) -> &ObjectPolicy {
        &self.policy
    }

    pub(super) fn of(&self, source: Source) -> Option<&SourceObjects> {
        self.sources.iter().find(|it| it.source == source)
    }

    pub(super) fn of_mut(&mut self, source: Source) -> Option<&mut SourceObjects> {
        self.sources.iter_mut().find(|it| it.source == source)
    }

    /// Whether every object of the source is known.
    pub(super) fn are_in_sync(&self, source: Source) -> bool {
        self.of(source).is_some_and(|it| it.are_in_sync)
    }

    /// Whether every object is known, as far as those of each source can be read.
    pub(crate) fn are_known(&self) -> bool {
        let mut sources = self.sources.iter();
        let are_read = sources.all(|it| it.are_in_sync || it.have_failed);
        are_read && self.sources.iter().any(|it| it.are_in_sync)
    }

    /// Whether objects of the source are created and deleted now.
    pub(super) fn manages(&self, source: Source) -> bool {
        let policy = self.policy.of(source);
        self.are_in_sync(source) && policy.is_some_and(|it| it.manage != ManageObjects::Never)
    }

    pub(super) fn key(&self, source: Source, name: &str) -> ObjectKey {
        ObjectKey {
            namespace: self.policy.namespace(source).to_owned(),
            name: name.to_owned(),
        }
    }

    /// The name that a known object is for.
    pub(super) fn name_of(&self, key: &ObjectKey) -> Option<(Source, &DnsName)> {
        let source = self.policy.source_in(&key.namespace)?;
        let name = self.of(source)?.by_name.get(&*key.name)?;
        Some((source, name))
    }

    pub(super) fn count(&self) -> usize {
        self.sources.iter().map(|it| it.by_name.len()).sum()
    }
}
