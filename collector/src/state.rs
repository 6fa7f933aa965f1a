//! What is known of the names of one `DNSNameResolver`, and the status that follows from it. No IO: time is a parameter.
//!
//! - [`NameState`] takes in [observations](crate::observation::Observation), failed look-ups and the statuses of others, and
//!   forgets.
//! - [`StatusUpdate::new`] tells the status that the store should have, if it differs from the one that it has.
//!
//! What is kept: `name_state` (all of an object), `name_list`, `name` (a name and its addresses), `askers` (clients that asked), `stored` (a
//! status), `removed` (what just left).
//!
//! What changes it: `looked_up` and `without_addresses` (look-ups), `additions` (other writers), `removal` (when addresses leave, and what
//! else removes them), `evict` and `leaving` (limits, and the order in which names leave).
//!
//! What follows: `render` (the next status), `condition` (its reasons), `count`, `update_count`, `address_stats` and `failing_names`.

mod additions;
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
mod stored;
#[cfg(test)]
mod tests;
mod update_count;
mod without_addresses;

use std::time::Duration;

pub use self::{
    additions::Addition,
    address_stats::{AddressFacts, address_stats},
    askers::Crowd,
    count::{Count, Kept, MAX_OWN_TERMS, OwnLimits},
    evict::{ADDRESS_V6_BYTES, Eviction, ObjectSize},
    failing_names::{Failing, failing_names},
    looked_up::{FamilyResult, LookupSummary},
    name_list::{NameList, NameSnapshot},
    name_state::{After, NameState, UpdateEffect},
    render::StatusUpdate,
    stored::Stored,
};

/// The bounds within which answers are believed.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The floor for every TTL, at least a second; counted in whole seconds, rounded up.
    pub min_ttl: Duration,
    /// The ceiling for every TTL; wins over the floor.
    pub max_ttl: Duration,
    /// How long an address stays after its expiry.
    pub grace: Duration,
    /// How long an address stays after it was last in an answer, if that is longer.
    pub retain: Duration,
    /// How long an address stays after it was last in an answer while its name cannot be looked up.
    pub max_stale: Duration,
    /// A regular name under a wildcard that no client asked for in this time is no longer looked up.
    pub wildcard_idle: Duration,
    /// Whether names are looked up at all. If not, addresses leave on their times alone.
    pub lookups: bool,
    /// Addresses of a name. Over it the oldest-seen go.
    pub addresses_per_name: usize,
    /// Regular names under a wildcard. Over it names go in an order in which nobody takes the place of others.
    pub names_per_wildcard: usize,
    /// Bytes of an object as the API server stores it, `managedFields` included (etcd's limit is 1.5 MiB a request). It
    /// is estimated, generously, and beats the two counts above.
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
    /// The TTL in whole seconds that is used for an answer's.
    pub(crate) fn clamp(&self, ttl: u32) -> u32 {
        let floor = self.min_ttl.as_millis().div_ceil(1000).max(1);
        let ceiling = u128::from(self.max_ttl.as_secs()).clamp(1, i32::MAX as u128);
        u32::try_from(u128::from(ttl).max(floor).min(ceiling)).unwrap_or(i32::MAX as u32)
    }
}

/// How far a stored expiry may be from the true one before it is written again: min(5 s, TTL / 2).
fn tolerance(ttl: u32) -> Duration {
    Duration::from_secs(5).min(Duration::from_millis(u64::from(ttl) * 500))
}

/// Room for one more, and a quarter: most lists have one element for ever.
pub(crate) fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(1 + list.len() / 4);
    }
}
