//! The cached addresses of one name and family, each with the time of its answer.

use std::{cmp::Reverse, collections::BTreeMap, net::IpAddr, time::Duration};

use proto::{
    api::{DnsName, Family},
    dns,
};
use runtime::clock::Timestamp;

use crate::matching::answer_cache::Answer;
use names::{Observation, Provenance};

/// The most addresses cached for one name and family if its answers change.
pub const MAX_ADDRESSES: usize = 24;

/// The overhead of an entry without name and addresses, in three allocations. It is in a list and
/// in a hash table that may be half empty.
const BYTES: usize = 240;

#[derive(Debug)]
pub(super) struct CachedAnswer {
    /// In wire format and lower case.
    name: Box<[u8]>,
    family: Family,
    /// Those of the latest answer first.
    addresses: Vec<Address>,
    client: Option<IpAddr>,
    /// The hash of the message that was cached last, with its second.
    pub(super) said: Option<u64>,
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
    pub(super) fn new(answer: &Answer<'_>) -> Self {
        Self {
            name: answer.name.wire().into(),
            family: answer.family,
            addresses: Vec::new(),
            client: None,
            said: None,
        }
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The parent domain.
    pub(super) fn parent(&self) -> Option<&[u8]> {
        let label = usize::from(*self.name.first()?);
        self.name.get(1 + label..)
    }

    pub(super) fn bytes(&self) -> usize {
        BYTES + self.name.len() + self.addresses.capacity() * size_of::<Address>()
    }

    /// Merges an answer: the latest expiry of an address wins, and the addresses of the latest
    /// answers stay.
    pub(super) fn take(&mut self, answer: &Answer<'_>, max_ttl: Duration) {
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
    pub(super) fn observations(
        &self,
        now: Timestamp,
        min_ttl: Duration,
    ) -> impl Iterator<Item = Observation> {
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
        let of = move |(at, addresses)| {
            Some(Observation {
                name: name.clone()?,
                family: self.family,
                addresses,
                at,
                answered_at: None,
                given: at,
                client: self.client,
                truncated: false,
                source: Provenance::REMEMBERED,
            })
        };
        answers.into_iter().filter_map(of)
    }
}
