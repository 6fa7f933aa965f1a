//! What our own look-ups tell, family by family: only who leads takes it in.

use proto::api::{DnsName, Family};
use runtime::clock::Timestamp;

use super::{Limits, NameState, UpdateEffect, name::Verdict};
use crate::failure::Failure;

/// From this many failures in a row on, nothing is extended any more.
pub(super) const FAILURE_THRESHOLD: i32 = 5;

/// What a look-up told of one family.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FamilyResult {
    /// All its addresses, which were observed.
    Complete,
    /// Every server that answered said that there is no address.
    Absent,
    /// Nothing that an address could leave for.
    Unknown,
}

/// One look-up of a name.
#[derive(Clone, Copy, Debug)]
pub struct LookupSummary {
    /// What it told of each family, in the order of [`Family::ALL`].
    pub results: [FamilyResult; 2],
    /// Why it failed, if no server said NOERROR for either family.
    pub failure: Option<Failure>,
    /// When it began.
    pub started: Timestamp,
}

impl NameState {
    /// Takes in a look-up of a name. Only a name with addresses, or one that lost them, has failures.
    pub fn looked_up(
        &mut self,
        dns_name: &DnsName,
        look_up: LookupSummary,
        now: Timestamp,
        limits: &Limits,
    ) -> UpdateEffect {
        let mut learned = UpdateEffect::default();
        let LookupSummary {
            results,
            failure,
            started,
        } = look_up;
        let Some(name) = self.name_mut(dns_name) else {
            learned.urgent = self.looked_up_in_vain(dns_name, look_up);
            return learned;
        };
        let before = name.verdict;
        if let Some(failure) = failure {
            name.verdict = Verdict::Failing(failure);
            name.failures = name.failures.saturating_add(1);
            name.tried = name.tried.max(started);
        }
        // While the other family is answered there is no end to the row of failures.
        let is_extended = failure.is_none() || name.failures < FAILURE_THRESHOLD;
        for (family, result) in Family::ALL.into_iter().zip(results) {
            let closes = match result {
                FamilyResult::Complete => {
                    name.not_absent(family);
                    true
                }
                FamilyResult::Absent => name.absent(family),
                FamilyResult::Unknown => {
                    name.not_absent(family);
                    failure.is_none() && name.is_stale(family, now, limits)
                }
            };
            if closes {
                name.answered(family, started);
            }
            if result == FamilyResult::Unknown || !closes {
                learned.times |= is_extended && name.outlive(family, now, limits);
            }
        }
        if failure.is_none() && name.is_closing() {
            name.verdict = Verdict::NoAddress;
        }
        learned.urgent = name.verdict != before;
        learned
    }
}
