//! What the collector learns from one DNS answer: the same type whoever asked.

use std::net::IpAddr;

use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;

use crate::resolve::Addresses;

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
    /// Who asked, if a client did; our own look-ups have none.
    pub client: Option<IpAddr>,
    /// The replica that leads asked, and so knows what is learned from this.
    pub by_leader: bool,
    /// The answer was cut off: there may be more addresses.
    pub truncated: bool,
}
