//! The plan of all writes, without IO: events of the store and results of writes go in, jobs come out.

mod conditions;
mod events;
mod finish;
mod flights;
mod floor;
mod job;
mod orphans;
mod plan;
mod room;
mod turns;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::DnsName;
use runtime::{address_filter::Filter, clock::Timestamp, kube_events::Severity, store::ObjectKey};

use self::{flights::Flights, turns::Turns};

pub use self::{
    job::{Done, Job, Operation, OperationResult},
    view::{
        AddressExplained, Comparison, Explained, Explanation, ListedResolver, Listing,
        ListingQuery, NameListed, NameShown, ObjectReport, ObjectShown, Reason, ResolverShown,
        Totals,
    },
};
use crate::{
    budget::{Budget, Waiting},
    egress::DnsPeers,
    names::Names,
    output::{Output, Outputs},
    resolver::{Resolver, reference},
};

/// How many `DNSResolver` objects are planned for each place of a job.
const PLANNED: usize = 4;

/// How many of them are of one namespace: a plan takes time.
const PLANNED_OF_A_NAMESPACE: usize = 8;

/// How the objects are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The guards.
    pub filter: Filter,
    /// `--dnsresolver-max-addresses`.
    pub max_addresses: usize,
    /// `--dnsresolver-max-bytes`.
    pub namespace_bytes: usize,
    /// `--policy-write-bytes`.
    pub write_bytes: usize,
    /// `--dnsresolver-retain`: how long adopted addresses stay.
    pub retain: Duration,
    /// `--adopt-until`.
    pub adopt_until: Option<Timestamp>,
    /// `--networkset-label-prefix`.
    pub label_prefix: Option<String>,
    /// Where pods send DNS queries, if policies allow it.
    pub dns: Option<DnsPeers>,
    /// Whether the store deletes objects whose controller is gone.
    pub collects_garbage: bool,
}

/// The moment of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For delays.
    pub instant: Instant,
    /// For times in objects.
    pub time: Timestamp,
}

/// Where Calico's NetworkSet is served.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SetApi {
    /// Not known yet.
    #[default]
    Unknown,
    /// Nowhere.
    Missing,
    /// `projectcalico.org/v3`.
    V3,
    /// `crd.projectcalico.org/v1`.
    Crd,
}

/// A report for the users of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedReport {
    pub about: ObjectReference,
    pub severity: Severity,
    pub reason: &'static str,
    pub note: String,
}

/// All `DNSResolver` objects, the addresses of their names, and the stored objects.
#[derive(Debug)]
pub struct Planner {
    options: Options,
    names: Names,
    resolvers: BTreeMap<ObjectKey, Resolver>,
    /// Existing objects that do not decode.
    unreadable: BTreeSet<ObjectKey>,
    users: HashMap<DnsName, BTreeSet<ObjectKey>>,
    policies: Outputs,
    sets: Outputs,
    maps: Outputs,
    set_api: SetApi,
    budget: Budget,
    is_leading: bool,
    resolvers_read: bool,
    /// The resolvers whose status may have to be written.
    status_due: Turns,
    /// Those that have to wait after the last write, with the end of the pause.
    statuses_later: BTreeSet<(Instant, ObjectKey)>,
    flights: Flights,
    /// The bytes by which stored objects grow with the writes that begin or are under way.
    growth: BTreeMap<ObjectKey, usize>,
    /// The namespaces where the limit of bytes leaves addresses out, with the earliest time of the next plan for them.
    full: BTreeMap<String, Instant>,
    /// The namespaces in which a `DNSResolver` was read.
    seen_namespaces: BTreeSet<String>,
    /// Whether objects without their `DNSResolver` may be left, in a store that does not delete them.
    has_orphans: bool,
    /// The earliest time of their deletion, after one failed.
    orphans_not_before: Option<Instant>,
    reports: Vec<PlannedReport>,
    /// How often a change of another account was put right.
    undone: u64,
}

