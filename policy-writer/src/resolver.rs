//! One `DNSResolver`, and what the program remembers of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    time::{Duration, Instant},
};

use kube::Resource;
use proto::api::{
    DnsName, DnsResolver, DnsResolverStatus, GenerateType, MAX_DOMAIN_LENGTH, MAX_DOMAINS,
    NameError,
};
use runtime::store::ObjectKey;

use crate::{
    backoff::{Backoff, Pauses},
    output::Output,
    ownership::{Adopted, ByName, uid_of},
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

/// The most labels of a `DNSResolver` that its objects get.
const MOST_LABELS: usize = 64;

/// The most conditions of a status that is kept in memory, and the most bytes of a text in it. The program writes less.
const MOST_CONDITIONS: usize = 16;
const MOST_TEXT: usize = 16 << 10;

/// A name of a `domainList`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// As it is written. Of a text that is too long for a name, the beginning and `…`.
    pub text: String,
    /// The name, or why no DNSNameResolver can have it.
    pub name: Result<DnsName, NameError>,
}

/// The request of a `DNSResolver`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// In the order of the list, each text once.
    pub names: Vec<Listed>,
    /// How many texts stand beyond the limit of the list.
    pub too_many: usize,
    /// `None` for an unknown value.
    pub kind: Option<GenerateType>,
    /// The value as it is written.
    pub kind_text: String,
    /// At most 64.
    pub labels: BTreeMap<String, String>,
    pub uid: String,
}

impl Request {
    /// Reads it from an object.
    pub fn of(resolver: &DnsResolver) -> Self {
        let mut list = resolver.spec.domain_list.iter();
        let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
        while names.len() < MAX_DOMAINS
            && let Some(text) = list.next()
        {
            let cut = cut(text);
            if seen.insert(cut.clone()) {
                let name = DnsName::parse(text);
                names.push(Listed { text: cut, name });
            }
        }
        // The list may be very long, so the rest is counted alone.
        let too_many = list.count();
        let labels = resolver.metadata.labels.iter().flatten();
        let labels = labels.take(MOST_LABELS);
        Self {
            names,
            too_many,
            kind: resolver.spec.generate_type(),
            kind_text: resolver.spec.generate_type.clone(),
            labels: labels
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            uid: uid_of(resolver),
        }
    }

    /// Equal for objects with the same request. A status changes much more often.
    fn digest(resolver: &DnsResolver) -> u64 {
        let mut hasher = DefaultHasher::new();
        resolver.spec.domain_list.hash(&mut hasher);
        resolver.spec.generate_type.hash(&mut hasher);
        resolver.metadata.labels.hash(&mut hasher);
        uid_of(resolver).hash(&mut hasher);
        hasher.finish()
    }

    /// The names that an object can have.
    pub fn valid(&self) -> impl Iterator<Item = &DnsName> {
        self.names
            .iter()
            .filter_map(|listed| listed.name.as_ref().ok())
    }

    /// Whether an object of this kind is asked for. An unknown value asks for an IPMap alone, and removes nothing.
    pub fn wants(&self, output: Output) -> bool {
        match output {
            Output::Map => true,
            Output::Policy => self.kind == Some(GenerateType::NetworkPolicy),
            Output::Set => self.kind == Some(GenerateType::CalicoNetworkSet),
        }
    }

    /// The kinds of objects that are asked for.
    pub fn outputs(&self) -> impl Iterator<Item = Output> {
        Output::ALL.into_iter().filter(|output| self.wants(*output))
    }
}

/// The text itself if a name can be so long. No name has the `…` of a text that is cut.
fn cut(text: &str) -> String {
    if text.len() <= MAX_DOMAIN_LENGTH {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_DOMAIN_LENGTH - '…'.len_utf8());
    format!("{}…", text.get(..end).unwrap_or_default())
}

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

