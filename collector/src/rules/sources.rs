//! The kinds of objects whose rules have names. Each kind is one module below, with one interface.
//!
//! | source | names of | Deny | annotations | objects are made by |
//! |---|---|---|---|---|
//! | `egress_firewall` | EgressFirewalls | yes | yes | ovn-kubernetes or the collector |
//! | `dns_resolver` | DNSResolvers | no | no | the collector, in a namespace of their own |
//! | `kube_ovn` | DNSNameResolvers of kube-OVN | no | no | kube-ovn-controller; they are the rules and have the statuses |

mod dns_resolver;
pub(super) mod egress_firewall;
mod kube_ovn;

use std::fmt;

use clap::ValueEnum;
use runtime::store::Kind;

use super::{RetentionPolicy, rule_object::RuleObject};
use names::Namespace;

/// A kind of objects whose rules have names.
pub trait RuleSource: Kind {
    /// Which source it is.
    const SOURCE: Source;

    /// The policy that the object was made for, if it is in no namespace.
    fn policy(&self) -> Option<&str> {
        None
    }

    /// The names in the rules of an object, their retention, and the faults of the object.
    #[doc(hidden)]
    fn rules(&self, tenant: Namespace, retention: &RetentionPolicy) -> RuleObject;
}

/// A source of names (`--rules`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Source {
    /// EgressFirewalls of ovn-kubernetes.
    EgressFirewall,
    /// DNSResolvers, from which policy-writer makes objects of any network plugin.
    DnsResolver,
    /// DNSNameResolvers of kube-OVN, for its policies with domain names.
    KubeOvn,
}

impl Source {
    /// The kind of its objects.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::EgressFirewall => "EgressFirewall",
            Self::DnsResolver => "DNSResolver",
            Self::KubeOvn => "DNSNameResolver.kubeovn.io",
        }
    }

    /// The field of its objects that has the rules; `None` if an object is one rule.
    pub(crate) const fn field(self) -> Option<&'static str> {
        match self {
            Self::EgressFirewall => Some("egress"),
            Self::DnsResolver => Some("domainList"),
            Self::KubeOvn => None,
        }
    }

    /// Whether `resolutionFailures` is 0 in each entry with an address. The reader of kube-OVN
    /// skips entries with failures.
    pub(crate) const fn hides_failures(self) -> bool {
        matches!(self, Self::KubeOvn)
    }

    /// The name of the condition of readiness that its objects are known.
    pub(crate) const fn gate(self) -> &'static str {
        match self {
            Self::EgressFirewall => "egress-firewalls",
            Self::DnsResolver => "dns-resolvers",
            Self::KubeOvn => "kube-ovn",
        }
    }

    /// The name of the condition of readiness that the objects of its names are known.
    pub(crate) const fn objects_gate(self) -> &'static str {
        match self {
            Self::EgressFirewall => "dns-name-resolvers",
            Self::DnsResolver => "dns-name-resolvers-of-dns-resolvers",
            Self::KubeOvn => "dns-name-resolvers-of-kube-ovn",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The beginning of a tenant that is a policy. No namespace has a space in its name.
const POLICY: &str = "policy ";

/// The tenant of the names of a policy.
pub(crate) fn policy_tenant(policy: &str) -> String {
    format!("{POLICY}{policy}")
}

/// Whether names are counted for a policy, and not to a namespace.
pub(crate) fn is_policy(tenant: &str) -> bool {
    tenant.starts_with(POLICY)
}

/// Some of the sources.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct SourceSet(u8);

impl SourceSet {
    pub(crate) fn has(self, source: Source) -> bool {
        self.0 & source.bit() != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn insert(&mut self, source: Source) {
        self.0 |= source.bit();
    }

    pub(crate) fn remove(&mut self, source: Source) {
        self.0 &= !source.bit();
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}
