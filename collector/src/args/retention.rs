//! How long addresses stay.

use std::time::Duration;

use runtime::{
    UsageError,
    args::{format_duration, parse_duration},
};

use super::NameLimitArgs;
use crate::{
    rules::{Ceilings, RetentionPolicy, RetentionRules},
    state::Limits,
};

/// The flags of how long addresses stay.
#[derive(Clone, Debug, clap::Args)]
pub struct RetentionArgs {
    /// The smallest TTL: a smaller one in an answer counts as this.
    ///
    /// In whole seconds, rounded up, at least 1s. It cannot be over `--max-ttl`.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().min_ttl),
        value_parser = parse_duration
    )]
    pub min_ttl: Duration,

    /// The largest TTL: a larger one in an answer counts as this.
    ///
    /// In whole seconds.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().max_ttl),
        value_parser = parse_duration
    )]
    pub max_ttl: Duration,

    /// How long an address stays after its TTL is over.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().grace),
        value_parser = parse_duration
    )]
    pub grace: Duration,

    /// How long an address stays after the last answer that had it, at least.
    ///
    /// The flag has no effect while TTL and `--grace` together are longer. For names in Deny rules it counts as at least 24h.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().retain),
        value_parser = parse_duration
    )]
    pub retain: Duration,

    /// The largest `--grace` that an annotation of an EgressFirewall may set for its names.
    ///
    /// The annotation is `dnsnameresolver.network.openshift.io/grace`. A larger value counts as this one.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Ceilings::default().grace),
        value_parser = parse_duration
    )]
    pub max_grace: Duration,

    /// The largest `--min-ttl` that an annotation of an EgressFirewall may set for its names.
    ///
    /// The annotation is `dnsnameresolver.network.openshift.io/min-ttl`. A larger value counts as this one.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Ceilings::default().min_ttl),
        value_parser = parse_duration
    )]
    pub max_min_ttl: Duration,

    /// The largest `--retain` that an annotation of an EgressFirewall may set for its names.
    ///
    /// The annotation is `dnsnameresolver.network.openshift.io/retain`. A larger value counts as this one.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Ceilings::default().retain),
        value_parser = parse_duration
    )]
    pub max_retain: Duration,
}

impl RetentionArgs {
    /// The limits that the flags set; the others are as they are by default.
    ///
    /// # Errors
    /// `--min-ttl` is over `--max-ttl`.
    pub fn limits(&self, names: &NameLimitArgs) -> Result<Limits, UsageError> {
        if self.min_ttl > self.max_ttl {
            return Err(UsageError("--min-ttl is over --max-ttl".to_owned()));
        }
        Ok(Limits {
            min_ttl: self.min_ttl,
            max_ttl: self.max_ttl,
            grace: self.grace,
            retain: self.retain,
            addresses_per_name: names.max_addresses_per_name.get(),
            names_per_wildcard: names.max_names_per_wildcard.get(),
            ..Limits::default()
        })
    }

    /// How long the addresses of names stay, and how far annotations may go.
    pub fn retention_rules(&self) -> RetentionRules {
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