/// A `DNSResolver` and the state of its objects.
#[derive(Debug)]
pub struct Resolver {
    pub request: Request,
    digest: u64,
    pub generation: Option<i64>,
    pub version: Option<String>,
    pub status: DnsResolverStatus,
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
    /// The writes of its status.
    pub status_pause: Option<Backoff>,
    /// A job is under way.
    pub in_flight: bool,
    /// It writes objects, and not the status alone.
    pub is_writing_objects: bool,
    /// Kinds of which an event came while a job was under way. A result of the job may be older.
    pub meanwhile: BTreeMap<Output, Meanwhile>,
    /// An event of the DNSResolver itself came while a job was under way.
    pub is_seen_meanwhile: bool,
    /// Whether there was a plan since the start or the take-over.
    pub is_planned: bool,
    /// Taken once of each kind after the start and after a take-over.
    pub floor: Floor,
    /// Taken from the annotations once of each kind, like the floor.
    pub adopted: BTreeMap<Output, Option<Adopted>>,
    /// The names without an answer since the start.
    pub unanswered: BTreeSet<DnsName>,
    /// The addresses of the last plan.
    pub present: BTreeSet<IpAddr>,
    /// When each of them came into the plan.
    pub since: BTreeMap<IpAddr, runtime::clock::Timestamp>,
    /// The left-out addresses by name.
    pub left_out: BTreeMap<String, usize>,
    /// The fingerprints of the objects that this process wrote or found right, by kind.
    pub written: BTreeMap<Output, u64>,
    /// The kinds whose last write failed. Each has its own pauses.
    pub failures: BTreeMap<Output, Failure>,
    /// The changes of each kind by other accounts.
    pub undone: BTreeMap<Output, Backoff>,
    /// When to plan again, for writes that have to wait.
    pub later_at: Option<Instant>,
    /// The bytes of the write that waits for the budget.
    pub waiting_bytes: Option<usize>,
}

impl Resolver {
    /// A new one.
    pub fn new(resolver: &DnsResolver, now: Instant) -> Self {
        Self {
            request: Request::of(resolver),
            digest: Request::digest(resolver),
            generation: resolver.meta().generation,
            version: resolver.meta().resource_version.clone(),
            status: kept_status(resolver),
            hold_until: now + FIRST_ANSWERS,
            new_names: BTreeSet::new(),
            is_urgent: false,
            is_dirty: true,
            dirty_since: Some(now),
            not_before: None,
            status_pause: None,
            in_flight: false,
            is_writing_objects: false,
            meanwhile: BTreeMap::new(),
            is_seen_meanwhile: false,
            is_planned: false,
            floor: Floor::new(),
            adopted: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            present: BTreeSet::new(),
            since: BTreeMap::new(),
            left_out: BTreeMap::new(),
            written: BTreeMap::new(),
            failures: BTreeMap::new(),
            undone: BTreeMap::new(),
            later_at: None,
            waiting_bytes: None,
        }
    }

    /// Takes a new version of the object in. Returns the request before, if it changed. A change of the status alone is no
    /// reason for a plan.
    pub fn update(&mut self, resolver: &DnsResolver, now: Instant) -> Option<Request> {
        self.is_seen_meanwhile = self.in_flight;
        self.generation = resolver.meta().generation;
        self.version.clone_from(&resolver.meta().resource_version);
        self.status = kept_status(resolver);
        let digest = Request::digest(resolver);
        if digest == self.digest {
            return None;
        }
        self.digest = digest;
        let request = Request::of(resolver);
        let before: BTreeSet<_> = self.request.valid().cloned().collect();
        let after: BTreeSet<_> = request.valid().cloned().collect();
        if after.difference(&before).next().is_some() {
            self.hold_until = now + FIRST_ANSWERS;
            self.new_names.extend(after.difference(&before).cloned());
        }
        // A name that leaves takes its addresses out at once.
        let is_narrower = before.difference(&after).next().is_some();
        let same_names = before == after;
        self.is_urgent |= is_narrower || same_names;
        self.touch(now);
        self.waiting_bytes = None;
        Some(std::mem::replace(&mut self.request, request))
    }

    /// Something may have to be written.
    pub fn touch(&mut self, now: Instant) {
        self.is_dirty = true;
        self.dirty_since.get_or_insert(now);
    }

