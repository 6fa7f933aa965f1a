//! The result of a look-up, family by family. Only the leader applies it.

use proto::timestamp::Timestamp;

use crate::{failure::Failure, lookup::FamilyOutcome};

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
