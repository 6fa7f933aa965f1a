//! Which addresses are kept, and for how long.

use std::{num::NonZeroUsize, time::Duration};

use ipnet::IpNet;
use runtime::{UsageError, args::parse_duration};

use crate::{
    namespaces::{NamespaceQuota, QuotaRules},
    objects::{NamespaceLimits, most_stored},
    rules::{Ceilings, RetentionPolicy, RetentionRules},
    state::Limits,
};

/// The flags of what is believed, which replay has too.
#[derive(Clone, Debug, clap::Args)]
pub struct KeepArgs {
    /// The floor for every TTL, counted in whole seconds.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub min_ttl: Duration,

    /// The ceiling for every TTL, counted in whole seconds.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    pub max_ttl: Duration,

    /// How long an address stays after it expired.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub grace: Duration,

    /// How long an address stays after it was last in an answer, if that is longer than its TTL and grace.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_duration)]
    pub retain: Duration,

    /// An EgressFirewall's annotation `grace` counts as this at most.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub max_grace: Duration,

    /// An EgressFirewall's annotation `min-ttl` counts as this at most.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub max_min_ttl: Duration,

    /// An EgressFirewall's annotation `retain` counts as this at most.
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = parse_duration)]
    pub max_retain: Duration,

    /// Addresses of all names together.
    #[arg(long, value_name = "N", default_value = "1000000")]
    pub max_addresses: NonZeroUsize,

    /// Addresses of the names of a namespace: of those in its rules, and of those under wildcards that its pods asked for.
    #[arg(long, value_name = "N", default_value = "20000")]
    pub max_addresses_per_namespace: NonZeroUsize,

    /// Names in the rules of a namespace.
    #[arg(long, value_name = "N", default_value = "10000")]
    pub max_names_per_namespace: NonZeroUsize,

    /// In a cluster, an annotation of a Namespace may set the addresses of its names to so many at most.
    #[arg(long, value_name = "N", default_value = "100000")]
    pub max_addresses_by_annotation: NonZeroUsize,

    /// In a cluster, an annotation of a Namespace may set the names in its rules to so many at most.
    #[arg(long, value_name = "N", default_value = "20000")]
    pub max_names_by_annotation: NonZeroUsize,

    /// Addresses of a name.
    #[arg(long, value_name = "N", default_value = "1000")]
    pub max_addresses_per_name: NonZeroUsize,

    /// Names under a wildcard.
    #[arg(long, value_name = "N", default_value = "1024")]
    pub max_names_per_wildcard: NonZeroUsize,

    /// More networks whose addresses are refused in answers; may be given several times. Loopback, link-local, cloud metadata
    /// and the like always are, and in a cluster its API server, Services, pods and Nodes, as far as the collector may read
    /// where they are (EndpointSlices of default/kubernetes, ServiceCIDRs, Nodes, ClusterUserDefinedNetworks). The ovn-writer knows no more of a cluster's
    /// networks than its own flags of this kind say.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub deny_answer: Vec<IpNet>,
}

impl KeepArgs {
    /// The limits that the flags set; the others are as they are by default.
    ///
    /// # Errors
    /// `--min-ttl` is over `--max-ttl`.
    pub fn limits(&self) -> Result<Limits, UsageError> {
        if self.min_ttl > self.max_ttl {
            return Err(UsageError("--min-ttl is over --max-ttl".to_owned()));
        }
        Ok(Limits {
            min_ttl: self.min_ttl,
            max_ttl: self.max_ttl,
            grace: self.grace,
            retain: self.retain,
            addresses_per_name: self.max_addresses_per_name.get(),
            names_per_wildcard: self.max_names_per_wildcard.get(),
            ..Limits::default()
        })
    }

    /// What all namespaces may have, and each of them.
    pub fn namespace_limits(&self, etcd_quota: u64) -> NamespaceLimits {
        NamespaceLimits {
            addresses: self.max_addresses.get(),
            bytes: most_stored(etcd_quota),
            each: self.quota_rules().defaults,
        }
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

    /// The terms of names, and how far annotations may go.
    pub fn terms(&self) -> RetentionRules {
        RetentionRules {
            defaults: RetentionPolicy {
                grace: self.grace,
                min_ttl: self.min_ttl,
                retain: self.retain,
                ..RetentionPolicy::default()
            },
            ceilings: Ceilings {
                grace: self.max_grace,
                min_ttl: self.max_min_ttl,
                retain: self.max_retain,
            },
        }
    }
}
