//! A cache of answers for names that no rule wants yet.
//!
//! When a new EgressFirewall appears, its names need at once the addresses that pods use already.
//! The readers therefore keep every successful answer for a name without a rule. Names with the
//! same parent are in the same shard, so a wildcard needs one shard only.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    hash::BuildHasher,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use foldhash::fast::RandomState;
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use proto::{
    api::{DnsName, Family},
    dns::{self, Qname},
    facts::UnallowedName,
};
use runtime::clock::Timestamp;

use names::{Observation, Provenance};

/// The most addresses cached for one name and family if its answers change.
pub const MAX_ADDRESSES: usize = 24;

/// The overhead of an entry without name and addresses, in three allocations. It is in a list and
/// in a hash table that may be half empty.
const OVERHEAD: usize = 240;

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
    message_hash: u64,
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
        let message_hash = shards
            .hasher
            .hash_one((dns::without_identifier(message), second));
        let key = shards.key(name, family);
        let shard = shards.lock(key.shard)?;
        let known = shard.answers.peek(&key.hash);
        let is_cached = known.is_some_and(|known| known.message_hash == Some(message_hash));
        (!is_cached).then_some(CacheMark { key, message_hash })
    }

    /// Adds an answer to the earlier ones of the name and family: pods may still use those too. If
    /// the shard is full, the least recently seen answer goes. `mark` is that of its message, if it
    /// came as one.
    pub fn insert(&self, answer: &Answer<'_>, mark: Option<CacheMark>) {
        if let Some(shards) = &self.0 {
            shards.insert(answer, mark);
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
                let answer = shard
                    .as_deref()
                    .and_then(|shard| shard.answers.peek(&key.hash));
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

    /// The names that clients asked for in most seconds. `is_counted` is asked with the name and its addresses.
    pub fn most_asked(
        &self,
        most: usize,
        is_counted: impl Fn(&dns::Name, &[IpAddr]) -> bool,
    ) -> Vec<UnallowedName> {
        // The answers of both families may be found.
        let most_answers = 2 * most;
        let mut found: Vec<UnallowedName> = Vec::new();
        for shard in self.0.iter().flat_map(|shards| &shards.all) {
            for (_, answer) in shard.lock().answers.iter() {
                let seconds_asked = answer.seconds_asked;
                let place = found.partition_point(|it| it.seconds_asked >= seconds_asked);
                let name = dns::Name::from_wire(answer.name()).filter(|_| place < most_answers);
                let addresses: Vec<IpAddr> = answer.addresses.iter().map(|it| it.ip).collect();
                if let Some(name) = name.filter(|name| is_counted(name, &addresses)) {
                    let unallowed = UnallowedName {
                        name: name.to_string(),
                        seconds_asked,
                        last_client: answer.client,
                    };
                    found.insert(place, unallowed);
                    found.truncate(most_answers);
                }
            }
        }
        let mut names = HashSet::new();
        found.retain(|it| names.insert(it.name.clone()));
        found.truncate(most);
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

    fn insert(&self, answer: &Answer<'_>, mark: Option<CacheMark>) {
        let key = mark.map_or_else(
            || self.key(answer.name.into(), answer.family),
            |mark| mark.key,
        );
        let Some(mut shard) = self.lock(key.shard) else {
            return;
        };
        let Shard { answers, bytes } = &mut *shard;
        let known = answers.pop(&key.hash);
        *bytes -= known.as_ref().map_or(0, CachedAnswer::bytes);
        let same = known.filter(|known| known.name() == answer.name.wire());
        let mut merged = same.unwrap_or_else(|| CachedAnswer::new(answer));
        merged.merge(answer, self.max_ttl);
        merged.message_hash = mark.map(|mark| mark.message_hash);
        merged.seconds_asked = merged.seconds_asked.saturating_add(mark.is_some().into());
        *bytes += merged.bytes();
        answers.put(key.hash, merged);
        while *bytes > self.bytes
            && let Some((_, least)) = answers.pop_lru()
        {
            *bytes -= least.bytes();
        }
    }
}

/// The cached addresses of one name and family, each with the time of its answer.
#[derive(Debug)]
struct CachedAnswer {
    /// In wire format and lower case.
    name: Box<[u8]>,
    family: Family,
    /// Those of the latest answer first.
    addresses: Vec<Address>,
    client: Option<IpAddr>,
    /// The hash of the message that was cached last, with its second.
    message_hash: Option<u64>,
    /// The messages of different seconds.
    seconds_asked: u32,
}

#[derive(Clone, Copy, Debug)]
struct Address {
    ip: IpAddr,
    ttl: u32,
    at: Timestamp,
}

impl Address {
    fn expiry(&self, min_ttl: Duration) -> Timestamp {
        self.at + Duration::from_secs(self.ttl.into()).max(min_ttl)
    }
}

impl CachedAnswer {
    fn new(answer: &Answer<'_>) -> Self {
        Self {
            name: answer.name.wire().into(),
            family: answer.family,
            addresses: Vec::new(),
            client: None,
            message_hash: None,
            seconds_asked: 0,
        }
    }

    fn name(&self) -> &[u8] {
        &self.name
    }

    /// The parent domain.
    fn parent(&self) -> Option<&[u8]> {
        let label = usize::from(*self.name.first()?);
        self.name.get(1 + label..)
    }

    fn bytes(&self) -> usize {
        OVERHEAD + self.name.len() + self.addresses.capacity() * size_of::<Address>()
    }

    /// Merges an answer: the latest expiry of an address wins, and the addresses of the latest
    /// answers stay.
    fn merge(&mut self, answer: &Answer<'_>, max_ttl: Duration) {
        self.client = answer.client;
        let most = u32::try_from(max_ttl.as_secs()).unwrap_or(u32::MAX);
        // Reversed, so that the first address of the answer ends up first.
        for (ip, ttl) in answer.addresses.iter().take(MAX_ADDRESSES).rev() {
            let new = Address {
                ip: *ip,
                ttl: (*ttl).min(most),
                at: answer.at,
            };
            match self.addresses.iter_mut().find(|known| known.ip == *ip) {
                Some(known) if known.expiry(Duration::ZERO) > new.expiry(Duration::ZERO) => {}
                Some(known) => *known = new,
                None => self.addresses.insert(0, new),
            }
        }
        self.addresses.sort_by_key(|address| Reverse(address.at));
        self.addresses.truncate(MAX_ADDRESSES);
    }

    /// The addresses that are not expired, grouped by the times of their answers.
    fn observations(&self, now: Timestamp, min_ttl: Duration) -> impl Iterator<Item = Observation> {
        let mut answers: BTreeMap<Timestamp, names::Addresses> = BTreeMap::new();
        for address in &self.addresses {
            // The clock may have been set back since.
            let at = address.at.min(now);
            if (Address { at, ..*address }).expiry(min_ttl) > now {
                let of_answer = answers.entry(at).or_default();
                of_answer.push((address.ip, address.ttl));
            }
        }
        let wire = dns::Name::from_wire(&self.name);
        let name = wire.and_then(|wire| DnsName::from_wire(&wire).ok());
        let observation = move |(at, addresses)| {
            Some(Observation {
                name: name.clone()?,
                family: self.family,
                addresses,
                at,
                server_time: None,
                answered_at: at,
                client: self.client,
                truncated: false,
                source: Provenance::REMEMBERED,
            })
        };
        answers.into_iter().filter_map(observation)
    }
}

#[cfg(test)]
mod tests;
