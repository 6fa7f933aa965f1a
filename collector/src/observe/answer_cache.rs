//! A cache of answers for names that no rule has, for rules that come later.
//!
//! A new EgressFirewall needs at once the addresses that pods use already. Readers keep every successful answer for a name that no
//! rule has. Names with the same parent are in the same shard, so that a wildcard needs one shard only.

mod cached_answer;
#[cfg(test)]
mod tests;

use std::{fmt, hash::BuildHasher, net::IpAddr, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use proto::{
    api::{DnsName, Family},
    dns::{self, Qname},
};
use runtime::clock::Timestamp;

use self::cached_answer::CachedAnswer;
use crate::observation::Observation;

pub use self::cached_answer::MAX_ADDRESSES;

/// Bytes for the A and AAAA answers of a name of usual length with three addresses.
const NAME_BYTES: usize = 640;

/// A shard is searched for a wildcard within a millisecond.
const NAMES_PER_SHARD: usize = 2048;

/// The answers for names that no rule has. Clones share them.
#[derive(Clone, Default)]
pub struct AnswerCache(Option<Arc<Shards>>);

struct Shards {
    hasher: RandomState,
    max_ttl: Duration,
    /// How many a shard has room for.
    bytes: usize,
    all: Box<[Mutex<Shard>]>,
}

struct Shard {
    answers: LruCache<u64, CachedAnswer, RandomState>,
    bytes: usize,
}

/// An answer to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// What was asked for.
    pub name: &'a dns::Name,
    /// Of which family the addresses are.
    pub family: Family,
    /// The addresses with their TTLs in seconds.
    pub addresses: &'a [(IpAddr, u32)],
    /// When it was given.
    pub at: Timestamp,
    /// The client that asked, if a client did.
    pub client: Option<IpAddr>,
}

/// Where the answers of a name and family are.
#[derive(Clone, Copy, Debug)]
struct Key {
    shard: usize,
    hash: u64,
}

/// Shows that a message was kept in this second.
#[derive(Clone, Copy, Debug)]
pub struct CacheMark {
    key: Key,
    said: u64,
}

impl AnswerCache {
    /// For so many names that no rule has there is room by default.
    pub const NAMES: usize = 1 << 16;

    /// Has room for the A and AAAA answers of so many names of usual size; remembers nothing with 0. An address counts for
    /// `max_ttl` at most, from the answer that it was in.
    pub fn new(names: usize, max_ttl: Duration) -> Self {
        let shards = names.div_ceil(NAMES_PER_SHARD);
        let shard = || Shard {
            answers: LruCache::unbounded_with_hasher(RandomState::default()),
            bytes: 0,
        };
        Self((names > 0).then(|| {
            Arc::new(Shards {
                hasher: RandomState::default(),
                max_ttl,
                bytes: names.saturating_mul(NAME_BYTES) / shards,
                all: (0..shards).map(|_| Mutex::new(shard())).collect(),
            })
        }))
    }

    /// Whether anything is remembered at all.
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Names are asked for again and again, and what was kept in this second needs not be read again: nothing if the message was.
    #[inline]
    pub fn is_new(
        &self,
        name: Qname<'_>,
        family: Family,
        message: &[u8],
        at: Timestamp,
    ) -> Option<CacheMark> {
        let shards = self.0.as_deref()?;
        let second = at.floor_second().as_millis();
        let said = shards
            .hasher
            .hash_one((dns::without_identifier(message), second));
        let key = shards.key(name, family);
        let shard = shards.lock(key.shard)?;
        let known = shard.answers.peek(&key.hash);
        let is_kept = known.is_some_and(|known| known.said == Some(said));
        (!is_kept).then_some(CacheMark { key, said })
    }

    /// Keeps an answer, besides the earlier ones for the name and the family: pods use those, too. Where there is no room, the
    /// least recently seen goes.
    pub fn keep(&self, answer: &Answer<'_>) {
        if let Some(shards) = &self.0 {
            shards.keep(shards.key(answer.name.into(), answer.family), None, answer);
        }
    }

    /// [`AnswerCache::keep`] of what a message that [is new](Self::is_new) says.
    pub fn keep_marked(&self, mark: CacheMark, answer: &Answer<'_>) {
        if let Some(shards) = &self.0 {
            shards.keep(mark.key, Some(mark.said), answer);
        }
    }

    /// What a wanted name matches, one observation for each time of an answer, times in the future as now. Expired addresses
    /// are left out. A TTL counts as at least `min_ttl`.
    pub fn recall(&self, wanted: &DnsName, now: Timestamp, min_ttl: Duration) -> Vec<Observation> {
        let Some(shards) = &self.0 else {
            return Vec::new();
        };
        let wire = dns::Name::from(wanted);
        let mut found = Vec::new();
        if !wanted.is_wildcard() {
            for family in Family::ALL {
                let key = shards.key((&wire).into(), family);
                let shard = shards.lock(key.shard);
                let answer = shard.as_deref().and_then(|it| it.answers.peek(&key.hash));
                if let Some(answer) = answer.filter(|answer| answer.name() == wire.wire()) {
                    found.extend(answer.observations(now, min_ttl));
                }
            }
        } else if let Some(parent) = wire.parent()
            && let Some(shard) = shards.lock(shards.key((&wire).into(), Family::V4).shard)
        {
            let answers = shard.answers.iter().map(|(_, answer)| answer);
            for answer in answers.filter(|answer| answer.parent() == Some(parent)) {
                found.extend(answer.observations(now, min_ttl));
            }
        }
        found
    }

    /// How many answers are remembered.
    pub fn len(&self) -> usize {
        let shards = self.0.iter().flat_map(|shards| &shards.all);
        shards.map(|shard| shard.lock().answers.len()).sum()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for AnswerCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered")
            .field("answers", &self.len())
            .finish()
    }
}

impl Shards {
    #[inline]
    fn key(&self, name: Qname<'_>, family: Family) -> Key {
        let hashes = name.hashes(&self.hasher);
        // The upper bits, scaled to the number of shards.
        let shard = (u128::from(hashes.parent) * self.all.len() as u128) >> 64;
        Key {
            shard: usize::try_from(shard).unwrap_or(0),
            hash: hashes.name ^ u64::from(family == Family::V6),
        }
    }

    fn lock(&self, shard: usize) -> Option<MutexGuard<'_, Shard>> {
        self.all.get(shard).map(Mutex::lock)
    }

    fn keep(&self, key: Key, said: Option<u64>, answer: &Answer<'_>) {
        let Some(mut shard) = self.lock(key.shard) else {
            return;
        };
        let Shard { answers, bytes } = &mut *shard;
        let known = answers.pop(&key.hash);
        *bytes -= known.as_ref().map_or(0, CachedAnswer::bytes);
        let same = known.filter(|known| known.name() == answer.name.wire());
        let mut kept = same.unwrap_or_else(|| CachedAnswer::new(answer));
        kept.take(answer, self.max_ttl);
        kept.said = said;
        *bytes += kept.bytes();
        answers.put(key.hash, kept);
        while *bytes > self.bytes
            && let Some((_, least)) = answers.pop_lru()
        {
            *bytes -= least.bytes();
        }
    }
}
