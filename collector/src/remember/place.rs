//! One answer in words that any thread may read and write at any time.
//!
//! The first word is a sequence lock: odd while somebody writes. A reader copies the words and takes them for good only if
//! it was the same even number before and after.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
    time::Duration,
};

use proto::{
    api::{DnsName, Family},
    dns,
};
use runtime::clock::Timestamp;
use smallvec::SmallVec;

use super::Tag;
use crate::observation::{Observation, Source};

/// 256 bytes.
pub(super) const WORDS: usize = 32;

/// How many addresses of one name are remembered in a family, if its answers change. Fewer where the name is long, and a
/// third as many for AAAA, since a place is only so large.
pub const MAX_ADDRESSES: usize = 24;

/// How often a reader that finds a writer at work looks again.
const TRIES: usize = 100;

/// Octets of the longest name that is kept.
const MAX_NAME: usize = 200;

/// Who asked, if a client did.
const CLIENT: u64 = 1 << 32;

type Addresses = SmallVec<[(IpAddr, u32); MAX_ADDRESSES]>;

/// A place of the table.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    tag: &'a AtomicU64,
    version: &'a AtomicU64,
    /// When it was last seen, in milliseconds since the Unix epoch.
    seen: &'a AtomicU64,
    /// From the lowest bit: the name's octets (16 bits), the number of addresses (16 bits), [`CLIENT`], whether it is AAAA.
    header: &'a AtomicU64,
    client: &'a [AtomicU64; 2],
    /// The name, then the addresses: one word for IPv4 (address, TTL), three for IPv6.
    rest: &'a [AtomicU64],
}

/// An answer to be kept.
pub(super) struct Answer<'a> {
    pub(super) family: Family,
    pub(super) addresses: &'a [(IpAddr, u32)],
    pub(super) at: Timestamp,
    pub(super) client: Option<IpAddr>,
}

/// An answer that was kept.
pub(super) struct Kept {
    name: dns::Name,
    family: Family,
    addresses: Addresses,
    at: Timestamp,
    client: Option<IpAddr>,
}

impl<'a> Place<'a> {
    /// The place with this tag and these words, if they are [`WORDS`].
    pub(super) fn new(tag: &'a AtomicU64, words: &'a [AtomicU64]) -> Option<Self> {
        let [version, seen, header, client @ .., _, _, _] = words.first_chunk::<8>()?;
        Some(Self {
            tag,
            version,
            seen,
            header,
            client,
            rest: words.get(5..WORDS)?,
        })
    }

    /// When its answer was last seen.
    pub(super) fn seen(self) -> u64 {
        self.seen.load(Relaxed)
    }

    /// Writes the answer, joined with what is there if that is `known` to be of the same name and family.
    pub(super) fn keep(self, known: bool, tag: Tag, name: &dns::Name, answer: &Answer<'_>) {
        let wire = name.wire();
        let Some(rest) = self.rest.get(wire.len().div_ceil(8)..) else {
            return;
        };
        if wire.len() > MAX_NAME {
            return;
        }
        let version = self.version.load(Relaxed);
        let locked = version | 1;
        if locked == version
            || self
                .version
                .compare_exchange(version, locked, Acquire, Relaxed)
                .is_err()
        {
            return;
        }
        fence(Release);
        let mut addresses = Addresses::new();
        addresses.extend(answer.addresses.iter().take(MAX_ADDRESSES).copied());
        if known && self.is(wire, answer.family) {
            self.join(&mut addresses, rest, answer.at);
        } else {
            self.tag.store(tag.without_mark().0, Relaxed);
            for (word, octets) in self.rest.iter().zip(wire.chunks(8)) {
                word.store(word_of(octets), Relaxed);
            }
        }
        let count = write(rest, answer.family, &addresses);
        self.seen
            .store(answer.at.as_millis().cast_unsigned(), Relaxed);
        let client = answer.client.map(|client| match client {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        });
        let (halves, _) = client
            .as_ref()
            .map_or((&[][..], &[][..]), |octets| octets.as_chunks::<8>());
        for (word, half) in self.client.iter().zip(halves) {
            word.store(u64::from_le_bytes(*half), Relaxed);
        }
        let client = if client.is_some() { CLIENT } else { 0 };
        let flags = client | of_family(answer.family);
        self.header
            .store(flags | (count as u64) << 16 | wire.len() as u64, Relaxed);
        self.tag.store(tag.0, Relaxed);
        self.version.store(locked.wrapping_add(1), Release);
    }

