//! The recent events of wanted names, for `explain`: refused, evicted and expired addresses, and
//! failed look-ups.
//!
//! The size is bounded: for each kind of event, a number of parent names, and a number of events
//! for each. Names with the same parent share these. So a client that makes up names under a
//! wildcard displaces no other events.

use std::{collections::VecDeque, net::IpAddr, num::NonZeroUsize, sync::Arc};

use foldhash::fast::RandomState;
use lru::LruCache;
use parking_lot::Mutex;
use proto::api::DnsName;
use runtime::clock::Timestamp;

use crate::{failure::Failure, observation::Provenance};

/// The most parents for each kind of event.
const PARENTS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The most names and addresses of a parent.
const OF_PARENT: usize = 16;

/// A kind of event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EventKind {
    /// An answer had an address that a guard refuses, for this reason.
    Refused(&'static str),
    /// An address was evicted because of a limit.
    Evicted,
    /// An address expired, and no answer had it again.
    Expired,
    /// A look-up failed.
    LookupFailed(Failure),
    /// The DNS servers said that there is no address.
    NoAddress,
}

impl EventKind {
    /// The number of kinds.
    const KINDS: usize = 4;

    fn kind(self) -> usize {
        match self {
            Self::Refused(_) => 0,
            Self::Evicted => 1,
            Self::Expired => 2,
            Self::LookupFailed(_) | Self::NoAddress => 3,
        }
    }
}

/// The latest event of its kind for a name and address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryEntry {
    pub name: DnsName,
    /// The address, if the event is about one.
    pub address: Option<IpAddr>,
    pub what: EventKind,
    /// Where the answer came from.
    pub source: Provenance,
    pub at: Timestamp,
}

/// The history. Clones share it.
#[derive(Clone, Debug)]
pub struct EventHistory(Arc<Mutex<[Parents; EventKind::KINDS]>>);

type Parents = LruCache<DnsName, VecDeque<HistoryEntry>, RandomState>;

impl Default for EventHistory {
    fn default() -> Self {
        let parents = || LruCache::with_hasher(PARENTS, RandomState::default());
        Self(Arc::new(Mutex::new(std::array::from_fn(|_| parents()))))
    }
}

impl EventHistory {
    /// Adds an entry, replacing an older one about the same.
    pub fn note(&self, note: HistoryEntry) {
        let mut kinds = self.0.lock();
        let Some(parents) = kinds.get_mut(note.what.kind()) else {
            return;
        };
        let notes = parents.get_or_insert_mut(parent(&note.name), VecDeque::new);
        let same = |it: &HistoryEntry| (&it.name, it.address) == (&note.name, note.address);
        if let Some(known) = notes.iter().position(same) {
            notes.remove(known);
        } else if notes.len() >= OF_PARENT {
            notes.pop_front();
        }
        notes.push_back(note);
    }

    /// Adds an event of a name, or of an address of it.
    pub fn record(
        &self,
        name: &DnsName,
        address: Option<IpAddr>,
        what: EventKind,
        source: Provenance,
        at: Timestamp,
    ) {
        self.note(HistoryEntry {
            name: name.clone(),
            address,
            what,
            source,
            at,
        });
    }

    /// The events of a name, or of the names under a wildcard; the latest first.
    pub fn of_name(&self, name: &DnsName) -> Vec<HistoryEntry> {
        let kinds = self.0.lock();
        let parent = parent(name);
        let notes = kinds.iter().filter_map(|parents| parents.peek(&parent));
        latest_first(notes.flatten().filter(|note| name.matches(&note.name)))
    }

    /// The events of an address; the latest first.
    pub fn of_address(&self, address: IpAddr) -> Vec<HistoryEntry> {
        let kinds = self.0.lock();
        let notes = kinds.iter().flat_map(LruCache::iter);
        let notes = notes.flat_map(|(_, notes)| notes);
        latest_first(notes.filter(|note| note.address == Some(address)))
    }
}

/// The wildcard above the name, or the name itself.
fn parent(name: &DnsName) -> DnsName {
    name.wildcard().unwrap_or_else(|| name.clone())
}

fn latest_first<'a>(notes: impl Iterator<Item = &'a HistoryEntry>) -> Vec<HistoryEntry> {
    let mut notes: Vec<_> = notes.cloned().collect();
    notes.sort_by_key(|note| std::cmp::Reverse(note.at));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str, last: u8, seconds: i64) -> HistoryEntry {
        HistoryEntry {
            name: DnsName::parse(name).unwrap(),
            address: Some([192, 0, 2, last].into()),
            what: EventKind::Expired,
            source: Provenance::LOOKUP,
            at: Timestamp::from_millis(seconds * 1000),
        }
    }

    fn of_name(recent: &EventHistory, name: &str) -> Vec<HistoryEntry> {
        recent.of_name(&DnsName::parse(name).unwrap())
    }

    #[test]
    fn a_note_is_found_by_its_name_by_the_wildcard_and_by_its_address() {
        let recent = EventHistory::default();
        recent.note(note("www.example.com", 1, 1));
        recent.note(note("mail.example.com", 2, 2));
        recent.note(note("www.example.org", 1, 3));
        assert_eq!(
            of_name(&recent, "www.example.com"),
            [note("www.example.com", 1, 1)]
        );
        assert_eq!(
            of_name(&recent, "*.example.com"),
            [
                note("mail.example.com", 2, 2),
                note("www.example.com", 1, 1)
            ]
        );
        assert_eq!(
            recent.of_address([192, 0, 2, 1].into()),
            [note("www.example.org", 1, 3), note("www.example.com", 1, 1)]
        );
        assert_eq!(of_name(&recent, "example.com"), []);
    }

    #[test]
    fn of_what_happens_again_the_last_time_is_known() {
        let recent = EventHistory::default();
        for second in 0..100 {
            recent.note(note("www.example.com", 1, second));
        }
        assert_eq!(
            of_name(&recent, "www.example.com"),
            [note("www.example.com", 1, 99)]
        );
    }

    #[test]
    fn names_made_up_under_one_wildcard_push_out_only_each_other() {
        let recent = EventHistory::default();
        recent.note(note("www.example.com", 1, 0));
        let refused = HistoryEntry {
            what: EventKind::Refused("loopback"),
            ..note("www.example.net", 1, 0)
        };
        recent.note(refused.clone());
        for i in 0..10_000 {
            recent.note(note(&format!("n{i}.example.net"), 1, i));
        }
        assert_eq!(of_name(&recent, "www.example.com").len(), 1);
        assert_eq!(of_name(&recent, "*.example.net").len(), OF_PARENT + 1);
        assert_eq!(of_name(&recent, "www.example.net"), [refused]);
    }

    #[test]
    fn however_much_happens_a_bounded_part_is_known() {
        let recent = EventHistory::default();
        for i in 0..2_000 {
            for last in 0..20 {
                recent.note(note(&format!("www.n{i}.example"), last, i));
            }
        }
        let all: usize = recent
            .0
            .lock()
            .iter()
            .flat_map(LruCache::iter)
            .map(|(_, it)| it.len())
            .sum();
        assert_eq!(all, PARENTS.get() * OF_PARENT);
    }
}
