//! The quotas of namespaces: none may use up the capacity of the store, the databases and the
//! memory.
//!
//! - [`candidates`]: names that may be left out.
//! - [`charged`]: the usage of each namespace.
//! - [`cut`]: leaves out names of a namespace over its quota.
//! - [`refused`]: new names that were refused, so that no other collector adds them.
//! - [`take_in`]: restores names once there is room.
//! - [`unpaid`]: names under wildcards that no namespace pays for.
//!
//! A name in rules is charged to each namespace whose rules use it. A name under a wildcard is
//! charged to the namespaces whose pods queried it. Names of a namespace over its quota are left
//! out from the end of its EgressFirewall, and those of Deny rules after all others. Names under a
//! wildcard are left out one by one, and new ones are refused for that namespace. A name that
//! another namespace pays for stays, and no longer counts for a namespace over its quota. Names
//! come back when the namespace has had room for them for ten minutes. A namespace is charged for
//! the addresses that would remain under its own retention.

mod candidates;
mod charged;
mod cut;
mod level;
mod refused;
mod take_in;
mod unpaid;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use metrics::gauge;
use proto::api::DnsName;
use runtime::clock::Timestamp;
use serde::Serialize;

pub(crate) use self::charged::Charged;
use self::refused::RefusedNames;
use super::{
    Shared,
    budget::{ETCD_QUOTA, most_stored},
    entry::Entry,
    leadership::Leadership,
    names::NameTable,
};
use crate::{
    clients::Namespace, namespaces::NamespaceQuota, observation::Observation, rules::is_policy,
    state::Stored,
};

/// The interval of checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The least interval of reports to one namespace.
const TOLD_AGAIN: Duration = Duration::from_secs(600);

/// The most namespaces that `explain` lists as the reason for a name left out.
const MOST_NAMED: usize = 8;

/// The limits that flags set.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceLimits {
    /// `--max-addresses`: addresses of all names.
    pub addresses: usize,
    /// Bytes that addresses, and names that wildcards found, take in stored objects.
    pub bytes: usize,
    /// The quota of each namespace without annotations.
    pub each: NamespaceQuota,
    /// The quota of each policy of kube-OVN.
    pub policy: NamespaceQuota,
}

impl Default for NamespaceLimits {
    fn default() -> Self {
        Self {
            addresses: 1_000_000,
            bytes: most_stored(ETCD_QUOTA),
            each: NamespaceQuota {
                addresses: 20_000,
                names: 10_000,
            },
            policy: NamespaceQuota {
                addresses: 20_000,
                names: 10_000,
            },
        }
    }
}

/// The state of the quotas.
#[derive(Debug)]
pub(crate) struct NamespaceShares {
    pub(crate) limits: NamespaceLimits,
    pub(crate) shared: Shared,
    looked_at: Timestamp,
    /// The names of each namespace, in the order in which they are left out.
    pub(super) order: BTreeMap<Namespace, Arc<[DnsName]>>,
    /// Names left out, with the number of addresses they had; 0 if another leader left them out.
    left_out: HashMap<DnsName, usize>,
    /// Names that another leader left out, and whose namespaces are not determined yet.
    taken_over: Vec<DnsName>,
    /// Namespaces that exceeded their quota.
    over: BTreeMap<Namespace, Over>,
    /// New names under wildcards that were refused lately.
    refused: RefusedNames,
    /// As of the last check.
    pub(crate) charged: Charged,
}

/// A namespace that exceeded its quota.
#[derive(Clone, Copy, Debug)]
struct Over {
    /// Its quota when names were last left out.
    quota: NamespaceQuota,
    /// Since when it has had room.
    room_since: Option<Timestamp>,
    /// It had too many names in rules, not only too many addresses.
    had_too_many_names: bool,
    /// Names under wildcards were left out, and new ones of its pods are refused.
    is_closed: bool,
    /// When names were last left out.
    cut_at: Option<Timestamp>,
    told_at: Option<Timestamp>,
}

/// The usage and the quota of a namespace.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceShare {
    pub namespace: Arc<str>,
    /// The usage charged to it, without names left out.
    pub used: NamespaceQuota,
    pub quota: NamespaceQuota,
    /// Whether new names that its pods query under wildcards are left out.
    #[serde(rename = "newNamesLeftOut")]
    pub is_closed: bool,
}

impl NamespaceShares {
    pub(crate) fn new(limits: NamespaceLimits, shared: Shared) -> Self {
        Self {
            limits,
            shared,
            looked_at: Timestamp::default(),
            order: BTreeMap::new(),
            left_out: HashMap::new(),
            taken_over: Vec::new(),
            over: BTreeMap::new(),
            refused: RefusedNames::default(),
            charged: Charged::default(),
        }
    }

    /// Sets the order of a namespace's names.
    pub(super) fn set_order(&mut self, namespace: Namespace, order: Option<Arc<[DnsName]>>) {
        match order {
            Some(order) => self.order.insert(namespace, order),
            None => self.order.remove(&namespace),
        };
    }

    /// Forgets the order of all namespaces.
    pub(super) fn forget_order(&mut self) {
        self.order.clear();
    }

    fn is_closed(&self, namespace: Namespace) -> bool {
        self.over.get(&namespace).is_some_and(|over| over.is_closed)
    }

