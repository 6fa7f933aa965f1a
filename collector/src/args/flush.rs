//! Flush probes: how often, how many, and for which names.

use std::{sync::Arc, time::Duration};

use clap::Args;
use proto::api::DnsName;
use runtime::args::parse_duration;

use crate::flush::Template;

/// The flags of flush probes.
#[derive(Args, Clone, Debug)]
pub struct FlushArgs {
    /// How often the collector makes each CoreDNS flush its dnstap buffer.
    ///
    /// 1ms to 10s; a larger value counts as 10s. CoreDNS flushes once a second by itself. A probe is a DNS query of 4 KB over TCP. 0: no
    /// probes. The collector then cannot find a CoreDNS that is not
    /// streaming.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = parse_duration)]
    pub flush_probe: Duration,

    /// The names that flush probes ask for, one for each server block; repeatable.
    ///
    /// CoreDNS must answer each name by itself and must not forward it. NXDOMAIN is a valid answer. A wildcard is not allowed. Given names
    /// replace the default; repeat it to keep it.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "flush.cluster.local",
        value_parser = parse_name
    )]
    pub flush_name: Vec<DnsName>,
}

impl FlushArgs {
    /// The queries for each name, each once; nothing if none are to be sent.
    pub fn templates(&self) -> Option<Arc<[Template]>> {
        if self.flush_probe.is_zero() {
            return None;
        }
        let mut names = self.flush_name.clone();
        names.sort_unstable();
        names.dedup();
        Some(names.iter().filter_map(Template::new).collect())
    }
}

fn parse_name(text: &str) -> Result<DnsName, String> {
    let name = DnsName::parse(text).map_err(|error| error.to_string())?;
    if name.is_wildcard() {
        return Err("a wildcard cannot be queried".to_owned());
    }
    Ok(name)
}
