//! The limits of names and addresses.

use std::time::Duration;

/// The least grace: an answer may wait that long in the DNS server's buffer, while its client uses the address.
pub const MIN_GRACE: Duration = Duration::from_secs(1);

/// The limits of one object and its addresses.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Limits {
    /// The floor for every TTL, at least a second, rounded up to whole seconds.
    pub min_ttl: Duration,
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
    /// Regular names under a wildcard. Beyond it, names go in the order of `eviction_order`, which
    /// protects each client's names from the others.
    pub names_per_wildcard: usize,
    /// Addresses of an object; a name counts as three. So a status stays below etcd's limit of 1.5
    /// MiB a request. This limit takes precedence over the two above.
    pub object_size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_ttl: Duration::from_secs(5),
            grace: Duration::from_secs(5),
            retain: Duration::ZERO,
            max_stale: Duration::from_secs(24 * 3600),
            wildcard_idle: Duration::from_secs(24 * 3600),
            lookups: true,
            addresses_per_name: 1000,
            names_per_wildcard: 1000,
            object_size: 5000,
        }
    }
}

impl Limits {
    /// An answer's TTL in whole seconds, within the limits.
    pub fn clamp(&self, ttl: u32) -> u32 {
        let least = self.min_ttl.as_millis().div_ceil(1000).max(1);
        let ceiling = u128::from(MAX_TTL.as_secs());
        u32::try_from(u128::from(ttl).max(least).min(ceiling)).unwrap_or(i32::MAX as u32)
    }

    /// The `ttlSeconds` of a status for an address with this TTL. `is_stored`: the TTL is already
    /// one of a status.
    pub(crate) fn stored_ttl(&self, ttl: u32, is_stored: bool) -> i32 {
        let (ttl, retain) = (u64::from(ttl), self.retain.as_secs());
        let seconds = if is_stored {
            ttl.max(retain + STORED_SURPLUS.as_secs())
        } else {
            ttl.max(retain) + STORED_SURPLUS.as_secs()
        };
        i32::try_from(seconds.min(MAX_STORED_TTL.as_secs())).unwrap_or(i32::MAX)
    }

    /// The `ttlSeconds` of a status within the limits.
    pub(crate) fn clamp_stored(&self, ttl: i32) -> u32 {
        let ttl = u32::try_from(ttl).unwrap_or(0);
        let ceiling = u32::try_from(MAX_STORED_TTL.as_secs()).unwrap_or(u32::MAX);
        ttl.max(self.clamp(0)).min(ceiling)
    }
}

/// The ceiling for every TTL.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// The stored `ttlSeconds` is longer than the TTL and the retention by this. Times are written every
/// ten minutes, so the stored time of an address that is still answered is never over. Other
/// programs, such as OpenShift's operator, remove addresses whose stored time is over.
pub(crate) const STORED_SURPLUS: Duration = Duration::from_secs(15 * 60);

/// The ceiling of the stored `ttlSeconds`: the longest retention, and the surplus.
pub(crate) const MAX_STORED_TTL: Duration = Duration::from_secs(168 * 3600 + 15 * 60);

/// The most addresses of a name that its retention alone keeps.
pub(crate) const MAX_RETAINED: usize = 100;

/// How far a stored expiry may be from the known one before it is written again: min(5 s, TTL / 2).
pub(crate) fn tolerance(ttl: u32) -> Duration {
    Duration::from_secs(5).min(Duration::from_millis(u64::from(ttl) * 500))
}