    /// Whether to refuse an answer for a new name under the wildcard `spec`, because the client's
    /// namespace exceeds its quota.
    pub(crate) fn refuses(
        &mut self,
        names: &NameTable,
        spec: &DnsName,
        observation: &Observation,
    ) -> bool {
        let Some(client) = observation.client.filter(|_| !self.over.is_empty()) else {
            return false;
        };
        let Some(entry) = names.entries.get(spec).filter(|it| !it.left_out) else {
            return false;
        };
        let (memory, name) = (&entry.memory, &observation.name);
        if memory.list().spec() == name || memory.list().addresses_of(name) > 0 {
            return false;
        }
        let crowd = entry.crowd(&self.shared.clients);
        let namespace = crowd.with_rule(crowd.who(client));
        let refused = namespace.is_some_and(|it| self.is_closed(it));
        if refused {
            self.refused.insert(name, observation.at);
        }
        refused
    }

    /// The status of another collector, without the names under a wildcard that this one refused;
    /// `None` if it has none of them.
    pub(super) fn without_refused(&self, entry: &Entry, status: &Stored) -> Option<Stored> {
        let (memory, spec) = (&entry.memory, entry.memory.list().spec());
        let mut with_rule = entry.in_use.with_rule.iter().copied();
        if self.over.is_empty() || !with_rule.clone().any(|it| self.is_closed(it)) {
            return None;
        }
        let are_all_closed = with_rule.all(|it| self.is_closed(it));
        let is_new = |name: &DnsName| name != spec && memory.list().addresses_of(name) == 0;
        status.without(|name| is_new(name) && self.refused.has(name, are_all_closed))
    }

    /// Leaves out names of namespaces over their quota, and restores names. A standby does so for
    /// its own state.
    pub(crate) fn look(
        &mut self,
        names: &mut NameTable,
        lead: &Leadership,
        are_rules_known: bool,
        now: Timestamp,
    ) {
        let are_known = self.shared.quotas.are_known();
        if !are_known || self.looked_at + INTERVAL > now {
            return;
        }
        self.looked_at = now;
        self.refused.forget(now);
        let mut charged = Charged::new(names, now);
        self.cut(names, lead, &mut charged, now);
        if lead.leads() {
            self.tell_over(now);
        }
        if are_rules_known {
            self.take_in_again(names, &mut charged, now);
        }
        self.charged = charged;
        gauge!("egress_collector_names_left_out").set(self.left_out.len() as f64);
        gauge!("egress_collector_namespaces_over_limit").set(self.over.len() as f64);
    }

    /// Reports to the namespaces whose names were left out. If the queue is full, the rest is
    /// reported later. No namespace is reported to twice within a few minutes, so each gets its
    /// turn.
    fn tell_over(&mut self, now: Timestamp) {
        let untold = self.over.iter_mut().filter(|(_, over)| {
            over.told_at < over.cut_at && over.told_at.is_none_or(|at| at + TOLD_AGAIN <= now)
        });
        for (namespace, over) in untold {
            let notices = &self.shared.notices;
            if !notices.tell_namespace(*namespace, over.quota) {
                return;
            }
            over.told_at = Some(now);
        }
    }

    fn quota(&self, namespace: Namespace) -> NamespaceQuota {
        if let Some(quota) = self.shared.quotas.get(namespace) {
            return quota;
        }
        match self.limits.policy == self.limits.each {
            false if is_policy(&self.shared.clients.name(namespace)) => self.limits.policy,
            _ => self.limits.each,
        }
    }

    pub(super) fn over(&self) -> Vec<NamespaceShare> {
        self.over.keys().map(|it| self.share_of(*it)).collect()
    }

    /// Some of the namespaces over their quota because of which the name, or new names under it,
    /// are left out.
    pub(super) fn shares_of(&self, entry: &Entry) -> Vec<NamespaceShare> {
        let with_rule = entry.in_use.with_rule.iter().copied();
        let over = with_rule.filter(|it| entry.left_out || self.is_closed(*it));
        over.take(MOST_NAMED).map(|it| self.share_of(it)).collect()
    }

    fn share_of(&self, namespace: Namespace) -> NamespaceShare {
        NamespaceShare {
            namespace: self.shared.clients.name(namespace),
            used: self.charged.of(namespace),
            quota: self.quota(namespace),
            is_closed: self.is_closed(namespace),
        }
    }

    /// The lead changed. A new leader continues with the names that the last one left out,
    /// according to the statuses.
    pub(crate) fn take_over(&mut self, names: &mut NameTable, now: Timestamp) {
        *self = Self {
            order: std::mem::take(&mut self.order),
            ..Self::new(self.limits, self.shared.clone())
        };
        let mut left_out = Vec::new();
        for (name, entry) in &mut names.entries {
            let mut objects = entry.objects.iter();
            entry.left_out = objects.any(|object| object.status.is_over_limit(name));
            if entry.left_out {
                entry.memory.leave_out(now);
                left_out.push(name.clone());
            }
        }
        for name in left_out {
            self.goes_on_left_out(name, names);
        }
    }

    /// Another leader left this name out.
    pub(super) fn goes_on_left_out(&mut self, name: DnsName, names: &mut NameTable) {
        names.reschedule(&name);
        self.left_out.insert(name.clone(), 0);
        self.taken_over.push(name);
    }

    /// The clock was set.
    pub(crate) fn gap(&mut self, now: Timestamp) {
        self.looked_at = self.looked_at.min(now);
        self.refused.gap(now);
        for over in self.over.values_mut() {
            let times = [&mut over.room_since, &mut over.cut_at, &mut over.told_at];
            for time in times.into_iter().flatten() {
                *time = (*time).min(now);
            }
        }
    }
}
