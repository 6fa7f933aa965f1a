//! The replies for one look-up, put together.

use std::cmp::Reverse;

use names::{Addresses, Failure, FamilyOutcome};
use proto::dns;
use runtime::clock::Timestamp;

/// The content of a server's reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ServerReply {
    /// The response code, with the bits that EDNS adds.
    pub(super) rcode: u16,
    pub(super) truncated: bool,
    /// None if the response code is not NOERROR.
    pub(super) addresses: Addresses,
}

/// The replies for one family so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    addresses: Addresses,
    at: Timestamp,
    noerror: bool,
    failure: Option<Failure>,
    /// Truncated answers over UDP whose rest has not come over TCP.
    truncated: usize,
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
        self.truncated += 1;
        if let Some(answer) = answer {
            self.add_addresses(answer, now);
        }
    }

    /// TCP brought the rest of a truncated answer.
    pub(super) fn completed(&mut self) {
        self.truncated = self.truncated.saturating_sub(1);
    }

    fn add_addresses(&mut self, answer: ServerReply, now: Timestamp) {
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
    pub(super) fn is_open(&self) -> bool {
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
            if self.truncated > 0 || failed {
                FamilyOutcome::Inconclusive
            } else {
                FamilyOutcome::NoData
            }
        } else {
            FamilyOutcome::Failed(match self.failure {
                Some(Failure::NXDOMAIN) if self.truncated > 0 => Failure::BadReply,
                failure => failure.unwrap_or(silent),
            })
        }
    }
}

#[cfg(test)]
mod tests;
