//! What is asked and what comes of it.

use std::{cmp::Reverse, time::Duration};

use proto::{
    api::{DnsName, Family},
    dns,
};
use runtime::clock::Timestamp;
use smallvec::SmallVec;

use crate::{
    clients::Namespace,
    failure::Failure,
    observation::{Addresses, Observation, Provenance},
};

/// A name to look up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The name; of a wildcard, its own name, `*` and all.
    pub name: DnsName,
    /// How many addresses of it are known. With 0 or 1 one server is asked, with more as many as
    /// [`Config::fanout`](super::Config::fanout) says.
    pub known: usize,
    /// It is asked for over TCP beside UDP: there may be more addresses than a datagram has shown.
    pub over_tcp: bool,
    /// When it was to be looked up. Whoever sends it waits for nothing else: what is later is lateness.
    pub due: Timestamp,
    /// Some of the namespaces whose rules have it. Nobody's where that is not known.
    pub namespaces: SmallVec<[Namespace; 4]>,
}

/// What became of one family's questions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FamilyOutcome {
    /// At least one server gave an address.
    Addresses {
        /// Those of all servers, each once with its largest TTL, in order, past the guards.
        addresses: Addresses,
        /// The collector's clock when the last of them came.
        at: Timestamp,
        /// A server gave its whole answer. If not, each answer was cut off, and TCP did not bring the rest: there may be more
        /// addresses, so the missing ones were not asked for.
        complete: bool,
    },
    /// Every server that answered said that there is no address, at least one of them NOERROR.
    NoData,
    /// A server said NOERROR and none gave an address that the guards admit, but not all said that there is none: the guards
    /// refused addresses, or another server answered with an error.
    Inconclusive,
    /// No server said NOERROR.
    Failed(Failure),
}

impl FamilyOutcome {
    /// Why the questions failed, if they did.
    fn failure(&self) -> Option<Failure> {
        match self {
            Self::Failed(failure) => Some(*failure),
            _ => None,
        }
    }

    /// Whether every server that answered said that there is no address.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoData | Self::Failed(Failure::NXDOMAIN))
    }
}

/// One look-up of a name: A and AAAA, at one server or more.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LookupResult {
    /// The name.
    pub name: DnsName,
    /// The collector's clock when the first question was sent.
    pub started: Timestamp,
    /// The collector's clock when it was over.
    pub finished: Timestamp,
    /// What became of the questions for A.
    pub v4: FamilyOutcome,
    /// What became of the questions for AAAA.
    pub v6: FamilyOutcome,
}

impl LookupResult {
    /// Why the round failed, if it did: no server said NOERROR for either family.
    pub fn failed(&self) -> Option<Failure> {
        let (v4, v6) = (self.v4.failure()?, self.v6.failure()?);
        Some(v4.weightier(v6))
    }

    /// How it failed, if it failed in one family.
    pub fn worst(&self) -> Option<Failure> {
        let failures = [self.v4.failure(), self.v6.failure()];
        failures.into_iter().flatten().reduce(Failure::weightier)
    }

    /// The outcome of a family.
    pub fn family(&self, family: Family) -> &FamilyOutcome {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// What was learned: at most one observation a family, with no client.
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

    /// How long it took, by the collector's clock.
    pub fn duration(&self) -> Duration {
        self.finished.since(self.started)
    }
}

/// What a server's reply says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Answer {
    /// The response code, with the bits that EDNS adds.
    pub(super) rcode: u16,
    /// Whether something did not fit.
    pub(super) truncated: bool,
    /// The addresses that the guards admit; none if the response code is not NOERROR.
    pub(super) addresses: Addresses,
    /// Whether the guards refused an address.
    pub(super) refused: bool,
}

/// What one family has so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    addresses: Addresses,
    at: Timestamp,
    noerror: bool,
    failure: Option<Failure>,
    /// The guards refused an address.
    refused: bool,
    /// Answers over UDP that were cut off, and of which TCP has not brought the rest.
    cut_off: usize,
}

impl Tally {
    /// Takes in what a server said, or why it said nothing.
    pub(super) fn add(&mut self, reply: Result<Answer, Failure>, now: Timestamp) {
        match reply {
            Ok(answer) if answer.rcode == u16::from(dns::RCODE_NOERROR) => {
                self.noerror = true;
                self.add_addresses(answer, now);
            }
            Ok(answer) => self.fail(Failure::Rcode(answer.rcode)),
            Err(failure) => self.fail(failure),
        }
    }

    /// Takes in what a server said before its answer was cut off, if that can be read. It is asked for the rest over TCP.
    pub(super) fn add_part(&mut self, answer: Option<Answer>, now: Timestamp) {
        self.cut_off += 1;
        if let Some(answer) = answer {
            self.add_addresses(answer, now);
        }
    }

    /// TCP has brought the rest of an answer that was cut off.
    pub(super) fn completed(&mut self) {
        self.cut_off = self.cut_off.saturating_sub(1);
    }

    fn add_addresses(&mut self, answer: Answer, now: Timestamp) {
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

    /// Whether a server said NOERROR, and all that there is to say.
    pub(super) fn noerror(&self) -> bool {
        self.noerror
    }

    /// Whether another server could say more: nobody said NOERROR or NXDOMAIN.
    pub(super) fn open(&self) -> bool {
        !self.noerror && self.failure != Some(Failure::NXDOMAIN)
    }

    /// The outcome; without any reply at all it is `silent`.
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
