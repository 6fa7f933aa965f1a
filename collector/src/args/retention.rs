//! How long addresses stay.

use std::time::Duration;

use runtime::args::{format_duration, parse_duration};

use crate::rules::RetentionPolicy;
use names::{Limits, MIN_GRACE};

/// The flags of how long addresses stay.
#[derive(Clone, Debug, clap::Args)]
pub struct RetentionArgs {
    /// The smallest TTL: a smaller one in an answer counts as this.
    ///
    /// In whole seconds, rounded up, at least 1s. A TTL over 24h counts as 24h.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().min_ttl),
        value_parser = parse_duration
    )]
    pub min_ttl: Duration,

    /// How long an address stays after its TTL is over.
    ///
    /// At least 1s, since an answer may wait that long in the DNS server's buffer.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().grace),
        value_parser = parse_duration
    )]
    pub grace: Duration,

    /// How long an address stays after the last answer that had it, at least.
    ///
    /// The flag has no effect while TTL and `--grace` together are longer. For names in Deny rules it counts as at least 24h. 0 is strict:
    /// an address leaves when its TTL and `--grace` are over, also in Deny rules. The annotation
    /// `dnsnameresolver.network.openshift.io/retain` of an EgressFirewall replaces it for its names.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub retain: Duration,

    /// The longest time that an address stays while look-ups of its name fail.
    ///
    /// The time begins with the last answer that had the address.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().max_stale),
        value_parser = parse_duration
    )]
    pub max_stale: Duration,
}

impl RetentionArgs {
    /// The limits that the flags set; the others are as they are by default.
    pub fn limits(&self) -> Limits {
        Limits {
            min_ttl: self.min_ttl,
            grace: self.grace.max(MIN_GRACE),
            retain: self.retain,
            max_stale: self.max_stale,
            ..Limits::default()
        }
    }

    /// How long the addresses of names stay.
    pub fn retention(&self) -> RetentionPolicy {
        RetentionPolicy {
            grace: self.grace,
            min_ttl: self.min_ttl,
            retain: self.retain,
            ..RetentionPolicy::default()
        }
    }
}
