//! A cache of answers for names that no rule wants yet.
//!
//! When a new EgressFirewall appears, its names need at once the addresses that pods use already.
//! The readers therefore keep every successful answer for a name without a rule. Names with the
//! same parent are in the same shard, so a wildcard needs one shard only.

mod cached_answer;
#[cfg(test)]
mod tests;

use std::{hash::BuildHasher, net::IpAddr, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use proto::{
    api::{DnsName, Family},
    dns::{self, Qname},
};
use runtime::clock::Timestamp;

use self::cached_answer::CachedAnswer;
use names::Observation;

pub use self::cached_answer::MAX_ADDRESSES;

/// The memory of the A and AAAA answers of a typical name with three addresses.
const NAME_BYTES: usize = 640;

/// Searching a shard of this size for a wildcard takes less than a millisecond.
const NAMES_PER_SHARD: usize = 2048;

/// The cache. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct AnswerCache(Option<Arc<Shards>>);

#[derive(Debug)]
struct Shards {
    hasher: RandomState,
    max_ttl: Duration,
    /// The capacity of one shard.
    bytes: usize,
    all: Box<[Mutex<Shard>]>,
}

#[derive(Debug)]
struct Shard {
    answers: LruCache<u64, CachedAnswer, RandomState>,
    bytes: usize,
}

/// An answer to cache.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The queried name.
    pub name: &'a dns::Name,
    pub family: Family,
    /// The addresses with their TTLs in seconds.
    pub addresses: &'a [(IpAddr, u32)],
    /// When the DNS server gave the answer.
    pub at: Timestamp,
    /// The client that sent the query, if it was a client.
    pub client: Option<IpAddr>,
}

/// The shard and the hash of a name and family.
#[derive(Clone, Copy, Debug)]
struct Key {
    shard: usize,
    hash: u64,
}

/// Marks a message as cached in this second.
#[derive(Clone, Copy, Debug)]
pub struct CacheMark {
    key: Key,
    said: u64,
}

impl AnswerCache {
    /// The default capacity in names.
    pub const NAMES: usize = 1 << 16;

    /// A cache for the A and AAAA answers of so many typical names; 0 turns it off. An address is
    /// kept for `max_ttl` at most, counted from the answer that has it.
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

    /// Whether the capacity is more than 0.
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// A mark for a message that was not cached in this second yet. Popular names repeat the same
    /// answer many times a second, and decoding each again is wasted.
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

    /// Adds an answer to the earlier ones of the name and family: pods may still use those too. If
    /// the shard is full, the least recently seen answer goes.
    pub fn keep(&self, answer: &Answer<'_>) {
        if let Some(shards) = &self.0 {
            shards.keep(shards.key(answer.name.into(), answer.family), None, answer);
        }
    }

    /// [`AnswerCache::keep`] for a message with a mark from [`AnswerCache::is_new`].
    pub fn keep_marked(&self, mark: CacheMark, answer: &Answer<'_>) {
        if let Some(shards) = &self.0 {
            shards.keep(mark.key, Some(mark.said), answer);
        }
    }

    /// The cached answers that match a wanted name, one observation for each answer time. Times in
    /// the future count as now. Expired addresses are left out. A TTL counts as at least `min_ttl`.
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

    /// The number of cached answers.
    #[cfg(test)]
    fn len(&self) -> usize {
        let shards = self.0.iter().flat_map(|shards| &shards.all);
        shards.map(|shard| shard.lock().answers.len()).sum()
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
