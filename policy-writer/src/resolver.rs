//! One `DNSResolver`, and what the program remembers of it.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    output::Output,
    ownership::{Adopted, uid_of},
};

/// How long the first write waits for names without an answer, and a new name for its own.
pub const FIRST_ANSWERS: Duration = Duration::from_secs(10);

/// Changes within this time of a write go together.
pub const TOGETHER: Duration = Duration::from_secs(1);

/// The longest pause before a change of another account is put right again.
const LONGEST_BACKOFF: Duration = Duration::from_secs(8);

/// Changes of others that are further apart than this are put right at once.
const QUIET: Duration = Duration::from_secs(600);

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
    /// How many names stand beyond the limit of the list.
    pub too_many: usize,
    /// `None` for an unknown value.
    pub kind: Option<GenerateType>,
    /// The value as it is written.
    pub kind_text: String,
    pub labels: BTreeMap<String, String>,
    pub uid: String,
}

impl Request {
    /// Reads it from an object.
    pub fn of(resolver: &DnsResolver) -> Self {
        let mut seen = BTreeSet::new();
        let list = &resolver.spec.domain_list;
        let unique = list.iter().map(|text| (text, cut(text)));
        let mut unique = unique.filter(|(_, cut)| seen.insert(cut.clone()));
        let names = unique.by_ref().take(MAX_DOMAINS);
        let names = names.map(|(text, cut)| Listed {
            text: cut,
            name: DnsName::parse(text),
        });
        let names = names.collect();
        let too_many = unique.count();
        Self {
            names,
            too_many,
            kind: resolver.spec.generate_type(),
            kind_text: resolver.spec.generate_type.clone(),
            labels: resolver.metadata.labels.clone().unwrap_or_default(),
            uid: uid_of(resolver),
        }
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
}

/// The text itself if a name can be so long. No name has the `…` of a text that is cut.
fn cut(text: &str) -> String {
    if text.len() <= MAX_DOMAIN_LENGTH {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_DOMAIN_LENGTH - '…'.len_utf8());
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// The addresses of the stored objects at the start, for names that no status has answered since.
#[derive(Clone, Debug, Default)]
pub struct Floor {
    /// Of the policy and of the set. They come into an object of the same kind only.
    pub addresses: BTreeMap<Output, BTreeSet<IpAddr>>,
    /// Of the IPMap, by the text of the name. They come into no other object.
    pub by_name: BTreeMap<String, BTreeSet<IpAddr>>,
}

/// Changes of an object by other accounts.
#[derive(Clone, Copy, Debug)]
pub struct Undone {
    times: u32,
    at: Instant,
    not_before: Instant,
}

/// A `DNSResolver` and the state of its objects.
#[derive(Debug)]
pub struct Resolver {
    pub request: Request,
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
    /// The earliest time of the next write of its status, after one failed.
    pub status_not_before: Option<Instant>,
    /// A job is under way.
    pub in_flight: bool,
    /// Kinds of which an event came while a job was under way, and whether the last one was a deletion. A result of the job
    /// may be older.
    pub meanwhile: BTreeMap<Output, bool>,
    /// Taken once after the start and after a take-over.
    pub floor: Option<Floor>,
    /// Taken from the annotations once, like the floor.
    pub adopted: Option<BTreeMap<Output, Adopted>>,
    /// The addresses of the last plan.
    pub present: BTreeSet<IpAddr>,
    /// When each of them came into the plan.
    pub since: BTreeMap<IpAddr, runtime::clock::Timestamp>,
    /// The left-out addresses by name.
    pub left_out: BTreeMap<String, usize>,
    /// The fingerprints of the objects that this process wrote or found right, by kind.
    pub written: BTreeMap<Output, u64>,
    /// Why the last write of a kind failed.
    pub failures: BTreeMap<Output, String>,
    /// Failed writes in a row.
    pub failed: u32,
    /// How others changed the objects of a kind.
    pub undone: BTreeMap<Output, Undone>,
    /// When to put a change of others right that has to wait.
    pub put_right_at: Option<Instant>,
    /// The bytes of the write that waits for the budget.
    pub waiting_bytes: Option<usize>,
}

impl Resolver {
    /// A new one.
    pub fn new(resolver: &DnsResolver, now: Instant) -> Self {
        Self {
            request: Request::of(resolver),
            generation: resolver.meta().generation,
            version: resolver.meta().resource_version.clone(),
            status: resolver.status.clone().unwrap_or_default(),
            hold_until: now + FIRST_ANSWERS,
            new_names: BTreeSet::new(),
            is_urgent: false,
            is_dirty: true,
            dirty_since: Some(now),
            not_before: None,
            status_not_before: None,
            in_flight: false,
            meanwhile: BTreeMap::new(),
            floor: None,
            adopted: None,
            present: BTreeSet::new(),
            since: BTreeMap::new(),
            left_out: BTreeMap::new(),
            written: BTreeMap::new(),
            failures: BTreeMap::new(),
            failed: 0,
            undone: BTreeMap::new(),
            put_right_at: None,
            waiting_bytes: None,
        }
    }

    /// Takes a new version of the object in. Returns the request before, if it changed.
    pub fn update(&mut self, resolver: &DnsResolver, now: Instant) -> Option<Request> {
        self.generation = resolver.meta().generation;
        self.version.clone_from(&resolver.meta().resource_version);
        let status = resolver.status.clone().unwrap_or_default();
        if status != self.status {
            self.status = status;
            self.touch(now);
        }
        let request = Request::of(resolver);
        if request == self.request {
            return None;
        }
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
        (self.floor, self.adopted) = (None, None);
        self.written.clear();
        self.failures.clear();
        self.not_before = None;
        self.touch(now);
    }

    /// Another account changed an object of ours. The first change is put right at once, later ones after growing
    /// pauses. A change of the addresses does not wait.
    pub fn undone(&mut self, output: Output, now: Instant) {
        let is_recent = |known: &&Undone| now.saturating_duration_since(known.at) < QUIET;
        let known = self.undone.get(&output).filter(is_recent);
        let times = known.map_or(0, |known| known.times);
        let pause = match times.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => Duration::from_secs(1 << doublings.min(3)).min(LONGEST_BACKOFF),
        };
        let undone = Undone {
            times: times.saturating_add(1),
            at: now,
            not_before: now + pause,
        };
        self.undone.insert(output, undone);
        self.is_urgent = true;
        self.touch(now);
    }

    /// When the object of a kind may be put right.
    pub fn put_right_after(&self, output: Output) -> Option<Instant> {
        self.undone.get(&output).map(|undone| undone.not_before)
    }

    /// Delays the next write.
    pub fn delay(&mut self, until: Instant) {
        self.not_before = Some(self.not_before.map_or(until, |at| at.max(until)));
    }

    /// The key of an object of this `DNSResolver`, which has its name.
    pub fn is_controller_of(&self, uid: Option<&str>) -> bool {
        uid == Some(self.request.uid.as_str())
    }
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