    /// What is here, if `matches` takes its name.
    pub(super) fn read(self, matches: &dyn Fn(&dns::Name) -> bool) -> Option<Kept> {
        for _ in 0..TRIES {
            let version = self.version.load(Acquire);
            if version & 1 == 0 {
                let kept = self.decode(matches);
                fence(Acquire);
                if self.version.load(Relaxed) == version {
                    return kept;
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// What the words say, which is of no worth if somebody writes meanwhile.
    fn decode(self, matches: &dyn Fn(&dns::Name) -> bool) -> Option<Kept> {
        let header = self.header.load(Relaxed);
        let (length, count) = (header as u16, (header >> 16) as u16);
        let mut octets: SmallVec<[u8; MAX_NAME]> = SmallVec::new();
        let words = usize::from(length).div_ceil(8);
        for word in self.rest.get(..words)? {
            octets.extend_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let name = dns::Name::from_wire(octets.get(..length.into())?)?;
        if !matches(&name) {
            return None;
        }
        let family = if header & of_family(Family::V6) == 0 {
            Family::V4
        } else {
            Family::V6
        };
        let [upper, lower] = self
            .client
            .each_ref()
            .map(|half| half.load(Relaxed).to_le_bytes());
        let client =
            (u128::from(u64::from_be_bytes(upper)) << 64) | u128::from(u64::from_be_bytes(lower));
        Some(Kept {
            name,
            family,
            addresses: read(self.rest.get(words..)?, family)
                .take(count.into())
                .collect(),
            at: Timestamp::from_millis(self.seen().cast_signed()),
            client: (header & CLIENT != 0).then(|| Ipv6Addr::from_bits(client).to_canonical()),
        })
    }

    /// Whether the place is of this name and family.
    fn is(self, wire: &[u8], family: Family) -> bool {
        let header = self.header.load(Relaxed);
        usize::from(header as u16) == wire.len()
            && header & of_family(Family::V6) == of_family(family)
            && self
                .rest
                .iter()
                .zip(wire.chunks(8))
                .all(|(word, octets)| word.load(Relaxed) == word_of(octets))
    }

    /// Takes in what the earlier answer had, but for what is expired. The latest expiry wins.
    fn join(self, addresses: &mut Addresses, rest: &[AtomicU64], at: Timestamp) {
        let earlier = Timestamp::from_millis(self.seen().cast_signed());
        let passed = at.since(earlier).as_millis().div_ceil(1000);
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        let header = self.header.load(Relaxed);
        let family = if header & of_family(Family::V6) == 0 {
            Family::V4
        } else {
            Family::V6
        };
        for (ip, ttl) in read(rest, family).take(usize::from((header >> 16) as u16)) {
            let left = ttl.saturating_sub(passed);
            let has_room = addresses.len() < MAX_ADDRESSES;
            match addresses.iter_mut().find(|(known, _)| *known == ip) {
                Some((_, ttl)) => *ttl = left.max(*ttl),
                None if left > 0 && has_room => addresses.push((ip, left)),
                None => {}
            }
        }
    }
}

impl Kept {
    pub(super) fn observation(self, now: Timestamp, min_ttl: Duration) -> Option<Observation> {
        // The clock may have been set back since.
        let at = self.at.min(now);
        let alive = |ttl: u32| at + Duration::from_secs(ttl.into()).max(min_ttl) > now;
        let addresses = self.addresses.iter().filter(|(_, ttl)| alive(*ttl));
        let addresses: crate::resolve::Addresses = addresses.copied().collect();
        (!addresses.is_empty()).then_some(Observation {
            name: DnsName::from_wire(&self.name).ok()?,
            family: self.family,
            addresses,
            at,
            answered_at: None,
            given: at,
            client: self.client,
            truncated: false,
            source: Source::REMEMBERED,
        })
    }
}

fn of_family(family: Family) -> u64 {
    match family {
        Family::V4 => 0,
        Family::V6 => 1 << 33,
    }
}

fn word_of(octets: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (slot, octet) in word.iter_mut().zip(octets) {
        *slot = *octet;
    }
    u64::from_le_bytes(word)
}

/// Writes as many addresses as there is room for, and says how many.
fn write(mut rest: &[AtomicU64], family: Family, addresses: &[(IpAddr, u32)]) -> usize {
    for (count, (ip, ttl)) in addresses.iter().enumerate() {
        let v6 = match (family, ip) {
            (Family::V4, IpAddr::V4(v4)) => {
                let Some((word, others)) = rest.split_first() else {
                    return count;
                };
                word.store(u64::from(v4.to_bits()) << 32 | u64::from(*ttl), Relaxed);
                rest = others;
                continue;
            }
            (_, IpAddr::V4(v4)) => v4.to_ipv6_mapped().to_bits(),
            (_, IpAddr::V6(v6)) => v6.to_bits(),
        };
        let Some(([upper, lower, of_ttl], others)) = rest.split_first_chunk() else {
            return count;
        };
        upper.store((v6 >> 64) as u64, Relaxed);
        lower.store(v6 as u64, Relaxed);
        of_ttl.store((*ttl).into(), Relaxed);
        rest = others;
    }
    addresses.len()
}

/// The addresses in the words, as [`write()`] lays them out; after the last come some that mean nothing.
fn read(rest: &[AtomicU64], family: Family) -> impl Iterator<Item = (IpAddr, u32)> {
    let words = if family == Family::V4 { 1 } else { 3 };
    rest.chunks(words).filter_map(|words| match words {
        [word] => {
            let word = word.load(Relaxed);
            Some((
                std::net::Ipv4Addr::from_bits((word >> 32) as u32).into(),
                word as u32,
            ))
        }
        [upper, lower, ttl] => {
            let bits = u128::from(upper.load(Relaxed)) << 64 | u128::from(lower.load(Relaxed));
            Some((
                Ipv6Addr::from_bits(bits).to_canonical(),
                ttl.load(Relaxed) as u32,
            ))
        }
        _ => None,
    })
}
