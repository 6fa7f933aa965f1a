//! The retention of a name's addresses.

use std::time::Duration;

use names::{Limits, MIN_GRACE};

/// The retention of a name's addresses: the longest of all EgressFirewalls that use it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RetentionPolicy {
    /// `--grace`, or the annotation `…/grace`.
    pub grace: Duration,
    /// `--min-ttl`, or the annotation `…/min-ttl`.
    pub min_ttl: Duration,
    /// `--retain`, or the annotation `…/retain`.
    pub retain: Duration,
    /// An Allow rule uses it.
    pub allowed: bool,
    /// A Deny rule uses it.
    pub denied: bool,
}

impl RetentionPolicy {
    /// The limits of a name with this retention.
    pub fn limits(&self, base: &Limits) -> Limits {
        Limits {
            grace: self.grace.max(MIN_GRACE),
            min_ttl: self.min_ttl,
            retain: self.retain,
            ..base.clone()
        }
    }

    /// The times only, as if no rule allowed or denied the name.
    pub(crate) fn times(self) -> Self {
        Self {
            allowed: false,
            denied: false,
            ..self
        }
    }

    /// The longest of both.
    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            grace: self.grace.max(other.grace),
            min_ttl: self.min_ttl.max(other.min_ttl),
            retain: self.retain.max(other.retain),
            allowed: self.allowed | other.allowed,
            denied: self.denied | other.denied,
        }
    }
}
