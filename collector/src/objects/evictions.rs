//! Counts of evictions.

use runtime::clock::Timestamp;
use serde::Serialize;

use crate::state::UpdateEffect;

/// Evicted addresses and names since the start of the process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Evictions {
    /// Addresses of names that stayed, or of an object that was too large.
    pub addresses: u64,
    /// Names under a wildcard, with all their addresses.
    pub names: u64,
}

impl Evictions {
    pub(super) fn add(&mut self, learned: &UpdateEffect) {
        self.addresses += learned.evicted_addresses as u64;
        self.names += learned.evicted_names as u64;
    }
}

/// The evictions of a name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evicted {
    pub(crate) evictions: Evictions,
    pub(crate) told_at: Timestamp,
}
