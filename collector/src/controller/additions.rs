//! What a standby found missing in a status, and what became of it.

use std::net::IpAddr;

use proto::api::DnsName;
use runtime::clock::Timestamp;

use crate::state::{Addition, NameState};

/// If the leader took out so many names under a wildcard that a client asked for, none of the client's is added for so long.
const NAMES_REFUSED: usize = 8;

/// Addresses of an object that wait, or are remembered.
pub(super) const MOST: usize = 256;

/// What a standby finds missing in the status of a name's objects.
#[derive(Debug, Default)]
pub(super) struct Additions {
    pub(super) waiting: Vec<Waiting>,
    pub(super) made: Vec<Made>,
    pub(super) refused: Vec<Refused>,
}

/// What the leader took out.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) name: DnsName,
    /// The address; all of them if the name itself went from under its wildcard.
    pub(super) ip: Option<IpAddr>,
    /// The client that asked for it.
    pub(super) client: IpAddr,
    /// Not to be added before then.
    pub(super) until: Timestamp,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) addition: Addition,
    /// The client that was told.
    pub(super) client: IpAddr,
    pub(super) since: Timestamp,
}

/// An address that this collector has added.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) name: DnsName,
    pub(super) ip: IpAddr,
    pub(super) client: IpAddr,
    /// When its write began.
    pub(super) at: Timestamp,
    /// Its TTL and grace are over then.
    pub(super) until: Timestamp,
    /// The status had it.
    pub(super) stood: bool,
}

impl Additions {
    /// Whether the memory knows an address of today that does not wait to be added.
    pub(super) fn lacks_some_of(&self, memory: &NameState, now: Timestamp) -> bool {
        let mut alive = memory.alive(now).flat_map(|(_, _, addresses, _)| addresses);
        let waits = |ip| self.waiting.iter().any(|it| it.addition.ip == ip);
        self.waiting.len() < MOST && alive.any(|(ip, _)| !waits(ip))
    }

    /// Whether the address of a name that a client asked for is not to be added.
    pub(super) fn is_refused(
        &self,
        spec: &DnsName,
        name: &DnsName,
        ip: IpAddr,
        client: IpAddr,
        now: Timestamp,
    ) -> bool {
        let mut refused = self.refused.iter().filter(|it| now < it.until);
        refused.any(|it| it.ip.is_none_or(|it| it == ip) && it.name == *name)
            || name != spec && leaves_names_out(&self.refused, spec, client, now)
    }

    /// The object was made again, and has lost what it had.
    pub(super) fn forget_made(&mut self) {
        self.made.clear();
    }

    pub(super) fn forget_past(&mut self, now: Timestamp) {
        self.waiting.retain(|it| it.addition.expiry() > now);
        self.made.retain(|made| made.until > now);
        self.refused.retain(|it| it.until > now);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.made.is_empty() && self.refused.is_empty()
    }
}

/// Whether the leader took out so many names under the wildcard that a client asked for that it takes none in, as their namespace has too
/// much. The standby does not know the namespaces.
pub(super) fn leaves_names_out(
    refused: &[Refused],
    spec: &DnsName,
    client: IpAddr,
    now: Timestamp,
) -> bool {
    let names = refused
        .iter()
        .filter(|it| it.name != *spec && it.ip.is_none() && it.client == client && now < it.until);
    refused.len() >= MOST || names.count() >= NAMES_REFUSED
}

pub(super) fn was_made(made: &[Made], addition: &Addition) -> bool {
    made.iter().any(|it| addition.is_of(&it.name, it.ip))
}
