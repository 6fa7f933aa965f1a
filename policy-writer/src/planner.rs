//! The plan of all writes, without IO: events of the store and results of writes go in, jobs come out.

mod conditions;
mod events;
mod job;
mod plan;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::DnsName;
use runtime::{
    address_filter::Filter,
    clock::Timestamp,
    kube_events::Severity,
    store::{ObjectKey, StoreError},
};

pub use self::{
    job::{Done, Job, Operation, OperationResult},
    view::{Explained, NameShown, ObjectShown, ResolverShown, Totals},
};
use crate::{
    budget::{Budget, Waiting},
    egress::DnsPeers,
    names::Names,
    output::{Output, Outputs},
    resolver::{Resolver, reference},
};

/// The pause after a failed write; it doubles up to [`LONGEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_secs(1);

const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// How many `DNSResolver` objects are planned for each place of a job.
const PLANNED: usize = 4;

/// How the objects are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The guards.
    pub filter: Filter,
    /// `--dnsresolver-max-addresses`.
    pub max_addresses: usize,
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
    /// Nowhere, or not known yet.
    #[default]
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
    status_due: BTreeSet<ObjectKey>,
    /// The last of them that was looked at; the next one comes after it.
    status_done: Option<ObjectKey>,
    /// Whether objects without their `DNSResolver` may be left, in a store that does not delete them.
    has_orphans: bool,
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
            status_due: BTreeSet::new(),
            status_done: None,
            has_orphans: true,
            reports: Vec::new(),
            undone: 0,
        }
    }

    /// The kinds that have not been listed since the start. Nothing is written before.
    pub fn unread(&self) -> Vec<&'static str> {
        let wants_sets = self.wants_sets() && self.set_api != SetApi::Missing;
        let kinds = [
            ("DNSNameResolver", self.names.has_been_read()),
            ("DNSResolver", self.resolvers_read),
            ("NetworkPolicy", self.policies.has_been_read),
            ("IPMap", self.maps.has_been_read),
            ("NetworkSet", !wants_sets || self.sets.has_been_read),
        ];
        let unread = kinds.into_iter().filter(|(_, is_read)| !is_read);
        unread.map(|(kind, _)| kind).collect()
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

    /// Records where NetworkSets are served.
    pub fn set_api(&mut self, api: SetApi, now: Now) {
        if self.set_api != api {
            self.set_api = api;
            let wants = |(_, it): &(&ObjectKey, &mut Resolver)| it.request.wants(Output::Set);
            for (key, resolver) in self.resolvers.iter_mut().filter(wants) {
                resolver.touch(now.instant);
                self.status_due.insert(key.clone());
            }
        }
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

    /// Whether each name that an object can have was answered.
    fn is_resolved(&self, resolver: &Resolver) -> bool {
        resolver
            .request
            .valid()
            .all(|name| self.names.is_answered(name))
    }

    /// When the objects of a `DNSResolver` may be written; `None` if there is no reason to.
    fn due(&self, key: &ObjectKey, resolver: &Resolver) -> Option<Instant> {
        if resolver.in_flight {
            return None;
        }
        let put_right = resolver.put_right_at;
        let Some(dirty_since) = resolver.dirty_since.filter(|_| resolver.is_dirty) else {
            return put_right;
        };
        let exists = |output: &Output| {
            resolver.written.contains_key(output)
                || self
                    .outputs(*output)
                    .get(key)
                    .is_some_and(|it| resolver.is_controller_of(it.controller.as_deref()))
        };
        let mut wanted = Output::ALL
            .into_iter()
            .filter(|output| resolver.request.wants(*output));
        let may_go = self.is_resolved(resolver)
            || (resolver.is_urgent && wanted.all(|output| exists(&output)));
        let due = if may_go {
            dirty_since
        } else {
            resolver.hold_until
        };
        let due = resolver.not_before.map_or(due, |at| due.max(at));
        Some(put_right.map_or(due, |at| due.min(at)))
    }

    /// The jobs that can begin now, at most so many.
    pub fn next_jobs(&mut self, room: usize, now: Now) -> Vec<Job> {
        if room == 0 || !self.is_leading || !self.unread().is_empty() {
            return Vec::new();
        }
        self.end_adoptions(now);
        let mut jobs = self.orphans(room);
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
            .filter(|(since, key, resolver)| {
                let next = |bytes| budget.next(&key.namespace, bytes, *since, now.instant);
                let is_later = |bytes| next(bytes) > now.instant;
                !resolver.waiting_bytes.is_some_and(is_later)
            })
            .map(|(since, key, _)| (since, key.clone()));
        // A plan takes time, so only those are planned that may begin soon.
        let due = budget.in_turns(due.collect(), PLANNED * room);
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
            waiting.push(Waiting {
                what: (key, plan),
                namespace: &key.namespace,
                bytes,
                since: *since,
            });
        }
        let most = room.saturating_sub(jobs.len());
        for (key, plan) in self.budget.admit(waiting, most, now.instant) {
            jobs.extend(self.begin(key, plan, now));
        }
        self.status_jobs(room.saturating_sub(jobs.len()), &mut jobs, now);
        jobs
    }

    /// Adopted addresses whose time is over are taken out.
    fn end_adoptions(&mut self, now: Now) {
        for resolver in self.resolvers.values_mut().filter(|it| !it.in_flight) {
            let mut adopted = resolver.adopted.iter().flat_map(BTreeMap::values);
            if adopted.any(|adopted| adopted.until() <= now.time) {
                resolver.is_urgent = true;
                resolver.touch(now.instant);
            }
        }
    }

    /// When the next job can begin without another event.
    pub fn next_timer(&self, now: Now) -> Option<Instant> {
        if !self.is_leading || !self.unread().is_empty() {
            return None;
        }
        let due = self.resolvers.iter().filter_map(|(key, resolver)| {
            let due = self.due(key, resolver)?;
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
        let ends = adopted.flat_map(|it| it.adopted.iter().flat_map(BTreeMap::values));
        let ends = ends.map(|adopted| now.instant + adopted.until().since(now.time));
        let statuses = self
            .status_due
            .iter()
            .filter_map(|key| self.resolvers.get(key)?.status_not_before);
        due.chain(ends).chain(statuses).min()
    }

    /// Takes the results of a job in.
    pub fn finished(&mut self, done: Done, now: Now) {
        let Done {
            key,
            results,
            status,
            ..
        } = done;
        let mut failed = None;
        let allowed_dns = self.policies.allows_dns(&key.namespace);
        for (output, result) in results {
            let problem = match result {
                OperationResult::Written(observed) => {
                    if let Some(resolver) = self.resolvers.get_mut(&key) {
                        resolver.written.insert(output, observed.fingerprint);
                    }
                    self.stored(output, &key, observed);
                    None
                }
                OperationResult::Gone => {
                    self.outputs_mut(output).remove(&key);
                    None
                }
                OperationResult::Changed(observed) => {
                    self.outputs_mut(output).put(key.clone(), observed);
                    None
                }
                OperationResult::Failed(error) => Some(error),
            };
            let Some(resolver) = self.resolvers.get_mut(&key) else {
                continue;
            };
            match problem {
                None => drop(resolver.failures.remove(&output)),
                Some(error) => {
                    resolver.failures.insert(output, error.to_string());
                    failed = Some(error);
                }
            }
        }
        self.compare_dns(&key.namespace, allowed_dns);
        let Some(resolver) = self.resolvers.get_mut(&key) else {
            return;
        };
        resolver.in_flight = false;
        let is_status = status.is_some();
        match status {
            Some(Ok(stored)) => {
                resolver
                    .version
                    .clone_from(&stored.metadata.resource_version);
                resolver.status = stored.status.unwrap_or_default();
            }
            // The watch tells of the new version, or that there is none.
            Some(Err(StoreError::Conflict(_) | StoreError::NotFound(_))) | None => {}
            Some(Err(error)) => failed = Some(error),
        }
        match failed {
            None => resolver.failed = 0,
            Some(error) => {
                let pause = FIRST_RETRY
                    .saturating_mul(1 << resolver.failed.min(8))
                    .min(LONGEST_RETRY);
                resolver.failed = resolver.failed.saturating_add(1);
                let asked = match error {
                    StoreError::Unavailable { retry_after, .. } => retry_after,
                    _ => None,
                };
                let at = now.instant + pause.max(asked.unwrap_or_default());
                if is_status {
                    resolver.status_not_before = Some(at);
                } else {
                    resolver.delay(at);
                }
                resolver.is_urgent = true;
            }
        }
        // Events that came meanwhile, and objects that others changed.
        resolver.touch(now.instant);
        self.status_due.insert(key);
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
