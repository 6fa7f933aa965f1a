//! Answers that nobody wanted when they came, for the rules that are still to come.
//!
//! An EgressFirewall that is made now is to have at once the addresses that pods use already.

use std::{
    fmt,
    hash::BuildHasher,
    net::IpAddr,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use foldhash::fast::FixedState;
use lru::LruCache;
use proto::{
    api::{DnsName, Family},
    dns,
};
use runtime::clock::Timestamp;

use crate::{observation::Observation, resolve::Addresses};

/// How many addresses of one name are remembered in a family, if its answers change.
const MAX_ADDRESSES: usize = 64;

/// So that readers do not wait for each other.
const SHARDS: usize = 16;

/// The answers for names that nobody wants, least recently seen out first. Clones share them.
#[derive(Clone)]
pub struct Remembered {
    shards: Option<Arc<[Shard]>>,
}

type Shard = Mutex<LruCache<dns::Name, Answers, FixedState>>;

/// What was answered in each family, in the order of [`Family::ALL`].
#[derive(Debug, Default)]
struct Answers([Option<Answer>; 2]);

#[derive(Debug)]
struct Answer {
    addresses: Addresses,
    at: Timestamp,
    client: Option<IpAddr>,
}

impl Remembered {
    /// Remembers so many names; none with 0.
    pub fn new(names: usize) -> Self {
        let shards = NonZeroUsize::new(names.div_ceil(SHARDS)).map(|capacity| {
            let shard = || Mutex::new(LruCache::with_hasher(capacity, FixedState::default()));
            (0..SHARDS).map(|_| shard()).collect()
        });
        Self { shards }
    }

    /// Whether anything is remembered at all.
    pub fn is_enabled(&self) -> bool {
        self.shards.is_some()
    }

    /// Keeps an answer, and what is not expired of earlier ones for the name and the family: pods use that too.
    pub fn keep(
        &self,
        name: &dns::Name,
        family: Family,
        addresses: Addresses,
        at: Timestamp,
        client: Option<IpAddr>,
    ) {
        let Some(shard) = self.shard(name) else {
            return;
        };
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = Answer {
            addresses,
            at,
            client,
        };
        match shard.get_mut(name) {
            Some(answers) => answers.set(family, answer),
            None => {
                let mut answers = Answers::default();
                answers.set(family, answer);
                shard.put(name.clone(), answers);
            }
        }
    }

    /// What `wanted` matches, with the times and clients of then; expired addresses are left out. A TTL counts as at least
    /// `min_ttl`.
    pub fn recall(&self, wanted: &DnsName, now: Timestamp, min_ttl: Duration) -> Vec<Observation> {
        let wire = dns::Name::from(wanted);
        let mut found = Vec::new();
        let mut take = |name: &DnsName, answers: &Answers| {
            found.extend(answers.observations(name, now, min_ttl))
        };
        match wire.parent() {
            Some(parent) if wanted.is_wildcard() => {
                for shard in self.shards.iter().flat_map(|shards| shards.iter()) {
                    let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                    for (name, answers) in shard
                        .iter()
                        .filter(|(name, _)| name.parent() == Some(parent))
                    {
                        if let Ok(name) = DnsName::from_wire(name) {
                            take(&name, answers);
                        }
                    }
                }
            }
            _ => {
                if let Some(shard) = self.shard(&wire) {
                    let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                    shard
                        .peek(&wire)
                        .into_iter()
                        .for_each(|answers| take(wanted, answers));
                }
            }
        }
        found
    }

    /// How many names are remembered.
    pub fn len(&self) -> usize {
        let len = |shard: &Shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.shards
            .iter()
            .flat_map(|shards| shards.iter())
            .map(len)
            .sum()
    }

    /// Whether no name is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, name: &dns::Name) -> Option<&Shard> {
        let shards = self.shards.as_ref()?;
        // Other bits than those that the map itself goes by.
        let hash = FixedState::with_seed(1).hash_one(name);
        shards.get(usize::try_from(hash).unwrap_or_default() % SHARDS)
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered")
            .field("names", &self.len())
            .finish()
    }
}

impl Answers {
    fn set(&mut self, family: Family, answer: Answer) {
        let [v4, v6] = &mut self.0;
        let known = if family == Family::V4 { v4 } else { v6 };
        let earlier = known.take();
        let answer = known.insert(answer);
        if let Some(earlier) = earlier {
            answer.join(&earlier);
        }
    }

    fn observations(
        &self,
        name: &DnsName,
        now: Timestamp,
        min_ttl: Duration,
    ) -> impl Iterator<Item = Observation> {
        Family::ALL
            .into_iter()
            .zip(&self.0)
            .filter_map(move |(family, answer)| {
                let answer = answer.as_ref()?;
                let alive =
                    |ttl: u32| answer.at + Duration::from_secs(ttl.into()).max(min_ttl) > now;
                let addresses: Addresses = answer
                    .addresses
                    .iter()
                    .filter(|(_, ttl)| alive(*ttl))
                    .copied()
                    .collect();
                (!addresses.is_empty()).then(|| Observation {
                    name: name.clone(),
                    family,
                    addresses,
                    at: answer.at,
                    answered_at: None,
                    client: answer.client,
                    by_leader: false,
                    truncated: false,
                })
            })
    }
}

