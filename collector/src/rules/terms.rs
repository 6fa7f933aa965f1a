//! On which terms the addresses of a name are kept.

use std::time::Duration;

use crate::{clients::Namespace, state::Limits};

/// On which terms the addresses of a name are kept: of all EgressFirewalls that use it the largest.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RetentionPolicy {
    /// `--grace`, or the annotation `…/grace`.
    pub grace: Duration,
    /// `--min-ttl`, or the annotation `…/min-ttl`.
    pub min_ttl: Duration,
    /// `--retain`, or the annotation `…/retain`.
    pub retain: Duration,
    /// It stands in an Allow rule.
    pub allowed: bool,
    /// It stands in a Deny rule.
    pub denied: bool,
}

/// Terms of namespaces that have a name which others have on longer terms.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnRetention {
    /// The times alone.
    pub terms: RetentionPolicy,
    /// The namespaces, in order; one at least.
    pub namespaces: Box<[Namespace]>,
}

/// What the flags say of terms, and how far annotations may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetentionRules {
    /// Where no annotation says anything.
    pub defaults: RetentionPolicy,
    /// Annotations say no more than this.
    pub ceilings: Ceilings,
}

/// The largest values of annotations: what one namespace says of a name holds for all that use it.
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
    /// The bounds for a name on these terms.
    pub fn limits(&self, base: &Limits) -> Limits {
        Limits {
            grace: self.grace,
            min_ttl: self.min_ttl,
            retain: self.retain,
            ..base.clone()
        }
    }

    /// The times alone: as if no rule allowed or denied the name.
    pub(super) fn times(self) -> Self {
        Self {
            allowed: false,
            denied: false,
            ..self
        }
    }

    /// The largest of both.
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
