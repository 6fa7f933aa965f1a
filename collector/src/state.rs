//! The state of the names of one `DNSNameResolver`, and the status derived from it. No IO: time is
//! a parameter.
//!
//! - [`NameState`] takes in [observations](crate::observation::Observation), failed look-ups and
//!   the statuses of other writers, and removes addresses.
//! - [`StatusUpdate::new`] renders the status that the store should have, if it differs from the
//!   stored one.
//!
//! State:
//! - `name_state` (all of an object), `name_list`, `name` (a name and its addresses).
//! - `askers` (clients that queried a name), `stored` (a status), `removed` (recent removals).
//!
//! Changes:
//! - `looked_up` and `without_addresses` (look-ups).
//! - `removal` (when addresses leave, and every cause of removal).
//! - `evict` and `leaving` (limits, and the order in which names leave).
//!
//! Results: `render` (the next status), `shorter` (that of a source with less retention), `condition` (its reasons), `count`, `address_stats`
//! and `failing_names`.

mod address_stats;
mod askers;
mod condition;
mod count;
mod evict;
mod failing_names;
mod leaving;
mod looked_up;
mod name;
mod name_list;
mod name_state;
mod removal;
mod removed;
mod render;
mod shorter;
mod stored;
#[cfg(test)]
mod tests;
mod without_addresses;

use std::time::Duration;

pub use self::{
    address_stats::{AddressFacts, address_stats},
    askers::Crowd,
    count::{Count, Kept, MAX_OWN_RETENTION, OwnLimits},
    evict::{ADDRESS_V6_BYTES, Eviction, ObjectSize},
    failing_names::{FailureView, failing_names},
    looked_up::{FamilyResult, LookupSummary},
    name_list::{NameList, NameSnapshot},
    name_state::{After, NameState, UpdateEffect},
    render::StatusUpdate,
    shorter::Shorter,
    stored::Stored,
};

/// The limits of one object and its addresses.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Limits {
    /// The floor for every TTL, at least a second, rounded up to whole seconds.
    pub min_ttl: Duration,
    /// The ceiling for every TTL; wins over the floor.
    pub max_ttl: Duration,
    /// How long an address stays after its expiry.
    pub grace: Duration,
    /// How long an address stays after the last answer with it, if that is later.
    pub retain: Duration,
    /// How long an address stays after the last answer with it while look-ups of its name fail.
    pub max_stale: Duration,
    /// A regular name under a wildcard is no longer looked up if no client queried it in this time.
    pub wildcard_idle: Duration,
    /// Whether names are looked up at all. Otherwise addresses leave by their times alone.
    pub lookups: bool,
    /// Addresses of a name. Beyond it, the addresses seen longest ago go.
    pub addresses_per_name: usize,
    /// Regular names under a wildcard. Beyond it, names go in the order of `leaving`, which
    /// protects each namespace's names from the others.
    pub names_per_wildcard: usize,
    /// Bytes of an object as the API server stores it, with `managedFields` (etcd's limit is 1.5
    /// MiB a request). The estimate is generous. This limit takes precedence over the two counts
    /// above.
    pub object_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_ttl: Duration::from_secs(5),
            max_ttl: Duration::from_secs(24 * 3600),
            grace: Duration::from_secs(5),
            retain: Duration::ZERO,
            max_stale: Duration::from_secs(24 * 3600),
            wildcard_idle: Duration::from_secs(24 * 3600),
            lookups: true,
            addresses_per_name: 1000,
            names_per_wildcard: 1024,
            object_bytes: 1 << 20,
        }
    }
}

impl Limits {
    /// An answer's TTL in whole seconds, within the limits.
    pub(crate) fn clamp(&self, ttl: u32) -> u32 {
        let floor = self.min_ttl.as_millis().div_ceil(1000).max(1);
        let ceiling = u128::from(self.max_ttl.as_secs()).clamp(1, i32::MAX as u128);
        u32::try_from(u128::from(ttl).max(floor).min(ceiling)).unwrap_or(i32::MAX as u32)
    }
}

/// How far a stored expiry may be from the known one before it is written again: min(5 s, TTL / 2).
fn tolerance(ttl: u32) -> Duration {
    Duration::from_secs(5).min(Duration::from_millis(u64::from(ttl) * 500))
}

/// Reserves room for one more element and a quarter: most lists keep one element for ever.
pub(crate) fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(1 + list.len() / 4);
    }
}