impl Answer {
    /// Takes in what an earlier answer had, but for what is expired. The latest expiry wins.
    fn join(&mut self, earlier: &Self) {
        let passed = self.at.since(earlier.at).as_millis().div_ceil(1000);
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        for (ip, ttl) in &earlier.addresses {
            let left = ttl.saturating_sub(passed);
            let has_room = self.addresses.len() < MAX_ADDRESSES;
            match self.addresses.iter_mut().find(|(known, _)| known == ip) {
                Some((_, ttl)) => *ttl = left.max(*ttl),
                None if left > 0 && has_room => {
                    self.addresses.push((*ip, left));
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn keep(remembered: &Remembered, name: &str, ip: &str, ttl: u32) {
        keep_at(remembered, name, ip, ttl, 0);
    }

    fn keep_at(remembered: &Remembered, name: &str, ip: &str, ttl: u32, later: u64) {
        let name = dns::Name::from_text(name).unwrap();
        let addresses = [(ip.parse().unwrap(), ttl)].into_iter().collect();
        let at = NOW + Duration::from_secs(later);
        remembered.keep(&name, Family::V4, addresses, at, None);
    }

    fn recall(remembered: &Remembered, wanted: &str, later: u64) -> Vec<String> {
        let now = NOW + Duration::from_secs(later);
        let found = remembered.recall(
            &DnsName::parse(wanted).unwrap(),
            now,
            Duration::from_secs(5),
        );
        let of_name = |found: &Observation| {
            let addresses = found.addresses.iter();
            let ips: Vec<_> = addresses.map(|(ip, _)| ip.to_string()).collect();
            format!("{} {}", found.name, ips.join(" "))
        };
        let mut texts: Vec<_> = found.iter().map(of_name).collect();
        texts.sort();
        texts
    }

    #[test]
    fn a_rule_that_comes_later_finds_what_pods_use_already() {
        let remembered = Remembered::new(100);
        keep(&remembered, "www.example.com", "1.1.1.1", 30);
        keep(&remembered, "api.example.com", "2.2.2.2", 30);
        keep(&remembered, "a.b.example.com", "3.3.3.3", 30);
        keep(&remembered, "a_b.example.com", "4.4.4.4", 30);
        assert_eq!(
            recall(&remembered, "www.example.com", 0),
            ["www.example.com. 1.1.1.1"]
        );
        assert_eq!(
            recall(&remembered, "*.example.com", 0),
            ["api.example.com. 2.2.2.2", "www.example.com. 1.1.1.1"]
        );
        assert!(recall(&remembered, "other.example.com", 0).is_empty());
    }

    #[test]
    fn what_is_expired_is_forgotten() {
        let remembered = Remembered::new(100);
        keep(&remembered, "www.example.com", "1.1.1.1", 30);
        keep(&remembered, "api.example.com", "2.2.2.2", 0);
        assert_eq!(
            recall(&remembered, "*.example.com", 4).len(),
            2,
            "the floor of TTLs holds"
        );
        assert_eq!(
            recall(&remembered, "*.example.com", 29),
            ["www.example.com. 1.1.1.1"]
        );
        assert!(recall(&remembered, "*.example.com", 30).is_empty());
    }

    #[test]
    fn every_address_that_some_pod_still_uses_is_found() {
        let remembered = Remembered::new(100);
        let www = "www.example.com";
        keep_at(&remembered, www, "1.1.1.1", 300, 0);
        keep_at(&remembered, www, "2.2.2.2", 10, 5);
        keep_at(&remembered, www, "1.1.1.1", 3, 8);
        assert_eq!(
            recall(&remembered, www, 8),
            ["www.example.com. 1.1.1.1 2.2.2.2"]
        );
        keep_at(&remembered, www, "3.3.3.3", 30, 20);
        assert_eq!(
            recall(&remembered, www, 20),
            ["www.example.com. 3.3.3.3 1.1.1.1"]
        );
        assert_eq!(recall(&remembered, www, 299), ["www.example.com. 1.1.1.1"]);
        assert!(recall(&remembered, www, 300).is_empty());
        for i in 0..1000 {
            keep_at(
                &remembered,
                www,
                &format!("10.0.{}.{}", i / 250, i % 250),
                300,
                301,
            );
        }
        let found = recall(&remembered, www, 302);
        assert_eq!(found[0].split(' ').count(), 1 + MAX_ADDRESSES);
        assert!(found[0].contains(" 10.0.3.249 "), "the newest stays");
    }

    #[test]
    fn the_least_recently_seen_goes_first() {
        let remembered = Remembered::new(SHARDS * 4);
        for i in 0..10_000 {
            keep(&remembered, &format!("n{i}.example.com"), "1.1.1.1", 30);
            keep(&remembered, "steady.example.com", "2.2.2.2", 30);
        }
        assert!(remembered.len() <= SHARDS * 4);
        assert_eq!(recall(&remembered, "steady.example.com", 0).len(), 1);
        assert_eq!(recall(&remembered, "n9999.example.com", 0).len(), 1);
        assert!(recall(&remembered, "n0.example.com", 0).is_empty());
    }

    #[test]
    fn nothing_is_remembered_with_a_size_of_0() {
        let remembered = Remembered::new(0);
        keep(&remembered, "www.example.com", "1.1.1.1", 30);
        assert!(recall(&remembered, "www.example.com", 0).is_empty());
        assert!(remembered.is_empty() && !remembered.is_enabled());
    }
}
