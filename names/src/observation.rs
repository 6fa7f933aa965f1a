//! The content of one DNS answer, in the same form for queries of clients and of the collector.

use std::net::IpAddr;

use proto::api::{DnsName, Family};
use proto::timestamp::Timestamp;
use smallvec::SmallVec;

/// Addresses with their TTL in seconds.
pub type Addresses = SmallVec<[(IpAddr, u32); 4]>;

/// A successful answer for a wanted name in one family.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Observation {
    /// The question's name.
    pub name: DnsName,
    /// The question's type: A or AAAA.
    pub family: Family,
    /// The addresses with their TTL in seconds.
    pub addresses: Addresses,
    /// The collector's clock when the answer was read.
    pub at: Timestamp,
    /// The time of the answer by the DNS server's clock.
    pub server_time: Option<Timestamp>,
    /// The time of the answer by the collector's clock, never later than `at`. The TTLs count from
    /// here.
    pub answered_at: Timestamp,
    /// The client that sent the query; `None` for look-ups.
    pub client: Option<IpAddr>,
    /// The answer was truncated: there may be more addresses.
    pub truncated: bool,
    /// Where the answer came from.
    pub source: Provenance,
}

impl Observation {
    /// Removes the addresses that a guard does not admit, and returns them with the reasons. `admit` gives the canonical
    /// form of an address, which replaces it.
    pub fn refuse(
        &mut self,
        admit: impl Fn(IpAddr) -> Result<IpAddr, &'static str>,
    ) -> Vec<(IpAddr, &'static str)> {
        refuse(&mut self.addresses, admit)
    }
}

pub(crate) fn refuse(
    addresses: &mut Addresses,
    admit: impl Fn(IpAddr) -> Result<IpAddr, &'static str>,
) -> Vec<(IpAddr, &'static str)> {
    let mut refused = Vec::new();
    addresses.retain(|(ip, _)| match admit(*ip) {
        Ok(canonical) => {
            *ip = canonical;
            true
        }
        Err(reason) => {
            refused.push((*ip, reason));
            false
        }
    });
    refused
}

/// Where an answer came from. It takes two bytes, since every address keeps one.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Provenance(u16);

impl Provenance {
    /// The status of an object, as another replica or an earlier process wrote it.
    pub const STATUS: Self = Self(0);
    /// The reply to a look-up of this replica.
    pub const LOOKUP: Self = Self(1);
    /// A cached answer that came before a rule wanted the name.
    pub const REMEMBERED: Self = Self(2);
    /// An answer that this replica forwarded to CoreDNS.
    pub const HOLD: Self = Self(3);
    /// A dnstap stream of an unidentified peer.
    pub const STREAM: Self = Self(4);

    /// The most peers with a number of their own.
    pub const PEERS: usize = (u16::MAX - Self::STREAM.0) as usize;

    /// The dnstap stream of a peer, by its number; [`Provenance::STREAM`] beyond
    /// [`Provenance::PEERS`].
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