impl Planner {
    /// Knows nothing yet.
    pub fn new(options: Options, now: Instant) -> Self {
        Self {
            names: Names::new(options.filter.clone()),
            budget: Budget::new(options.write_bytes, now),
            options,
            resolvers: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            users: HashMap::new(),
            policies: Outputs::default(),
            sets: Outputs::default(),
            maps: Outputs::default(),
            set_api: SetApi::default(),
            is_leading: false,
            resolvers_read: false,
            status_due: Turns::default(),
            statuses_later: BTreeSet::new(),
            flights: Flights::default(),
            growth: BTreeMap::new(),
            full: BTreeMap::new(),
            seen_namespaces: BTreeSet::new(),
            has_orphans: true,
            orphans_not_before: None,
            reports: Vec::new(),
            undone: 0,
        }
    }

    /// The kinds that have not been listed since the start. Objects of such a kind are not written.
    pub fn unread(&self) -> Vec<&'static str> {
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

    /// Whether the objects of a kind were listed since the start.
    fn is_read(&self, output: Output) -> bool {
        let is_served = matches!(self.set_api, SetApi::V3 | SetApi::Crd);
        self.outputs(output).has_been_read && (output != Output::Set || is_served)
    }

    /// Whether the sources of all objects were listed.
    fn may_plan(&self) -> bool {
        self.is_leading && self.names.has_been_read() && self.resolvers_read
    }

    /// Whether a `DNSResolver` asks for a NetworkSet.
    pub fn wants_sets(&self) -> bool {
        self.resolvers
            .values()
            .any(|it| it.request.wants(Output::Set))
    }

    /// Whether this process leads.
    pub fn is_leading(&self) -> bool {
        self.is_leading
    }

    /// The reports since the last call.
    pub fn take_reports(&mut self) -> Vec<PlannedReport> {
        std::mem::take(&mut self.reports)
    }

    /// Records where NetworkSets are served. Those of another group were not read.
    pub fn set_api(&mut self, api: SetApi, now: Now) {
        if self.set_api == api {
            return;
        }
        self.set_api = api;
        self.sets = Outputs::default();
        for resolver in self.resolvers.values_mut() {
            resolver.floor.remove(&Output::Set);
            resolver.adopted.remove(&Output::Set);
            resolver.written.remove(&Output::Set);
            resolver.touch(now.instant);
        }
        self.mark_users_of(Output::Set);
    }

    /// Records whether this process leads. A new leader begins as after a start.
    pub fn set_leading(&mut self, is_leading: bool, now: Now) {
        if is_leading && !self.is_leading {
            for resolver in self.resolvers.values_mut() {
                resolver.take_over(now.instant);
            }
            self.has_orphans = true;
        }
        self.is_leading = is_leading;
    }

    fn outputs(&self, output: Output) -> &Outputs {
        match output {
            Output::Policy => &self.policies,
            Output::Set => &self.sets,
            Output::Map => &self.maps,
        }
    }

    fn outputs_mut(&mut self, output: Output) -> &mut Outputs {
        match output {
            Output::Policy => &mut self.policies,
            Output::Set => &mut self.sets,
            Output::Map => &mut self.maps,
        }
    }

    /// When the objects of a `DNSResolver` may be written; `None` if there is no reason to.
    fn due(&self, key: &ObjectKey, resolver: &Resolver) -> Option<Instant> {
        if resolver.in_flight {
            return None;
        }
        let later = resolver.later_at;
        let Some(dirty_since) = resolver.dirty_since.filter(|_| resolver.is_dirty) else {
            return later;
        };
        let exists = |output: &Output| {
            resolver.written.contains_key(output)
                || self
                    .outputs(*output)
                    .get(key)
                    .is_some_and(|it| resolver.is_controller_of(it.controller.as_deref()))
        };
        let mut wanted = resolver
            .request
            .outputs()
            .filter(|output| self.is_read(*output));
        let may_go = resolver.unanswered.is_empty()
            || (resolver.is_urgent && wanted.all(|output| exists(&output)));
        let due = if may_go {
            dirty_since
        } else {
            resolver.hold_until
        };
        let due = resolver.not_before.map_or(due, |at| due.max(at));
        Some(later.map_or(due, |at| due.min(at)))
    }

