//! The retention of a name's addresses.

use std::time::Duration;

use crate::{clients::Namespace, state::Limits};

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

/// The retention of namespaces for a name that others keep for longer.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct OwnRetention {
    /// The times only.
    pub policy: RetentionPolicy,
    /// Sorted; at least one.
    pub namespaces: Box<[Namespace]>,
}

/// The default retention, and the ceilings of annotations.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetentionRules {
    /// Without annotations.
    pub defaults: RetentionPolicy,
    /// The largest values of annotations.
    pub ceilings: Ceilings,
}

/// The largest values of annotations. They matter because one namespace's annotation applies to all
/// that use the name.
#[derive(Clone, Copy, Debug)]
pub struct Ceilings {
    /// `--max-grace`.
    pub grace: Duration,
    /// `--max-min-ttl`.
    pub min_ttl: Duration,
    /// `--max-retain`.
    pub retain: Duration,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(3600),
            min_ttl: Duration::from_secs(600),
            retain: Duration::from_secs(168 * 3600),
        }
    }
}

impl RetentionPolicy {
    /// The limits of a name with this retention.
    pub fn limits(&self, base: &Limits) -> Limits {
        Limits {
            grace: self.grace,
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
