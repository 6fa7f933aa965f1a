//! What our own look-ups tell, family by family: only who leads takes it in.

use runtime::clock::Timestamp;

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
    /// What it told of each family, in the order of [`Family::ALL`](proto::api::Family::ALL).
    pub results: [FamilyResult; 2],
    /// Why it failed, if no server said NOERROR for either family.
    pub failure: Option<Failure>,
    /// When it began.
    pub started: Timestamp,
}
