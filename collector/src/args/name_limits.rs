//! How many names and addresses there may be.

use std::num::NonZeroUsize;

use crate::{
    namespaces::{NamespaceQuota, QuotaRules},
    objects::{NamespaceLimits, most_stored},
    state::Limits,
};

/// The flags of how many names and addresses there may be.
#[derive(Clone, Debug, clap::Args)]
pub struct NameLimitArgs {
    /// Addresses of one name, at most.
    ///
    /// At least 1. The addresses that were seen longest ago leave first.
    #[arg(long, value_name = "ADDRESSES", default_value = Limits::default().addresses_per_name.to_string())]
    pub max_addresses_per_name: NonZeroUsize,

    /// Names under one wildcard, at most.
    ///
    /// At least 1. The collector removes names of the namespace with the most names first.
    #[arg(long, value_name = "NAMES", default_value = Limits::default().names_per_wildcard.to_string())]
    pub max_names_per_wildcard: NonZeroUsize,

    /// Addresses of one namespace, at most.
    ///
    /// At least 1. They are those of names in its rules, and those under wildcards that its pods asked for. Further names are left out:
    /// Allow rules open nothing for them, and Deny rules block nothing.
    #[arg(long, value_name = "ADDRESSES", default_value = NamespaceLimits::default().each.addresses.to_string())]
    pub max_addresses_per_namespace: NonZeroUsize,

    /// Names in the rules of one namespace, at most.
    ///
    /// At least 1. Further names are left out: Allow rules open nothing for them, and Deny rules block nothing.
    #[arg(long, value_name = "NAMES", default_value = NamespaceLimits::default().each.names.to_string())]
    pub max_names_per_namespace: NonZeroUsize,

    /// Addresses of one policy of kube-OVN, at most.
    ///
    /// At least 1. They are those of its domain names, and those under its wildcards. Further names are left out. Only with
    /// `--rules kubeovn`.
    #[arg(long, value_name = "ADDRESSES", default_value = NamespaceLimits::default().policy.addresses.to_string())]
    pub max_addresses_per_policy: NonZeroUsize,

    /// Domain names of one policy of kube-OVN, at most.
    ///
    /// At least 1. Further names are left out. Only with `--rules kubeovn`.
    #[arg(long, value_name = "NAMES", default_value = NamespaceLimits::default().policy.names.to_string())]
    pub max_names_per_policy: NonZeroUsize,

    /// Addresses of all names together, at most.
    ///
    /// At least 1. Beyond that, names of the namespaces with the most addresses are left out.
    #[arg(long, value_name = "ADDRESSES", default_value = NamespaceLimits::default().addresses.to_string())]
    pub max_addresses: NonZeroUsize,

    /// The largest `--max-addresses-per-namespace` that an annotation of a Namespace may set.
    ///
    /// At least 1. The annotation is `dnsnameresolver.network.openshift.io/max-addresses`. A larger value counts as this one. Only with
    /// `--store kube`.
    #[arg(long, value_name = "ADDRESSES", default_value = "100000")]
    pub max_addresses_by_annotation: NonZeroUsize,

    /// The largest `--max-names-per-namespace` that an annotation of a Namespace may set.
    ///
    /// At least 1. The annotation is `dnsnameresolver.network.openshift.io/max-names`. A larger value counts as this one. Only with
    /// `--store kube`. All DNSResolvers of a namespace have at most this many names together. If `--max-names-per-namespace` is
    /// larger, that counts instead. DNSResolvers beyond it are left out as a whole.
    #[arg(long, value_name = "NAMES", default_value = "20000")]
    pub max_names_by_annotation: NonZeroUsize,
}

impl NameLimitArgs {
    /// What all namespaces may have, and each of them.
    pub fn namespace_limits(&self, etcd_quota: u64) -> NamespaceLimits {
        NamespaceLimits {
            addresses: self.max_addresses.get(),
            bytes: most_stored(etcd_quota),
            each: self.quota_rules().defaults,
            policy: NamespaceQuota {
                addresses: self.max_addresses_per_policy.get(),
                names: self.max_names_per_policy.get(),
            },
        }
    }

    /// The most names in all objects of one kind in a namespace.
    pub fn most_names(&self) -> usize {
        let most = self
            .max_names_by_annotation
            .max(self.max_names_per_namespace);
        most.get()
    }

    /// What a namespace may have, and how far its annotations may go.
    pub fn quota_rules(&self) -> QuotaRules {
        QuotaRules {
            defaults: NamespaceQuota {
                addresses: self.max_addresses_per_namespace.get(),
                names: self.max_names_per_namespace.get(),
            },
            ceilings: NamespaceQuota {
                addresses: self.max_addresses_by_annotation.get(),
                names: self.max_names_by_annotation.get(),
            },
        }
    }
}
