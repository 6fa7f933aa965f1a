//! One `DNSResolver`, and what the program remembers of it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::{DnsResolver, DnsResolverStatus, GenerateType};
use runtime::store::ObjectKey;

use super::{Output, ownership::ByName};
use crate::names::Request;

/// How long the first write of an object waits for names without an answer.
pub(super) const FIRST_ANSWERS: Duration = Duration::from_secs(10);

/// Changes within this time of a write go together.
pub(super) const TOGETHER: Duration = Duration::from_secs(1);

/// The longest pause after failed writes. The first one is a second.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A status of more bytes is not kept in memory: it is not of this program, so the next write replaces it.
const MOST_STATUS: usize = 64 << 10;

/// Writes that fail.
#[derive(Debug)]
pub struct Failure {
    /// Of the last one.
    pub reason: String,
    /// When the next one may begin.
    pub retry_at: Instant,
    pauses: ExponentialBackoff,
}

impl Failure {
    /// Another write after the known ones failed.
    pub fn again(known: Option<Self>, reason: String, now: Instant) -> Self {
        let mut pauses = known.map_or_else(pauses, |it| it.pauses);
        Self {
            reason,
            retry_at: now + pauses.next().unwrap_or(LONGEST_PAUSE),
            pauses,
        }
    }
}

fn pauses() -> ExponentialBackoff {
    let pauses = ExponentialBuilder::new().with_min_delay(Duration::from_secs(1));
    let pauses = pauses.with_max_delay(LONGEST_PAUSE);
    pauses.without_max_times().build()
}

/// A `DNSResolver` and the state of its objects.
#[derive(Debug)]
pub struct Resolver {
    pub request: Request,
    pub generation: Option<i64>,
    pub version: Option<String>,
    pub status: DnsResolverStatus,
    /// When to plan again; `None` if only an event can be a reason.
    pub next_look: Option<Instant>,
    /// When the oldest change that is not written came.
    pub changed_at: Option<Instant>,
    /// Until when the first write of an object waits for answers.
    pub hold_until: Instant,
    /// The earliest time of the next write of objects.
    pub not_before: Option<Instant>,
    /// The earliest time of the next write of the status.
    pub status_not_before: Option<Instant>,
    pub status_failure: Option<Failure>,
    /// The addresses of the stored objects at the start, while a name is unanswered since then. It has the kinds that were
    /// read before a plan. Those of a kind come into an object of the same kind only.
    pub kept: BTreeMap<Output, ByName>,
    /// The fingerprints of the objects that this process wrote or found right.
    pub written: BTreeMap<Output, u64>,
    /// The kinds whose last write failed.
    pub failures: BTreeMap<Output, Failure>,
    /// How many addresses the last plan had.
    pub addresses: usize,
    /// The addresses that it left out, by name.
    pub left_out: BTreeMap<String, usize>,
}

impl Resolver {
    /// A new one.
    pub fn new(object: &DnsResolver, request: Request, now: Instant) -> Self {
        Self {
            request,
            generation: object.metadata.generation,
            version: object.metadata.resource_version.clone(),
            status: kept_status(object),
            next_look: Some(now),
            changed_at: Some(now),
            hold_until: now + FIRST_ANSWERS,
            not_before: None,
            status_not_before: None,
            status_failure: None,
            kept: BTreeMap::new(),
            written: BTreeMap::new(),
            failures: BTreeMap::new(),
            addresses: 0,
            left_out: BTreeMap::new(),
        }
    }

    /// Takes a new version of the object in.
    pub fn update(&mut self, object: &DnsResolver, request: Request, now: Instant) {
        self.generation = object.metadata.generation;
        self.version.clone_from(&object.metadata.resource_version);
        self.status = kept_status(object);
        if request == self.request {
            // A tenant may change the status all the time.
            let at = self.status_not_before.unwrap_or(now);
            return self.look_at(at.max(now));
        }
        self.request = request;
        self.hold_until = now + FIRST_ANSWERS;
        self.touch(now);
    }

    /// Something may have to be written.
    pub fn touch(&mut self, now: Instant) {
        self.next_look = Some(now);
        self.changed_at.get_or_insert(now);
    }

    /// Plans again at this time, if not earlier.
    pub fn look_at(&mut self, at: Instant) {
        self.next_look = Some(self.next_look.map_or(at, |other| other.min(at)));
    }

    /// Begins anew after a take-over: another process has written meanwhile.
    pub fn take_over(&mut self, now: Instant) {
        self.hold_until = now + FIRST_ANSWERS;
        (self.not_before, self.status_not_before) = (None, None);
        self.status_failure = None;
        self.kept.clear();
        self.written.clear();
        self.failures.clear();
        (self.next_look, self.changed_at) = (Some(now), Some(now));
    }

    /// Whether an object of this kind is asked for. An unknown value asks for an IPMap alone, and removes nothing.
    pub fn wants(&self, output: Output) -> bool {
        match output {
            Output::Map => true,
            Output::Policy => self.request.kind == Some(GenerateType::NetworkPolicy),
            Output::Set => self.request.kind == Some(GenerateType::CalicoNetworkSet),
        }
    }

    /// The kinds of objects that are asked for.
    pub fn wanted(&self) -> impl Iterator<Item = Output> {
        Output::ALL.into_iter().filter(|output| self.wants(*output))
    }

    /// The reference to it in Events.
    pub fn reference(&self, key: &ObjectKey) -> ObjectReference {
        let mut reference = key.reference::<DnsResolver>();
        reference.uid = Some(self.request.uid.clone());
        reference
    }
}

fn kept_status(object: &DnsResolver) -> DnsResolverStatus {
    let size = serde_json::to_vec(&object.status).map_or(0, |text| text.len());
    let status = object.status.as_ref().filter(|_| size <= MOST_STATUS);
    status.cloned().unwrap_or_default()
}
