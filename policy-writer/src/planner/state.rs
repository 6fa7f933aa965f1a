//! The facts of all plans.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use proto::api::DnsName;
use runtime::{kube_events::Severity, store::ObjectKey};

use super::{Options, PlannedReport, SetApi};
use crate::{
    names::Names,
    output::{Observed, Output, Outputs},
    resolver::{Resolver, reference},
};

/// All `DNSResolver` objects, the addresses of their names, and the stored objects.
#[derive(Debug)]
pub(super) struct State {
    pub(super) options: Options,
    pub(super) names: Names,
    pub(super) resolvers: BTreeMap<ObjectKey, Resolver>,
    pub(super) resolvers_read: bool,
    /// Existing objects that do not decode.
    pub(super) unreadable: BTreeSet<ObjectKey>,
    /// The namespaces in which a `DNSResolver` was read.
    pub(super) seen_namespaces: BTreeSet<String>,
    /// By the names that they list.
    pub(super) users: HashMap<DnsName, BTreeSet<ObjectKey>>,
    pub(super) stored: StoredObjects,
    pub(super) set_api: SetApi,
    pub(super) is_leading: bool,
    pub(super) reports: Vec<PlannedReport>,
    /// How often a change of another account was put right.
    pub(super) undone: u64,
}

/// The stored objects by kind.
#[derive(Debug, Default)]
pub(super) struct StoredObjects {
    pub(super) policies: Outputs,
    pub(super) sets: Outputs,
    pub(super) maps: Outputs,
}

impl StoredObjects {
    pub(super) fn of(&self, output: Output) -> &Outputs {
        match output {
            Output::Policy => &self.policies,
            Output::Set => &self.sets,
            Output::Map => &self.maps,
        }
    }

    pub(super) fn of_mut(&mut self, output: Output) -> &mut Outputs {
        match output {
            Output::Policy => &mut self.policies,
            Output::Set => &mut self.sets,
            Output::Map => &mut self.maps,
        }
    }
}

impl State {
    pub(super) fn new(options: Options) -> Self {
        Self {
            names: Names::new(options.filter.clone()),
            options,
            resolvers: BTreeMap::new(),
            resolvers_read: false,
            unreadable: BTreeSet::new(),
            seen_namespaces: BTreeSet::new(),
            users: HashMap::new(),
            stored: StoredObjects::default(),
            set_api: SetApi::default(),
            is_leading: false,
            reports: Vec::new(),
            undone: 0,
        }
    }

    /// Whether the objects of a kind were listed since the start.
    pub(super) fn is_read(&self, output: Output) -> bool {
        let is_served = matches!(self.set_api, SetApi::V3 | SetApi::Crd);
        self.stored.of(output).has_been_read && (output != Output::Set || is_served)
    }

    /// The kinds whose objects were listed since the start.
    pub(super) fn read_kinds(&self) -> impl Iterator<Item = Output> {
        let all = Output::ALL.into_iter();
        all.filter(|output| self.is_read(*output))
    }

    /// Whether the sources of all objects were listed.
    pub(super) fn may_plan(&self) -> bool {
        self.is_leading && self.names.has_been_read() && self.resolvers_read
    }

    /// Whether a `DNSResolver` asks for a NetworkSet.
    pub(super) fn wants_sets(&self) -> bool {
        let mut resolvers = self.resolvers.values();
        resolvers.any(|it| it.request.wants(Output::Set))
    }

    /// The kinds that have not been listed since the start.
    pub(super) fn unread(&self) -> Vec<&'static str> {
        let wants_sets = self.wants_sets() && self.set_api != SetApi::Missing;
        let kinds = [
            ("DNSNameResolver", self.names.has_been_read()),
            ("DNSResolver", self.resolvers_read),
            ("NetworkPolicy", self.is_read(Output::Policy)),
            ("IPMap", self.is_read(Output::Map)),
            ("NetworkSet", !wants_sets || self.is_read(Output::Set)),
        ];
        let unread = kinds.into_iter().filter(|(_, is_read)| !is_read);
        unread.map(|(kind, _)| kind).collect()
    }

    /// The `DNSResolver` objects of a namespace.
    pub(super) fn of_namespace(
        &self,
        namespace: &str,
    ) -> impl Iterator<Item = (&ObjectKey, &Resolver)> {
        let from = self.resolvers.range(ObjectKey::before_all_in(namespace)..);
        from.take_while(move |(key, _)| key.namespace == namespace)
    }

    /// The stored object of a kind, if the `DNSResolver` is its controller.
    pub(super) fn own(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        output: Output,
    ) -> Option<&Observed> {
        let observed = self.stored.of(output).get(key)?;
        let is_own = resolver.is_controller_of(observed.controller.as_deref());
        is_own.then_some(observed)
    }

    /// The stored object of a kind, if this program has written it for the `DNSResolver`.
    pub(super) fn marked(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        output: Output,
    ) -> Option<&Observed> {
        let own = self.own(key, resolver, output);
        own.filter(|own| own.is_marked)
    }

    /// Whether the `DNSResolver` is not the controller of the object of this kind.
    pub(super) fn is_taken(&self, key: &ObjectKey, resolver: &Resolver, output: Output) -> bool {
        let is_there = self.stored.of(output).get(key).is_some();
        is_there && self.own(key, resolver, output).is_none()
    }

    /// The kind of object that has all addresses. For an unknown value it is the one that is there.
    pub(super) fn address_object(&self, key: &ObjectKey, resolver: &Resolver) -> Option<Output> {
        let is_it = |output: &Output| match resolver.request.kind {
            Some(_) => resolver.request.wants(*output),
            None => self.marked(key, resolver, *output).is_some(),
        };
        [Output::Policy, Output::Set].into_iter().find(is_it)
    }

    /// When the objects of a `DNSResolver` may be written; `None` if there is no reason to.
    pub(super) fn due(&self, key: &ObjectKey, resolver: &Resolver) -> Option<Instant> {
        if resolver.flight.is_under_way {
            return None;
        }
        let due = &resolver.due;
        let Some(dirty_since) = due.dirty_since.filter(|_| due.is_dirty) else {
            return due.later_at;
        };
        let exists = |output: &Output| {
            resolver.written.contains_key(output) || self.own(key, resolver, *output).is_some()
        };
        let wanted = resolver.request.outputs();
        let mut wanted = wanted.filter(|output| self.is_read(*output));
        let may_go = resolver.unanswered.is_empty()
            || (due.is_urgent && wanted.all(|output| exists(&output)));
        let at = if may_go { dirty_since } else { due.hold_until };
        let at = due.not_before.map_or(at, |not_before| at.max(not_before));
        Some(due.later_at.map_or(at, |later| at.min(later)))
    }

    /// The names of a `DNSResolver` are others than before.
    pub(super) fn change_users(
        &mut self,
        key: &ObjectKey,
        before: &BTreeSet<DnsName>,
        after: &BTreeSet<DnsName>,
    ) {
        for name in before.difference(after) {
            if let Some(users) = self.users.get_mut(name) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(name);
                    self.names.forget(name);
                }
            }
        }
        for name in after.difference(before) {
            let users = self.users.entry(name.clone()).or_default();
            users.insert(key.clone());
        }
    }

    /// Tells the users of a `DNSResolver` something.
    pub(super) fn report(
        &mut self,
        key: &ObjectKey,
        severity: Severity,
        reason: &'static str,
        note: String,
    ) {
        if let Some(resolver) = self.resolvers.get(key) {
            let about = reference(key, &resolver.request.uid);
            self.reports.push(PlannedReport {
                about,
                severity,
                reason,
                note,
            });
        }
    }
}
