//! Answers that nobody wanted when they came, for the rules that are still to come.
//!
//! An EgressFirewall that is made now is to have at once the addresses that pods use already. Every successful answer that
//! nobody wants comes here, so keeping one takes neither a lock nor an allocation: the table has its full size from the
//! start, and its places are found by the hash of name and family.

mod place;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    fmt,
    hash::BuildHasher,
    net::IpAddr,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use foldhash::fast::RandomState;
use proto::{
    api::{DnsName, Family},
    dns::{self, Qname},
};
use runtime::clock::Timestamp;
use zerocopy::FromZeros;

use self::place::{Answer, Place, WORDS};
use crate::observation::Observation;

pub use self::place::MAX_ADDRESSES;

/// The places that one answer may have: where all are taken, the least recently seen makes room.
const WAYS: usize = 8;

/// The answers for names that nobody wants, least recently seen out first (of the eight that an answer competes with).
/// Clones share them.
#[derive(Clone, Default)]
pub struct Remembered {
    table: Option<Arc<Table>>,
}

struct Table {
    hasher: RandomState,
    /// The [`Tag`] of what each place holds; 0 if it is empty. [`WAYS`] of them are one line of the cache, and all that is read
    /// to see that a message was kept.
    tags: Box<[AtomicU64]>,
    /// [`WORDS`] for each place.
    words: Box<[AtomicU64]>,
}

/// What shows that a message was kept in this second. Two that are not the same have the same once in 2^28 times.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mark(u32);

/// Bits of a [`Mark`].
const MARK: u32 = 29;

/// The lower bits of a hash of name and family, and the [`Mark`] of the message that was kept last below them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Tag(u64);

impl Tag {
    fn new(hash: u64, mark: Mark) -> Self {
        Self(hash << MARK | u64::from(mark.0))
    }

    fn without_mark(self) -> Self {
        Self(self.0 >> MARK << MARK)
    }
}

/// Octets of a message before which answers to the same question differ: its identifier.
const IDENTIFIER: usize = 2;

impl Remembered {
    /// Has room for the A and AAAA answers of so many names; remembers nothing with 0. A name takes 528 bytes, of which the
    /// system gives what is used.
    pub fn new(names: usize) -> Self {
        let places = names.saturating_mul(2).next_multiple_of(WAYS);
        Self {
            table: (names > 0)
                .then(|| Table::new(places))
                .flatten()
                .map(Arc::new),
        }
    }

    /// Whether anything is remembered at all.
    pub fn is_enabled(&self) -> bool {
        self.table.is_some()
    }

    /// Names are asked for again and again, and what was kept in this second needs not be read again: nothing if the message was.
    #[inline]
    pub fn is_new(
        &self,
        name: Qname<'_>,
        family: Family,
        message: &[u8],
        at: Timestamp,
    ) -> Option<Mark> {
        let table = self.table.as_ref()?;
        let said = message.get(IDENTIFIER..).unwrap_or_default();
        let second = at.floor_second().as_millis();
        // Never 0, which marks nothing.
        let mark = Mark((table.hasher.hash_one((said, second)) >> (u64::BITS - MARK)) as u32 | 1);
        let hash = table.hash(name, family);
        let tag = Tag::new(hash, mark);
        let mut known = table.tags.get(table.places(hash)?)?.iter();
        let is_kept = known.any(|known| known.load(Relaxed) == tag.0);
        (!is_kept).then_some(mark)
    }

    /// Keeps an answer, and what is not expired of earlier ones for the name and the family: pods use that too. What does
    /// not fit into a place, such as a name of over 200 octets, is not kept, nor is an answer that comes while another
    /// thread writes to the same place.
    pub fn keep(
        &self,
        name: &dns::Name,
        family: Family,
        addresses: &[(IpAddr, u32)],
        at: Timestamp,
        client: Option<IpAddr>,
    ) {
        self.keep_marked(Mark::default(), name, family, addresses, at, client);
    }

    /// [`Remembered::keep`] of what a message that [is new](Self::is_new) says.
    pub fn keep_marked(
        &self,
        mark: Mark,
        name: &dns::Name,
        family: Family,
        addresses: &[(IpAddr, u32)],
        at: Timestamp,
        client: Option<IpAddr>,
    ) {
        let Some(table) = &self.table else {
            return;
        };
        let hash = table.hash(name.into(), family);
        if let Some((known, place)) = table.place(hash) {
            place.keep(
                known,
                Tag::new(hash, mark),
                name,
                &Answer {
                    family,
                    addresses,
                    at,
                    client,
                },
            );
        }
    }

