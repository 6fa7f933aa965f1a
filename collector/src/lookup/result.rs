//! Requests for look-ups, and their results.

use std::{cmp::Reverse, time::Duration};

use proto::{
    api::{DnsName, Family},
    dns,
};
use runtime::clock::Timestamp;

use crate::{
    failure::Failure,
    observation::{Addresses, Observation, Provenance},
};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The name. For a wildcard, the wildcard itself, with `*`.
    pub name: DnsName,
    /// The number of known addresses. With 0 or 1 one server is queried, with more
    /// [`Config::fanout`](super::Config::fanout) servers.
    pub known: usize,
    /// Query over TCP in addition to UDP: there may be more addresses than a datagram holds.
    pub over_tcp: bool,
    /// When the look-up was due. The controller sends the request at that time, so any delay from
    /// then on is counted as lateness.
    pub due: Timestamp,
    /// Its last look-up was not over in time, so this one may take longer.
    pub is_patient: bool,
}

/// The result for one family.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FamilyOutcome {
    /// At least one server gave an address.
    Addresses {
        /// The addresses of all servers that pass the guards, sorted. Each has its largest TTL.
        addresses: Addresses,
        /// The collector's clock when the last one came.
        at: Timestamp,
        /// A server gave its whole answer. Otherwise every answer was truncated and TCP failed, so
        /// an address that is missing here may still exist.
        complete: bool,
    },
    /// Every server that answered said that there is no address, at least one with NOERROR.
    NoData,
    /// A server said NOERROR, and no address passed the guards, but not all servers said that there
    /// is none. The guards refused addresses, or another server answered with an error.
    Inconclusive,
    /// No server said NOERROR.
    Failed(Failure),
}

impl FamilyOutcome {
    fn failure(&self) -> Option<Failure> {
        match self {
            Self::Failed(failure) => Some(*failure),
            _ => None,
        }
    }

    pub fn has_addresses(&self) -> bool {
        matches!(self, Self::Addresses { .. })
    }

    /// Whether every server that answered said that there is no address.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoData | Self::Failed(Failure::NXDOMAIN))
    }
}

/// One look-up of a name: A and AAAA, at one or more servers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LookupResult {
    pub name: DnsName,
    /// The collector's clock at the first query.
    pub started: Timestamp,
    /// The collector's clock at the end.
    pub finished: Timestamp,
    /// It was not over in time: an answer is missing.
    pub is_unresponsive: bool,
    pub v4: FamilyOutcome,
    pub v6: FamilyOutcome,
}

impl LookupResult {
    /// The reason of the failure, if no server said NOERROR for either family.
    pub fn failed(&self) -> Option<Failure> {
        let (v4, v6) = (self.v4.failure()?, self.v6.failure()?);
        Some(v4.weightier(v6))
    }

    pub fn family(&self, family: Family) -> &FamilyOutcome {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// The results as observations: at most one a family, without a client.
    pub fn observations(&self) -> impl Iterator<Item = Observation> {
        Family::ALL.into_iter().filter_map(|family| {
            let FamilyOutcome::Addresses { addresses, at, .. } = self.family(family) else {
                return None;
            };
            Some(Observation {
                name: self.name.clone(),
                family,
                addresses: addresses.clone(),
                at: *at,
                answered_at: None,
                given: *at,
                client: None,
                truncated: false,
                source: Provenance::LOOKUP,
            })
        })
    }

    /// The duration by the collector's clock.
    pub fn duration(&self) -> Duration {
        self.finished.since(self.started)
    }
}

/// The content of a server's reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ServerReply {
    /// The response code, with the bits that EDNS adds.
    pub(super) rcode: u16,
    pub(super) truncated: bool,
    /// The addresses that pass the guards; none if the response code is not NOERROR.
    pub(super) addresses: Addresses,
    pub(super) refused: bool,
}

/// The replies for one family so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    addresses: Addresses,
    at: Timestamp,
    noerror: bool,
    failure: Option<Failure>,
    /// The guards refused an address.
    refused: bool,
    /// Truncated answers over UDP whose rest has not come over TCP.
    cut_off: usize,
}

impl Tally {
    /// Adds a server's answer, or the reason why there is none.
    pub(super) fn add(&mut self, reply: Result<ServerReply, Failure>, now: Timestamp) {
        match reply {
            Ok(answer) if answer.rcode == u16::from(dns::RCODE_NOERROR) => {
                self.noerror = true;
                self.add_addresses(answer, now);
            }
            Ok(answer) => self.fail(Failure::Rcode(answer.rcode)),
            Err(failure) => self.fail(failure),
        }
    }

    /// Adds the part of a truncated answer that can be decoded. A query over TCP follows.
    pub(super) fn add_part(&mut self, answer: Option<ServerReply>, now: Timestamp) {
        self.cut_off += 1;
        if let Some(answer) = answer {
            self.add_addresses(answer, now);
        }
    }

    /// TCP brought the rest of a truncated answer.
    pub(super) fn completed(&mut self) {
        self.cut_off = self.cut_off.saturating_sub(1);
    }

    fn add_addresses(&mut self, answer: ServerReply, now: Timestamp) {
        self.refused |= answer.refused;
        if !answer.addresses.is_empty() {
            self.addresses.extend(answer.addresses);
            self.at = now;
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failure = Some(
            self.failure
                .map_or(failure, |known| known.weightier(failure)),
        );
    }

    /// Whether a server gave a whole NOERROR answer.
    pub(super) fn noerror(&self) -> bool {
        self.noerror
    }

    /// Whether another server could add anything: none said NOERROR or NXDOMAIN.
    pub(super) fn open(&self) -> bool {
        !self.noerror && self.failure != Some(Failure::NXDOMAIN)
    }

    /// The outcome; `silent` if there was no reply at all.
    pub(super) fn finish(mut self, silent: Failure) -> FamilyOutcome {
        if !self.addresses.is_empty() {
            self.addresses
                .sort_unstable_by_key(|(address, ttl)| (*address, Reverse(*ttl)));
            self.addresses.dedup_by_key(|(address, _)| *address);
            FamilyOutcome::Addresses {
                addresses: self.addresses,
                at: self.at,
                complete: self.noerror,
            }
        } else if self.noerror {
            let failed = self.failure.is_some_and(Failure::contradicts_absence);
            match self.refused || self.cut_off > 0 || failed {
                true => FamilyOutcome::Inconclusive,
                false => FamilyOutcome::NoData,
            }
        } else {
            FamilyOutcome::Failed(match self.failure {
                Some(Failure::NXDOMAIN) if self.cut_off > 0 => Failure::BadReply,
                failure => failure.unwrap_or(silent),
            })
        }
    }
}

#[cfg(test)]
mod tests;