    /// The jobs that can begin now, at most so many.
    pub fn next_jobs(&mut self, room: usize, now: Now) -> Vec<Job> {
        if room == 0 || !self.may_plan() {
            return Vec::new();
        }
        self.end_adoptions(now);
        self.offer_free_bytes(now);
        let mut jobs = self.orphans(room, now);
        let due: Vec<_> = self
            .resolvers
            .iter()
            .filter_map(|(key, resolver)| Some((self.due(key, resolver)?, key, resolver)))
            .filter(|(since, ..)| *since <= now.instant)
            .collect();
        let namespaces = due.iter().map(|(_, key, _)| key.namespace.as_str());
        self.budget.fill(&namespaces.collect(), now.instant);
        let budget = &self.budget;
        let due = due
            .into_iter()
            .filter(|(_, key, _)| self.flights.may_begin(key))
            .filter(|(since, key, resolver)| {
                let next = |bytes| budget.next(&key.namespace, bytes, *since, now.instant);
                let is_later = |bytes| next(bytes) > now.instant;
                !resolver.waiting_bytes.is_some_and(is_later)
            })
            .map(|(since, key, _)| (since, key.clone()));
        // A plan takes time, so only those are planned that may begin soon.
        let due = budget.in_turns(due.collect(), PLANNED * room, PLANNED_OF_A_NAMESPACE);
        let mut waiting = Vec::new();
        for (since, key) in &due {
            let plan = self.plan(key, now);
            if plan.operations.is_empty() {
                self.settle(key, plan, now);
                continue;
            }
            let bytes = plan.bytes;
            if let Some(resolver) = self.resolvers.get_mut(key) {
                resolver.waiting_bytes = Some(bytes);
            }
            // Later plans of the namespace see what this one takes.
            self.growth.insert(key.clone(), plan.growth);
            waiting.push(Waiting {
                what: (key, plan),
                namespace: &key.namespace,
                bytes,
                since: *since,
            });
        }
        let most = room.saturating_sub(jobs.len());
        let flights = &mut self.flights;
        let admitted = self.budget.admit(waiting, most, now.instant, |(key, _)| {
            flights.begin(key, now.instant)
        });
        let flights = &self.flights;
        self.growth.retain(|key, _| flights.has_job(key));
        for (key, plan) in admitted {
            jobs.extend(self.begin(key, plan, now));
        }
        self.status_jobs(room.saturating_sub(jobs.len()), &mut jobs, now);
        jobs
    }

    /// Adopted addresses whose time is over are taken out.
    fn end_adoptions(&mut self, now: Now) {
        for resolver in self.resolvers.values_mut().filter(|it| !it.in_flight) {
            let mut adopted = resolver.adopted.values().flatten();
            if adopted.any(|adopted| adopted.until() <= now.time) {
                resolver.is_urgent = true;
                resolver.touch(now.instant);
            }
        }
    }

    /// When the next job can begin without another event.
    pub fn next_timer(&self, now: Now) -> Option<Instant> {
        if !self.may_plan() {
            return None;
        }
        let due = self.resolvers.iter().filter_map(|(key, resolver)| {
            let due = self.due(key, resolver)?;
            if !self.flights.may_begin(key) {
                // The end of a job is an event.
                return None;
            }
            let bytes = resolver.waiting_bytes;
            Some(bytes.map_or(due, |bytes| {
                let next = |since| self.budget.next(&key.namespace, bytes, since, now.instant);
                due.max(next(due))
            }))
        });
        let adopted = self
            .resolvers
            .values()
            .filter(|resolver| !resolver.in_flight);
        let ends = adopted.flat_map(|it| it.adopted.values().flatten());
        // Those that are over have made their DNSResolver due.
        let ends = ends.filter(|adopted| adopted.until() > now.time);
        let ends = ends.map(|adopted| now.instant + adopted.until().since(now.time));
        let mut namespaces = self.status_due.namespaces();
        let may_write = namespaces.any(|namespace| self.flights.has_room(namespace));
        let statuses = may_write.then_some(now.instant);
        let later = self.statuses_later.first().map(|(at, _)| *at);
        let orphans = self.orphans_not_before;
        let once = [statuses, later, orphans].into_iter().flatten();
        due.chain(ends).chain(once).min()
    }

    fn report(&mut self, key: &ObjectKey, severity: Severity, reason: &'static str, note: String) {
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

#[cfg(test)]
mod tests;
