//! The kinds of objects whose rules have names. Each kind is one module below, with one interface.
//!
//! | source | names of | Deny | annotations | objects are made by |
//! |---|---|---|---|---|
//! | [`egress_firewall`] | EgressFirewalls | yes | yes | ovn-kubernetes or the collector |

pub(super) mod egress_firewall;

use std::fmt;

use clap::ValueEnum;
use runtime::store::Kind;
use serde::{Serialize, Serializer};

use super::{RetentionRules, rule_object::RuleObject};
use crate::clients::Namespace;

/// A kind of objects whose rules have names.
pub trait RuleSource: Kind {
    /// Which source it is.
    const SOURCE: Source;

    /// The names in the rules of an object, their retention, and the faults of the object.
    #[doc(hidden)]
    fn rules(&self, namespace: Namespace, terms: &RetentionRules) -> RuleObject;
}

/// A source of names (`--rules`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Source {
    /// EgressFirewalls of ovn-kubernetes.
    EgressFirewall,
}

impl Source {
    /// The kind of its objects.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::EgressFirewall => "EgressFirewall",
        }
    }

    /// The field of its objects that has the rules.
    pub(crate) const fn field(self) -> &'static str {
        match self {
            Self::EgressFirewall => "egress",
        }
    }

    /// The name of its condition of readiness.
    pub(crate) const fn gate(self) -> &'static str {
        match self {
            Self::EgressFirewall => "egress-firewalls",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// As the kind of its objects.
impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.kind())
    }
}