    /// Begins anew after a take-over: another process has written meanwhile.
    pub fn take_over(&mut self, now: Instant) {
        self.hold_until = now + FIRST_ANSWERS;
        self.is_planned = false;
        self.floor.clear();
        self.adopted.clear();
        self.written.clear();
        self.failures.clear();
        (self.not_before, self.later_at, self.status_pause) = (None, None, None);
        self.touch(now);
    }

    /// Another account changed an object of ours. The first change is put right at once, later ones after growing
    /// pauses. A change of the addresses does not wait.
    pub fn undone(&mut self, output: Output, now: Instant) {
        if let Some(at) = self.put_right_after(output).filter(|at| *at > now) {
            // Further changes in a pause do not make it longer.
            return self.plan_at(at);
        }
        let undone = Backoff::again(self.undone.get(&output).copied(), PUT_RIGHT, now);
        self.undone.insert(output, undone);
        if undone.not_before() > now {
            self.plan_at(undone.not_before());
        } else {
            self.is_urgent = true;
            self.touch(now);
        }
    }

    /// When a change of others may be put right.
    pub fn put_right_after(&self, output: Output) -> Option<Instant> {
        self.undone.get(&output).map(Backoff::not_before)
    }

    /// Records a failed write. `asked` is the pause that the store asked for.
    pub fn failed(&mut self, output: Output, reason: String, asked: Duration, now: Instant) {
        let known = self.failures.get(&output).map(|it| it.pause);
        let mut pause = Backoff::again(known, FAILED, now);
        pause.extend(now + asked);
        self.failures.insert(output, Failure { reason, pause });
    }

    /// When a write that failed may be tried again.
    pub fn retry_after(&self, output: Output) -> Option<Instant> {
        self.failures.get(&output).map(|it| it.pause.not_before())
    }

    /// A job begins that writes the status alone.
    pub fn begin_status(&mut self, now: Instant) {
        self.begin_job();
        self.is_writing_objects = false;
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
        if !self.is_seen_meanwhile || is_newer {
            self.version = version;
            self.status = stored.status.unwrap_or_default();
        }
    }

    /// A job begins that may write objects.
    pub fn begin_job(&mut self) {
        (self.in_flight, self.is_writing_objects) = (true, true);
        self.is_seen_meanwhile = false;
        self.meanwhile.clear();
    }

    /// A job ends.
    pub fn end_job(&mut self) {
        (self.in_flight, self.is_writing_objects) = (false, false);
    }

    /// Plans again at this time.
    pub fn plan_at(&mut self, at: Instant) {
        self.later_at = Some(self.later_at.map_or(at, |other| other.min(at)));
    }

    /// The key of an object of this `DNSResolver`, which has its name.
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
    fn what_a_tenant_makes_very_large_is_not_kept() {
        let mut object = DnsResolver::new("a", DnsResolverSpec::default());
        let labels = (0..1_000).map(|i| (format!("label-{i}"), String::new()));
        object.metadata.labels = Some(labels.collect());
        assert_eq!(Request::of(&object).labels.len(), MOST_LABELS);
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

    #[test]
    fn a_text_that_is_too_long_is_cut_and_no_name() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}.", "a".repeat(61));
        let more = (0..MAX_DOMAINS).map(|i| format!("n{i}.example.com"));
        let list = [longest.clone(), format!("{longest}a"), "ü".repeat(1 << 20)].into_iter();
        let spec = DnsResolverSpec {
            domain_list: list.chain(more).collect(),
            ..DnsResolverSpec::default()
        };
        let request = Request::of(&DnsResolver::new("a", spec));
        assert_eq!((request.names.len(), request.too_many), (MAX_DOMAINS, 3));
        assert_eq!(request.names[0].text, longest);
        assert_eq!(request.names[0].name, DnsName::parse(&longest));
        for listed in &request.names[1..3] {
            assert!(listed.name.is_err());
            assert!(listed.text.len() <= MAX_DOMAIN_LENGTH && listed.text.ends_with('…'));
        }
    }
}
