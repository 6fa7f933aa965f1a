//! The plan of all writes, without IO: events of the store and results of writes go in, jobs come out.
//!
//! - `events` and `results` take in what the store says. [`Stored`] has the stored objects, [`Resolver`] what is remembered
//!   of a `DNSResolver`.
//! - `content` chooses the addresses, `egress` makes the rules of a policy, and `writes` compares the objects as they
//!   should be with the stored ones.
//! - `conditions` has the statuses.

mod conditions;
mod content;
pub mod egress;
mod events;
mod job;
mod object;
mod ownership;
mod resolver;
mod results;
mod status;
mod stored;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use proto::api::DnsName;
use runtime::{
    address_filter::Filter,
    clock::Timestamp,
    kube_events::{Report, Severity},
    store::ObjectKey,
    token_bucket::{TokenBucket, TokenRate},
    written_bytes::WrittenBytes,
};

use self::egress::DnsPeers;
pub use self::{
    content::{Content, MAX_ADDRESSES},
    job::{Done, Job, Operation, OperationResult},
    object::{Body, Object, Observed, Output, Written},
    ownership::ByName,
    resolver::Resolver,
    status::{Statement, kinds, some_names},
    stored::{Stored, StoredKind},
};
use crate::names::Names;

/// The rate of the writes of all objects together: 1 MiB/s, saved for 10 s.
const RATE: TokenRate = TokenRate {
    bytes_per_second: 1_048_576.0,
    saved_for: Duration::from_secs(10),
};

/// The most `DNSResolver` objects that are planned before other work goes on.
const LOOKS: usize = 64;

/// How the objects are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The guards.
    pub filter: Filter,
    /// `--networkset-label-prefix`.
    pub label_prefix: Option<String>,
    /// Where pods send DNS queries, if policies allow it.
    pub dns: Option<DnsPeers>,
}

/// The moment of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For delays.
    pub instant: Instant,
    /// For times in objects.
    pub time: Timestamp,
}

/// Whether the objects of a kind can be read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Whether they were listed since the start. Objects of another kind are not written.
    pub is_read: bool,
    /// Why they cannot be read now.
    pub failure: Option<String>,
}

/// A job under way. Its results may be older than the events that came meanwhile.
#[derive(Debug, Default)]
struct InFlight {
    /// The kinds of which an event came.
    touched: BTreeSet<Output>,
    /// The version of the `DNSResolver` whose status it replaces.
    status_version: Option<String>,
}

/// Decides what is written, and when.
#[derive(Debug)]
pub struct Planner {
    pub(crate) options: Options,
    pub(crate) names: Names,
    pub(crate) resolvers: BTreeMap<ObjectKey, Resolver>,
    /// The `DNSResolver` objects that exist but do not decode.
    pub(crate) unreadable: BTreeSet<ObjectKey>,
    /// The `DNSResolver` objects by the names that they list.
    pub(crate) users: HashMap<DnsName, BTreeSet<ObjectKey>>,
    pub(crate) stored: Stored,
    pub(crate) is_leading: bool,
    /// How often a change of another account was put right.
    pub(crate) undone: u64,
    readings: BTreeMap<&'static str, Reading>,
    /// Whether the cluster does not serve NetworkSets.
    lacks_sets: bool,
    in_flight: HashMap<ObjectKey, InFlight>,
    bucket: TokenBucket,
    /// By namespace. Those that wrote little go first.
    written: WrittenBytes<String>,
    reports: Vec<Report>,
}

