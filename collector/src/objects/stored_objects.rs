//! The objects of the store, and the writes that are under way.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum;
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};

use super::{
    budget::{Budget, Rates},
    entry::Entry,
    names::NameTable,
    standby::Standby,
    stored_object::StoredObject,
};

/// As many writes of addresses and of objects are under way at most: enough to keep a store busy. What waits is not computed
/// yet, so it is written as it is when its turn comes.
pub(crate) const MAX_IN_FLIGHT: usize = 64;

/// Whether the collector makes and deletes objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ManageObjects {
    /// The collector makes an object for a name that nobody else made one for.
    Auto,
    /// The collector makes an object for every name.
    Always,
    /// The collector makes none.
    Never,
}

/// How objects are made and written.
#[derive(Clone, Debug)]
pub struct ObjectPolicy {
    /// The namespace of the DNSNameResolver objects.
    pub namespace: String,
    /// Who makes and deletes objects.
    pub manage: ManageObjects,
    /// How long a name in use is left to others to make an object for, where objects are managed automatically.
    pub create_after: Duration,
    /// Nothing but times is written for an object more often than this (`--status-times-interval`).
    pub times_interval: Duration,
    /// How much is written in all.
    pub rates: Rates,
}

impl Default for ObjectPolicy {
    /// An object is made for every name at once.
    fn default() -> Self {
        Self {
            namespace: "ovn-kubernetes".to_owned(),
            manage: ManageObjects::Always,
            create_after: Duration::ZERO,
            times_interval: Duration::from_secs(600),
            rates: Rates::default(),
        }
    }
}

/// How many writes of addresses and of objects may be under way. A store that refuses more than so many at once asks for
/// longer and longer pauses, if it is asked for as many again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InFlightLimit(f64);

impl Default for InFlightLimit {
    fn default() -> Self {
        Self(MAX_IN_FLIGHT as f64)
    }
}

impl InFlightLimit {
    /// A write was carried out: one more may be under way after as many as may be now.
    pub(crate) fn grow(&mut self) {
        self.0 = (self.0 + self.0.recip()).min(MAX_IN_FLIGHT as f64);
    }

    /// A write was one too many.
    pub(super) fn shrink(&mut self) {
        self.0 = (self.0 - 1.0).max(1.0);
    }

    pub(crate) fn size(self) -> usize {
        self.0 as usize
    }
}

/// What is known of the store, and what is under way to it.
#[derive(Debug)]
pub(crate) struct StoredObjects {
    pub(super) policy: ObjectPolicy,
    /// Which name each object is of, by the object's own.
    pub(super) by_name: HashMap<Arc<str>, DnsName>,
    /// Whether every object of the store is known, so that what is not known does not exist.
    pub(super) are_in_sync: bool,
    /// They were known before, in this process.
    pub(super) were_in_sync: bool,
    /// Objects that are there and cannot be read.
    pub(super) unreadable: BTreeSet<ObjectKey>,
    /// Objects that are being written, with what the watch said of them meanwhile.
    pub(super) in_flight: HashMap<ObjectKey, VecDeque<Event<DnsNameResolver>>>,
    /// The store asked to be left alone until then.
    pub(super) paused_until: Option<Timestamp>,
    pub(crate) in_flight_limit: InFlightLimit,
    pub(crate) budget: Budget,
    pub(crate) standby: Standby,
    /// The program ends: what is not written now never is.
    pub(super) is_ending: bool,
}

impl StoredObjects {
    pub(crate) fn new(policy: ObjectPolicy) -> Self {
        Self {
            budget: Budget::new(policy.rates),
            policy,
            by_name: HashMap::new(),
            are_in_sync: false,
            were_in_sync: false,
            unreadable: BTreeSet::new(),
            in_flight: HashMap::new(),
            paused_until: None,
            in_flight_limit: InFlightLimit::default(),
            standby: Standby::default(),
            is_ending: false,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.policy.namespace
    }

    pub(super) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey {
            namespace: self.policy.namespace.clone(),
            name: name.to_owned(),
        }
    }

    /// What is known of the object.
    pub(super) fn find<'a>(
        &self,
        key: &ObjectKey,
        names: &'a mut NameTable,
    ) -> Option<&'a mut StoredObject> {
        let spec = self.by_name.get(&*key.name)?;
        names.entries.get_mut(spec)?.object_mut(&key.name)
    }

    pub(crate) fn are_in_sync(&self) -> bool {
        self.are_in_sync
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.by_name.len()
    }

    /// Whether no write is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Until when the store is left alone.
    pub(crate) fn paused_until(&self) -> Option<Timestamp> {
        self.paused_until
    }

    /// The program ends: addresses that wait because their object was just written wait no longer.
    pub(crate) fn end(&mut self, names: &mut NameTable) {
        self.is_ending = true;
        let is_unwritten = |entry: &Entry| entry.writes.unwritten.is_some();
        let unwritten = names.entries.iter().filter(|(_, it)| is_unwritten(it));
        names.dirty.extend(unwritten.map(|(name, _)| name).cloned());
    }

    /// The clock was set.
    pub(crate) fn gap(&mut self) {
        self.budget.gap();
        self.paused_until = None;
        self.standby.reset();
    }
}
