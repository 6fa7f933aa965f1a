//! What the collector learns from one DNS answer: the same type whoever asked.

use std::net::IpAddr;

use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;
use smallvec::SmallVec;

/// Addresses with their TTL in seconds.
pub type Addresses = SmallVec<[(IpAddr, u32); 4]>;

/// A successful look-up of a wanted name in one family.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Observation {
    /// The question's name.
    pub name: DnsName,
    /// The question's type: A or AAAA.
    pub family: Family,
    /// The addresses with their TTL in seconds, already past the guards of [`Guards`](crate::guards::Guards).
    pub addresses: Addresses,
    /// The collector's clock when the answer was read.
    pub at: Timestamp,
    /// When the DNS server answered, by its own clock.
    pub answered_at: Option<Timestamp>,
    /// When it answered, by the collector's clock: never later than `at`. The TTLs count from then.
    pub given: Timestamp,
    /// Who asked, if a client did; our own look-ups have none.
    pub client: Option<IpAddr>,
    /// The answer was cut off: there may be more addresses.
    pub truncated: bool,
    /// Where it was seen.
    pub source: Provenance,
}

/// Where an address was seen: two bytes, since it is kept for each.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Provenance(u16);

impl Provenance {
    /// In the status of an object, as another replica or an earlier life of this one wrote it.
    pub const STATUS: Self = Self(0);
    /// In the reply to one of this replica's own look-ups.
    pub const LOOKUP: Self = Self(1);
    /// In an answer that was remembered, since no rule wanted the name when it came.
    pub const REMEMBERED: Self = Self(2);
    /// In a dnstap stream of which nobody says whose it is.
    pub const STREAM: Self = Self(3);

    /// The peers of streams that are told apart.
    pub const PEERS: usize = (u16::MAX - Self::STREAM.0) as usize;

    /// The dnstap stream of a peer, by its number; [`Provenance::STREAM`] for those beyond [`Provenance::PEERS`].
    pub fn peer(number: usize) -> Self {
        let number = u16::try_from(number).ok();
        let source = number.and_then(|number| number.checked_add(Self::STREAM.0 + 1));
        source.map_or(Self::STREAM, Self)
    }

    /// The number of the peer, if it is the stream of one.
    pub fn number(self) -> Option<usize> {
        self.0.checked_sub(Self::STREAM.0 + 1).map(usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_that_has_a_number_is_told_from_all_other_sources() {
        for number in [0, 1, Provenance::PEERS - 1] {
            assert_eq!(Provenance::peer(number).number(), Some(number));
        }
        for number in [Provenance::PEERS, usize::MAX] {
            assert_eq!(Provenance::peer(number), Provenance::STREAM);
        }
        for source in [
            Provenance::STATUS,
            Provenance::LOOKUP,
            Provenance::REMEMBERED,
            Provenance::STREAM,
        ] {
            assert_eq!(source.number(), None);
        }
    }
}