impl Planner {
    /// Knows nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            names: Names::new(options.filter.clone()),
            options,
            resolvers: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            users: HashMap::new(),
            stored: Stored::default(),
            is_leading: false,
            undone: 0,
            readings: BTreeMap::new(),
            lacks_sets: false,
            in_flight: HashMap::new(),
            bucket: TokenBucket::default(),
            written: WrittenBytes::default(),
            reports: Vec::new(),
        }
    }

    /// Records whether this process leads. A new leader begins as after a start.
    pub fn set_leading(&mut self, is_leading: bool, now: Now) {
        if is_leading && !self.is_leading {
            for resolver in self.resolvers.values_mut() {
                resolver.take_over(now.instant);
            }
        }
        self.is_leading = is_leading;
    }

    /// NetworkSets are read anew, in another group, or are not served.
    pub fn reset_sets(&mut self, are_served: bool, now: Now) {
        self.lacks_sets = !are_served;
        self.stored.sets = StoredKind::default();
        self.readings.remove(Output::Set.name());
        for resolver in self.resolvers.values_mut() {
            resolver.kept.remove(&Output::Set);
            resolver.written.remove(&Output::Set);
            resolver.touch(now.instant);
        }
    }

    /// The reports for authors since the last call.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// The jobs that can begin now, at most so many. Namespaces that wrote little in the last 10 s go first.
    pub fn next_jobs(&mut self, room: usize, now: Now) -> Vec<Job> {
        if !self.may_plan() {
            return Vec::new();
        }
        self.written.forget(now.time);
        let mut jobs = Vec::new();
        let due = self.resolvers.iter().filter_map(|(key, resolver)| {
            let since = resolver.next_look.filter(|at| *at <= now.instant)?;
            let is_idle = !self.in_flight.contains_key(key);
            is_idle.then(|| (self.written.of(&key.namespace), since, key.clone()))
        });
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        for (.., key) in due.into_iter().take(LOOKS) {
            if jobs.len() >= room || self.bucket_is_empty_until(now).is_some() {
                break;
            }
            jobs.extend(self.look(&key, now));
        }
        jobs
    }

    /// When the next job can begin without another event.
    pub fn next_timer(&self, now: Now) -> Option<Instant> {
        if !self.may_plan() {
            return None;
        }
        let idle = self.resolvers.iter();
        let idle = idle.filter(|(key, _)| !self.in_flight.contains_key(*key));
        let next = idle.filter_map(|(_, resolver)| resolver.next_look).min();
        let filled = self.bucket_is_empty_until(now);
        next.map(|next| filled.map_or(next, |filled| filled.max(next)))
    }

    /// Whether the sources of all objects were listed.
    fn may_plan(&self) -> bool {
        let is_read = |kind| self.readings.get(kind).is_some_and(|it| it.is_read);
        self.is_leading && is_read(DNS_NAME_RESOLVER) && is_read(DNS_RESOLVER)
    }

    /// When a write may begin; `None` is now.
    pub(crate) fn bucket_is_empty_until(&self, now: Now) -> Option<Instant> {
        let mut bucket = self.bucket;
        let at = bucket.wait_for(0.0, RATE, now.time)?;
        Some(now.instant + at.since(now.time))
    }

    /// Whether the objects of a kind were listed since the start.
    pub(crate) fn is_read(&self, output: Output) -> bool {
        let reading = self.readings.get(output.name());
        reading.is_some_and(|it| it.is_read)
    }

    /// Whether the objects of a kind cannot be read for a reason that lasts. A kind whose first list is under way can.
    fn cannot_be_read(&self, output: Output) -> bool {
        let reading = self.readings.get(output.name());
        let fails = reading.is_some_and(|it| !it.is_read && it.failure.is_some());
        fails || (output == Output::Set && self.lacks_sets)
    }

    /// Whether a `DNSResolver` asks for a NetworkSet.
    pub fn wants_sets(&self) -> bool {
        let mut resolvers = self.resolvers.values();
        resolvers.any(|it| it.wants(Output::Set))
    }

    /// The kinds that are not read, each in a sentence. Objects of other kinds are written all the same.
    pub fn unread(&self) -> Vec<String> {
        let mut kinds = vec![DNS_NAME_RESOLVER, DNS_RESOLVER];
        kinds.extend([Output::Policy, Output::Map].map(Output::name));
        if self.wants_sets() && !self.lacks_sets {
            kinds.push(Output::Set.name());
        }
        let unread = kinds.into_iter().filter_map(|kind| {
            let reading = self.readings.get(kind).cloned().unwrap_or_default();
            match reading.failure {
                Some(reason) => Some(format!("{kind} objects cannot be read: {reason}")),
                None if reading.is_read => None,
                None => Some(format!("{kind} objects have not been read yet")),
            }
        });
        unread.collect()
    }

    /// The stored object of a kind, if the `DNSResolver` is its controller.
    pub(crate) fn own(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        output: Output,
    ) -> Option<&Observed> {
        let stored = self.stored.get(output, key)?;
        let is_own = stored.controller.as_ref() == Some(&resolver.request.uid);
        is_own.then_some(stored)
    }

    /// The stored object of a kind, if this program has written it for the `DNSResolver`.
    pub(crate) fn marked(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        output: Output,
    ) -> Option<&Observed> {
        let own = self.own(key, resolver, output);
        own.filter(|own| own.is_marked)
    }

    /// Whether the `DNSResolver` is not the controller of the object of this kind.
    pub(crate) fn is_taken(&self, key: &ObjectKey, resolver: &Resolver, output: Output) -> bool {
        let is_there = self.stored.get(output, key).is_some();
        is_there && self.own(key, resolver, output).is_none()
    }

    /// The kinds of objects of a `DNSResolver`. Of an unknown type a policy or set stays. The first one decides what pods
    /// reach, since the IPMap comes last.
    pub(crate) fn kinds_of(&self, key: &ObjectKey, resolver: &Resolver) -> Vec<Output> {
        let stays = |output: Output| {
            resolver.request.kind.is_none() && self.marked(key, resolver, output).is_some()
        };
        let all = Output::ALL.into_iter();
        all.filter(|output| resolver.wants(*output) || stays(*output))
            .collect()
    }

    /// Whether each name of the list was answered since the start.
    pub(crate) fn is_answered(&self, resolver: &Resolver) -> bool {
        let mut names = resolver.request.names.iter();
        names.all(|listed| self.names.is_answered(listed))
    }

    /// Until when the first write of an object waits for answers; `None` if it does not.
    pub(crate) fn held_until(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        now: Now,
    ) -> Option<Instant> {
        let mut wanted = resolver.wanted().filter(|output| self.is_read(*output));
        let exists = |output: Output| self.own(key, resolver, output).is_some();
        let is_held = resolver.hold_until > now.instant && !self.is_answered(resolver);
        (is_held && !wanted.all(exists)).then_some(resolver.hold_until)
    }

    /// Tells the authors of a `DNSResolver` something.
    fn report(&mut self, key: &ObjectKey, reason: &'static str, note: String) {
        if let Some(resolver) = self.resolvers.get(key) {
            self.reports.push(Report {
                about: resolver.reference(key),
                severity: Severity::Warning,
                reason,
                note,
            });
        }
    }
}

/// The kinds that are read alone.
const DNS_NAME_RESOLVER: &str = "DNSNameResolver";
const DNS_RESOLVER: &str = "DNSResolver";

#[cfg(test)]
pub(crate) mod tests;
