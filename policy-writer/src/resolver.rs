//! One `DNSResolver`, and what the program remembers of it.

mod request;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use kube::Resource;
use proto::api::{DnsName, DnsResolver, DnsResolverStatus};
use runtime::{clock::Timestamp, store::ObjectKey};

pub use self::request::{Listed, Request};
use crate::{
    backoff::{Backoff, Pauses},
    budget::ResolverBudget,
    output::Output,
    ownership::ByName,
};

/// How long the first write waits for names without an answer, and a new name for its own.
pub const FIRST_ANSWERS: Duration = Duration::from_secs(10);

/// Changes within this time of a write go together.
pub const TOGETHER: Duration = Duration::from_secs(1);

/// The first change of another account is put right at once, later ones after these pauses.
const PUT_RIGHT: Pauses = Pauses {
    early_attempts: 1,
    early: Duration::ZERO,
    first: Duration::from_secs(1),
    longest: Duration::from_secs(8),
};

/// The pauses after failed writes of a kind.
const FAILED: Pauses = Pauses {
    early_attempts: 0,
    early: Duration::ZERO,
    first: Duration::from_secs(1),
    longest: Duration::from_secs(30),
};

/// The pauses after writes of the status, failed or not: a tenant may change it all the time.
const STATUSES: Pauses = Pauses {
    early_attempts: 4,
    early: Duration::from_secs(1),
    first: Duration::from_secs(2),
    longest: Duration::from_secs(60),
};

/// The most conditions of a status that is kept in memory, and the most bytes of a text in it. The program writes less.
const MOST_CONDITIONS: usize = 16;
const MOST_TEXT: usize = 16 << 10;

/// The addresses of the stored objects at the start, for names that no status has answered since. It has the kinds
/// that were read before a plan. Those of a kind come into an object of the same kind only.
pub type Floor = BTreeMap<Output, ByName>;

/// A failed write.
#[derive(Clone, Debug)]
pub struct Failure {
    pub reason: String,
    pub pause: Backoff,
}

/// The event of a watch about an object while a job was under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meanwhile {
    Changed,
    Removed,
    /// Everything was listed. The list may be older than the known versions, as after a restore of etcd.
    Listed,
}

/// When the objects of a `DNSResolver` are written.
#[derive(Debug)]
pub struct Due {
    /// Until when unanswered names are waited for.
    pub hold_until: Instant,
    /// Names that came into the list since the last write.
    pub new_names: BTreeSet<DnsName>,
    /// A known name changed, so the write does not wait for unanswered ones.
    pub is_urgent: bool,
    /// Whether something may have to be written.
    pub is_dirty: bool,
    /// When the oldest change that waits came.
    pub dirty_since: Option<Instant>,
    /// The earliest time of the next write.
    pub not_before: Option<Instant>,
    /// When to plan again, for writes that have to wait.
    pub later_at: Option<Instant>,
}

impl Due {
    fn new(now: Instant) -> Self {
        Self {
            hold_until: now + FIRST_ANSWERS,
            new_names: BTreeSet::new(),
            is_urgent: false,
            is_dirty: true,
            dirty_since: Some(now),
            not_before: None,
            later_at: None,
        }
    }

    /// Something may have to be written.
    pub fn touch(&mut self, now: Instant) {
        self.is_dirty = true;
        self.dirty_since.get_or_insert(now);
    }

    /// Plans again at this time.
    pub fn plan_at(&mut self, at: Instant) {
        self.later_at = Some(self.later_at.map_or(at, |other| other.min(at)));
    }

    /// A plan was made. It plans again at `later_at`.
    pub fn planned(&mut self, later_at: Option<Instant>) {
        self.later_at = later_at;
        (self.is_dirty, self.is_urgent) = (false, false);
        self.dirty_since = None;
        self.new_names.clear();
    }
}

/// The job of a `DNSResolver`.
#[derive(Debug, Default)]
pub struct Flight {
    pub is_under_way: bool,
    /// It writes objects, and not the status alone.
    pub is_writing_objects: bool,
    /// Kinds of which an event came while the job was under way. A result of the job may be older.
    pub meanwhile: BTreeMap<Output, Meanwhile>,
    /// An event of the DNSResolver itself came while the job was under way.
    pub is_seen_meanwhile: bool,
}

impl Flight {
    /// A job begins that may write objects.
    pub fn begin(&mut self) {
        *self = Self {
            is_under_way: true,
            is_writing_objects: true,
            ..Self::default()
        };
    }

    /// The job ends.
    pub fn end(&mut self) {
        (self.is_under_way, self.is_writing_objects) = (false, false);
    }

