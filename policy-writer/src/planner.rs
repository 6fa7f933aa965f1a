//! The plan of all writes, without IO: events of the store and results of writes go in, jobs come out.
//!
//! - `state` has all facts. `events` and `finish` change them after events of the store and results of jobs.
//! - `schedule` says whose turn it is, with `turns` and `flights`. `begin` plans these and begins their jobs.
//! - `plan` compares the objects as they should be with the stored ones.
//! - `conditions` writes the statuses. `orphans` deletes objects whose `DNSResolver` is gone. `view` has the facts for
//!   administrators.

mod begin;
mod conditions;
mod events;
mod finish;
mod flights;
mod job;
mod orphans;
mod plan;
mod schedule;
mod state;
mod turns;
mod view;

use std::time::Instant;

use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::{DnsNameResolver, DnsResolver};
use runtime::{
    address_filter::Filter, clock::Timestamp, inspect::Asked, kube_events::Severity, store::Event,
};

pub use self::{
    job::{Done, Job, Operation, OperationResult},
    view::{
        AddressExplained, Comparison, Explained, Explanation, ListedResolver, Listing,
        ListingQuery, NameListed, NameShown, ObjectReport, ObjectShown, Reason, ResolverShown,
        Totals,
    },
};
use self::{schedule::Schedule, state::State};
use crate::{
    egress::DnsPeers,
    output::{Output, Outputs, Written},
};

/// How the objects are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The guards.
    pub filter: Filter,
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

/// Decides what is written, and when.
#[derive(Debug)]
pub struct Planner {
    state: State,
    schedule: Schedule,
}

impl Planner {
    /// Knows nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            state: State::new(options),
            schedule: Schedule::default(),
        }
    }

    /// The kinds that have not been listed since the start. Objects of such a kind are not written.
    pub fn unread(&self) -> Vec<&'static str> {
        self.state.unread()
    }

    /// Whether a `DNSResolver` asks for a NetworkSet.
    pub fn wants_sets(&self) -> bool {
        self.state.wants_sets()
    }

    /// Whether this process leads.
    pub fn is_leading(&self) -> bool {
        self.state.is_leading
    }

    /// The reports since the last call.
    pub fn take_reports(&mut self) -> Vec<PlannedReport> {
        std::mem::take(&mut self.state.reports)
    }

    /// Records where NetworkSets are served. Those of another group were not read.
    pub fn set_api(&mut self, api: SetApi, now: Now) {
        let state = &mut self.state;
        if state.set_api == api {
            return;
        }
        state.set_api = api;
        state.stored.sets = Outputs::default();
        for resolver in state.resolvers.values_mut() {
            resolver.forget(Output::Set, now.instant);
        }
        self.schedule.mark_users_of(Output::Set, state);
    }

    /// Records whether this process leads. A new leader begins as after a start.
    pub fn set_leading(&mut self, is_leading: bool, now: Now) {
        if is_leading && !self.state.is_leading {
            for resolver in self.state.resolvers.values_mut() {
                resolver.take_over(now.instant);
            }
            self.schedule.has_orphans = true;
        }
        self.state.is_leading = is_leading;
    }

    /// Applies an event about statuses of names.
    pub fn apply_names(&mut self, event: &Event<DnsNameResolver>, now: Now) {
        events::apply_names(&mut self.state, event, now);
    }

    /// Applies an event about `DNSResolver` objects.
    pub fn apply_resolvers(&mut self, event: &Event<DnsResolver>, now: Now) {
        events::apply_resolvers(&mut self.state, &mut self.schedule, event, now);
    }

    /// Applies an event about objects of a kind that this program writes.
    pub fn apply_output<K: Written>(&mut self, event: &Event<K>, now: Now) {
        events::apply_output(&mut self.state, &mut self.schedule, event, now);
    }

    /// Takes the results of a job in.
    pub fn finished(&mut self, done: Done, now: Now) {
        finish::finished(&mut self.state, &mut self.schedule, done, now);
    }

    /// The jobs that can begin now, at most so many.
    pub fn next_jobs(&mut self, room: usize, now: Now) -> Vec<Job> {
        let Self { state, schedule } = self;
        if room == 0 || !state.may_plan() {
            return Vec::new();
        }
        let mut jobs = orphans::orphans(state, schedule, room, now);
        let left = room.saturating_sub(jobs.len());
        jobs.extend(begin::begin_jobs(state, schedule, left, now));
        let left = room.saturating_sub(jobs.len());
        conditions::status_jobs(state, schedule, left, &mut jobs, now);
        jobs
    }

    /// When the next job can begin without another event.
    pub fn next_timer(&self, now: Now) -> Option<Instant> {
        let state = &self.state;
        if !state.may_plan() {
            return None;
        }
        self.schedule.next(state, now)
    }

    /// The counts of the whole program.
    pub fn totals(&self) -> Totals {
        view::totals(&self.state)
    }

    /// The `DNSResolver` objects, at most 1,000, and how many others have faults. Those with faults come first, and namespaces take turns:
    /// a tenant with many cannot hide those of others.
    pub fn shown(&self) -> (Vec<ResolverShown>, usize) {
        view::shown(&self.state)
    }

    /// The explanation, without its text.
    pub fn explain(&self, asked: &Asked, now: Now) -> Explanation {
        view::explain(&self.state, asked, now)
    }

    /// The next page of names.
    pub fn list(&self, query: &ListingQuery) -> Listing {
        view::list(&self.state, query)
    }

    /// Compares all objects, without the text.
    pub fn compare(&self, now: Now) -> Comparison {
        view::compare(&self.state, now)
    }
}

#[cfg(test)]
mod tests;
