//! Requests for look-ups, and their results.

use std::net::IpAddr;

use proto::{
    api::{DnsName, Family},
    timestamp::Timestamp,
};

use crate::{
    failure::Failure,
    observation::{Addresses, Observation, Provenance, refuse},
};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The name. For a wildcard, the wildcard itself, with `*`.
    pub name: DnsName,
    /// The number of known addresses. With 0 or 1 one server is queried, with more
    /// several.
    pub known: usize,
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
        /// The addresses of all servers, sorted. Each has its largest TTL.
        addresses: Addresses,
        /// The collector's clock when the last one came.
        at: Timestamp,
        /// A server gave its whole answer. Otherwise every answer was truncated and TCP failed, so
        /// an address that is missing here may still exist.
        complete: bool,
    },
    /// Every server that answered said that there is no address, at least one with NOERROR.
    NoData,
    /// A server said NOERROR, and there is no address to use, but not all servers said that there is none. The guards
    /// refused the addresses, an answer was cut off, or another server answered with an error.
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

    /// Why there is no address; `None` if there is one.
    pub fn no_address(&self) -> Option<NoAddress> {
        let outcomes = [&self.v4, &self.v6];
        let has_addresses = outcomes.iter().any(|it| it.has_addresses());
        let is_inconclusive = |it: &&FamilyOutcome| **it == FamilyOutcome::Inconclusive;
        let of_a_family = self.v4.failure().or(self.v6.failure());
        let why = match (self.failed(), of_a_family) {
            (Some(failure), _) => NoAddress::Failed(failure),
            _ if outcomes.iter().any(is_inconclusive) => NoAddress::Inconclusive,
            (None, Some(failure)) => NoAddress::Failed(failure),
            (None, None) => NoAddress::NoData,
        };
        (!has_addresses).then_some(why)
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
                server_time: None,
                answered_at: *at,
                client: None,
                truncated: false,
                source: Provenance::LOOKUP,
            })
        })
    }

    /// Removes the addresses that a guard does not [admit](Observation::refuse), and returns them with the reasons. A
    /// family that loses all of them is inconclusive: the name has addresses, so it is no absence.
    pub fn refuse(
        &mut self,
        admit: impl Fn(IpAddr) -> Result<IpAddr, &'static str>,
    ) -> Vec<(IpAddr, &'static str)> {
        let mut refused = Vec::new();
        for outcome in [&mut self.v4, &mut self.v6] {
            let FamilyOutcome::Addresses { addresses, .. } = outcome else {
                continue;
            };
            refused.extend(refuse(addresses, &admit));
            if addresses.is_empty() {
                *outcome = FamilyOutcome::Inconclusive;
            }
        }
        refused
    }
}

/// Why a name has no address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoAddress {
    /// No server said NOERROR.
    Failed(Failure),
    /// The servers said NOERROR without an address.
    NoData,
    /// This guard refuses the addresses of the last answer.
    Guarded(&'static str),
    /// An answer was cut off, or servers contradict each other.
    Inconclusive,
    /// Its namespaces are at a cap.
    LimitExceeded,
}

/// After this many failures in a row, addresses are no longer extended.
pub(super) const FAILURE_THRESHOLD: i32 = 5;

/// The result for one family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FamilyResult {
    /// An answer with all addresses, which was observed.
    Complete,
    /// Every server that answered said that there is no address.
    Absent,
    /// A result that removes no address.
    Unknown,
}

/// One look-up of a name.
#[derive(Clone, Copy, Debug)]
pub struct LookupSummary {
    /// The result for each family, in the order of [`Family::ALL`](proto::api::Family::ALL).
    pub results: [FamilyResult; 2],
    /// The reason of the failure, if no server said NOERROR for either family.
    pub failure: Option<Failure>,
    pub started: Timestamp,
}

impl From<&FamilyOutcome> for FamilyResult {
    fn from(outcome: &FamilyOutcome) -> Self {
        match outcome {
            FamilyOutcome::Addresses { complete: true, .. } => Self::Complete,
            outcome if outcome.is_absence() => Self::Absent,
            _ => Self::Unknown,
        }
    }
}