    /// Remembers an event for the result of the job, if there is one.
    pub fn saw(&mut self, output: Output, event: Meanwhile) {
        if !self.is_under_way {
            return;
        }
        let known = self.meanwhile.entry(output).or_insert(event);
        if *known != Meanwhile::Listed {
            *known = event;
        }
    }
}

/// The last plan of the objects of a `DNSResolver`.
#[derive(Debug, Default)]
pub struct Planned {
    /// Whether there was a plan since the start or the take-over.
    pub is_known: bool,
    /// Taken once of each kind after the start and after a take-over.
    pub floor: Floor,
    /// The addresses.
    pub present: BTreeSet<IpAddr>,
    /// When each of them came into the plan.
    pub since: BTreeMap<IpAddr, Timestamp>,
    /// The left-out addresses by name.
    pub left_out: BTreeMap<String, usize>,
}

impl Planned {
    /// Forgets what the stored objects had at the start.
    fn begin_anew(&mut self) {
        self.is_known = false;
        self.floor.clear();
    }
}

/// A `DNSResolver` and the state of its objects.
#[derive(Debug)]
pub struct Resolver {
    pub request: Request,
    digest: u64,
    pub generation: Option<i64>,
    pub version: Option<String>,
    pub status: DnsResolverStatus,
    /// The writes of its status.
    status_pause: Option<Backoff>,
    /// The names without an answer since the start.
    pub unanswered: BTreeSet<DnsName>,
    pub due: Due,
    pub flight: Flight,
    pub budget: ResolverBudget,
    pub planned: Planned,
    /// The fingerprints of the objects that this process wrote or found right, by kind.
    pub written: BTreeMap<Output, u64>,
    /// The kinds whose last write failed. Each has its own pauses.
    pub failures: BTreeMap<Output, Failure>,
    /// The changes of each kind by other accounts.
    undone: BTreeMap<Output, Backoff>,
}

impl Resolver {
    /// A new one.
    pub fn new(resolver: &DnsResolver, now: Instant) -> Self {
        Self {
            request: Request::of(resolver),
            digest: request::digest(resolver),
            generation: resolver.meta().generation,
            version: resolver.meta().resource_version.clone(),
            status: kept_status(resolver),
            status_pause: None,
            unanswered: BTreeSet::new(),
            due: Due::new(now),
            flight: Flight::default(),
            budget: ResolverBudget::default(),
            planned: Planned::default(),
            written: BTreeMap::new(),
            failures: BTreeMap::new(),
            undone: BTreeMap::new(),
        }
    }

    /// Takes a new version of the object in. Returns the request before, if it changed. A change of the status alone is no
    /// reason for a plan.
    pub fn update(&mut self, resolver: &DnsResolver, now: Instant) -> Option<Request> {
        self.flight.is_seen_meanwhile = self.flight.is_under_way;
        self.generation = resolver.meta().generation;
        self.version.clone_from(&resolver.meta().resource_version);
        self.status = kept_status(resolver);
        let digest = request::digest(resolver);
        if digest == self.digest {
            return None;
        }
        self.digest = digest;
        let request = Request::of(resolver);
        let before: BTreeSet<_> = self.request.valid().cloned().collect();
        let after: BTreeSet<_> = request.valid().cloned().collect();
        if after.difference(&before).next().is_some() {
            self.due.hold_until = now + FIRST_ANSWERS;
            let new = after.difference(&before).cloned();
            self.due.new_names.extend(new);
        }
        // A name that leaves takes its addresses out at once.
        let is_narrower = before.difference(&after).next().is_some();
        let same_names = before == after;
        self.due.is_urgent |= is_narrower || same_names;
        self.due.touch(now);
        Some(std::mem::replace(&mut self.request, request))
    }

    /// Begins anew after a take-over: another process has written meanwhile.
    pub fn take_over(&mut self, now: Instant) {
        self.due.hold_until = now + FIRST_ANSWERS;
        self.planned.begin_anew();
        self.written.clear();
        self.failures.clear();
        (self.due.not_before, self.due.later_at, self.status_pause) = (None, None, None);
        self.due.touch(now);
    }

    /// The stored objects of a kind are others than before.
    pub fn forget(&mut self, output: Output, now: Instant) {
        self.planned.floor.remove(&output);
        self.written.remove(&output);
        self.due.touch(now);
    }

