//! The objects of the store, and the writes in flight.

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

/// The most writes of addresses and of objects in flight: enough to keep a store busy. A waiting
/// write is computed when its turn comes, so it is never outdated.
pub(crate) const MAX_IN_FLIGHT: usize = 64;

/// Whether the collector creates and deletes objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ManageObjects {
    /// The collector makes an object for a name if no other program made one within ten seconds.
    Auto,
    /// The collector makes an object at once for every name that lacks one.
    Always,
    /// The collector makes none and uses those that are there.
    Never,
}

/// How objects are created and written.
#[derive(Clone, Debug)]
pub struct ObjectPolicy {
    /// The namespace of the DNSNameResolver objects.
    pub namespace: String,
    pub manage: ManageObjects,
    /// How long other programs may take to create the object of a name, with
    /// [`ManageObjects::Auto`].
    pub create_after: Duration,
    /// The least interval of writes that only change times, for each object
    /// (`--status-times-interval`).
    pub times_interval: Duration,
    /// The rates of all writes.
    pub rates: Rates,
}

impl Default for ObjectPolicy {
    /// The collector creates an object for every name at once.
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

/// The number of writes of addresses and of objects that may be in flight. A store that refuses
/// writes asks for ever longer pauses if it gets as many again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InFlightLimit(f64);

impl Default for InFlightLimit {
    fn default() -> Self {
        Self(MAX_IN_FLIGHT as f64)
    }
}

impl InFlightLimit {
    /// A write succeeded. After as many successes as the limit, the limit grows by one.
    pub(crate) fn grow(&mut self) {
        self.0 = (self.0 + self.0.recip()).min(MAX_IN_FLIGHT as f64);
    }

    /// The store refused a write for overload.
    pub(super) fn shrink(&mut self) {
        self.0 = (self.0 - 1.0).max(1.0);
    }

    pub(crate) fn size(self) -> usize {
        self.0 as usize
    }
}

/// The state of the store, and the writes in flight.
#[derive(Debug)]
pub(crate) struct StoredObjects {
    pub(super) policy: ObjectPolicy,
    /// The name that each object is for, by the object's own name.
    pub(super) by_name: HashMap<Arc<str>, DnsName>,
    /// Whether every object of the store is known, so that an unknown one does not exist.
    pub(crate) are_in_sync: bool,
    /// They were in sync before, in this process.
    pub(super) were_in_sync: bool,
    /// Objects that cannot be decoded.
    pub(super) unreadable: BTreeSet<ObjectKey>,
    /// Objects with a write in flight, with the watch events that came meanwhile.
    pub(super) in_flight: HashMap<ObjectKey, VecDeque<Event<DnsNameResolver>>>,
    /// The store asked for a pause until then.
    pub(crate) paused_until: Option<Timestamp>,
    pub(crate) in_flight_limit: InFlightLimit,
    pub(crate) budget: Budget,
    pub(crate) standby: Standby,
    /// The program ends: writes that do not go now are lost.
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

    pub(super) fn find<'a>(
        &self,
        key: &ObjectKey,
        names: &'a mut NameTable,
    ) -> Option<&'a mut StoredObject> {
        let spec = self.by_name.get(&*key.name)?;
        names.entries.get_mut(spec)?.object_mut(&key.name)
    }

    pub(super) fn count(&self) -> usize {
        self.by_name.len()
    }

    /// Whether no write is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The program ends: writes that only wait for their spacing go at once.
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