    /// What one of the `wanted` names matches, with the times and clients of then, times in the future as now; expired
    /// addresses are left out. A TTL counts as at least `min_ttl`. The whole table is read once for all wildcards.
    pub fn recall<'a>(
        &self,
        wanted: impl IntoIterator<Item = &'a DnsName>,
        now: Timestamp,
        min_ttl: Duration,
    ) -> Vec<Observation> {
        let Some(table) = &self.table else {
            return Vec::new();
        };
        let observation = |place: Place<'_>, matches: &dyn Fn(&dns::Name) -> bool| {
            place.read(matches)?.observation(now, min_ttl)
        };
        let (mut found, mut wildcards) = (Vec::new(), Vec::new());
        for name in wanted {
            let wire = dns::Name::from(name);
            if name.is_wildcard() {
                wildcards.push(wire);
                continue;
            }
            let places = Family::ALL.map(|family| table.known(table.hash((&wire).into(), family)));
            let places = places.into_iter().flatten();
            found.extend(places.filter_map(|place| observation(place, &|name| *name == wire)));
        }
        let parents: HashSet<&[u8]> = wildcards.iter().filter_map(dns::Name::parent).collect();
        if !parents.is_empty() {
            let is_under =
                |name: &dns::Name| name.parent().is_some_and(|above| parents.contains(above));
            let places = table.taken();
            found.extend(places.filter_map(|place| observation(place, &is_under)));
        }
        found
    }

    /// How many answers are remembered.
    pub fn len(&self) -> usize {
        self.table.iter().map(|table| table.taken().count()).sum()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered")
            .field("answers", &self.len())
            .finish()
    }
}

impl Table {
    /// Nothing if there is no memory for it.
    fn new(places: usize) -> Option<Self> {
        Some(Self {
            hasher: RandomState::default(),
            tags: zeros(places)?,
            words: zeros(places.checked_mul(WORDS)?)?,
        })
    }

    /// The hash, whose lower bits are never 0.
    #[inline]
    fn hash(&self, name: Qname<'_>, family: Family) -> u64 {
        let family = u64::from(family == Family::V6) << 1;
        (name.hashes(&self.hasher).name ^ family) | 1
    }

    /// Where an answer with this hash is, or where it may go, and whether it is there, as far as the tag tells.
    fn place(&self, hash: u64) -> Option<(bool, Place<'_>)> {
        let places = self.places(hash)?;
        let tag = Tag::new(hash, Mark::default());
        for at in places.clone() {
            let known = Tag(self.tags.get(at)?.load(Relaxed));
            if known.without_mark() == tag {
                return Some((true, self.at(at)?));
            }
            if known.0 == 0 {
                return Some((false, self.at(at)?));
            }
        }
        let places = places.filter_map(|at| self.at(at));
        let least = places.min_by_key(|place| place.seen());
        least.map(|place| (false, place))
    }

    fn known(&self, hash: u64) -> Option<Place<'_>> {
        let (known, place) = self.place(hash)?;
        known.then_some(place)
    }

    /// The places for this hash.
    fn places(&self, hash: u64) -> Option<Range<usize>> {
        let sets = u64::try_from(self.tags.len() / WAYS).ok()?;
        // The upper bits, scaled to the number of sets.
        let set = (u128::from(hash) * u128::from(sets)) >> 64;
        let first = usize::try_from(set).ok()? * WAYS;
        Some(first..first + WAYS)
    }

    fn at(&self, place: usize) -> Option<Place<'_>> {
        Place::new(
            self.tags.get(place)?,
            self.words.get(place * WORDS..(place + 1) * WORDS)?,
        )
    }

    fn taken(&self) -> impl Iterator<Item = Place<'_>> {
        let places = self.tags.iter().enumerate();
        places
            .filter(|(_, tag)| tag.load(Relaxed) != 0)
            .filter_map(|(place, _)| self.at(place))
    }
}

/// Untouched until it is used.
fn zeros(words: usize) -> Option<Box<[AtomicU64]>> {
    <[AtomicU64]>::new_box_zeroed_with_elems(words).ok()
}