    /// Another account changed an object of ours. The first change is put right at once, later ones after growing
    /// pauses. A change of the addresses does not wait.
    pub fn undone(&mut self, output: Output, now: Instant) {
        if let Some(at) = self.put_right_after(output).filter(|at| *at > now) {
            // Further changes in a pause do not make it longer.
            return self.due.plan_at(at);
        }
        let undone = Backoff::again(self.undone.get(&output).copied(), PUT_RIGHT, now);
        self.undone.insert(output, undone);
        if undone.not_before() > now {
            self.due.plan_at(undone.not_before());
        } else {
            self.due.is_urgent = true;
            self.due.touch(now);
        }
    }

    /// When a change of others may be put right.
    pub fn put_right_after(&self, output: Output) -> Option<Instant> {
        self.undone.get(&output).map(Backoff::not_before)
    }

    /// Records a failed write. `asked` is the pause that the store asked for.
    pub fn failed(&mut self, output: Output, reason: String, now: Instant) {
        let known = self.failures.get(&output).map(|it| it.pause);
        let pause = Backoff::again(known, FAILED, now);
        self.failures.insert(output, Failure { reason, pause });
    }

    /// When a write that failed may be tried again.
    pub fn retry_after(&self, output: Output) -> Option<Instant> {
        self.failures.get(&output).map(|it| it.pause.not_before())
    }

    /// A job begins that writes the status alone.
    pub fn begin_status(&mut self, now: Instant) {
        self.flight.begin();
        self.flight.is_writing_objects = false;
        self.status_pause = Some(Backoff::again(self.status_pause, STATUSES, now));
    }

    /// The earliest time of the next write of the status.
    pub fn status_not_before(&self) -> Option<Instant> {
        self.status_pause.as_ref().map(Backoff::not_before)
    }

    /// Takes a stored status in. An event that came while it was written may be newer. If that event is older, another one
    /// follows.
    pub fn wrote_status(&mut self, stored: DnsResolver) {
        let number = |version: &Option<String>| version.as_ref()?.parse::<u64>().ok();
        let version = stored.metadata.resource_version;
        let is_newer = number(&version)
            .zip(number(&self.version))
            .is_some_and(|(stored, known)| stored > known);
        if !self.flight.is_seen_meanwhile || is_newer {
            self.version = version;
            self.status = stored.status.unwrap_or_default();
        }
    }

    /// Whether this `DNSResolver` is the controller of an object with this one.
    pub fn is_controller_of(&self, uid: Option<&str>) -> bool {
        uid == Some(self.request.uid.as_str())
    }
}

/// The status of an object, or an empty one in place of one that is too large to be of this program. Then the next write
/// replaces it.
fn kept_status(resolver: &DnsResolver) -> DnsResolverStatus {
    let status = resolver.status.as_ref();
    let is_small = |status: &&DnsResolverStatus| {
        let texts = status.conditions.iter();
        let mut texts = texts.flat_map(|it| [&it.type_, &it.status, &it.reason, &it.message]);
        status.conditions.len() <= MOST_CONDITIONS && texts.all(|text| text.len() <= MOST_TEXT)
    };
    status.filter(is_small).cloned().unwrap_or_default()
}

/// The reference to a `DNSResolver` in Events.
pub fn reference(key: &ObjectKey, uid: &str) -> k8s_openapi::api::core::v1::ObjectReference {
    let mut reference = key.reference::<DnsResolver>();
    reference.uid = Some(uid.to_owned());
    reference
}

#[cfg(test)]
mod tests {
    use proto::api::DnsResolverSpec;

    use super::*;

    #[test]
    fn a_list_during_a_job_counts_whatever_follows_it() {
        let mut flight = Flight::default();
        flight.saw(Output::Map, Meanwhile::Listed);
        assert!(flight.meanwhile.is_empty());
        flight.begin();
        for event in [Meanwhile::Changed, Meanwhile::Listed, Meanwhile::Removed] {
            flight.saw(Output::Map, event);
        }
        assert_eq!(flight.meanwhile[&Output::Map], Meanwhile::Listed);
    }

    #[test]
    fn a_status_that_a_tenant_makes_very_large_is_not_kept() {
        let mut object = DnsResolver::new("a", DnsResolverSpec::default());
        let message = |bytes: usize| {
            let condition = serde_json::json!({
                "type": "Resolved", "status": "True", "reason": "Answered", "message": "m".repeat(bytes),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            serde_json::from_value(serde_json::json!({"ready": true, "conditions": [condition]}))
        };
        object.status = Some(message(100).unwrap());
        assert_eq!(kept_status(&object), message(100).unwrap());
        object.status = Some(message(1 << 20).unwrap());
        assert_eq!(kept_status(&object), DnsResolverStatus::default());
    }
}
