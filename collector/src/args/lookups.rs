//! Look-ups: which DNS servers are queried, and for which names.

use std::time::Duration;

use clap::Args;
use runtime::{
    args::{format_duration, parse_duration},
    store::ObjectKey,
};

use crate::{cluster::endpoints::parse_service, lookup::ResolverSpec};
use names::Limits;

/// The flags of look-ups.
#[derive(Args, Clone, Debug)]
pub struct LookupArgs {
    /// The DNS servers that the collector asks for the addresses of names.
    ///
    /// `kube`: the pods of `--resolver-service`. `resolv.conf`: the servers in /etc/resolv.conf.
    /// A list such as `10.0.0.10:53,10.0.0.11`: these servers, at port 53 by default. `none`: no look-ups; an address leaves when its times
    /// are over. Default: `kube` with `--store kube`, `resolv.conf` with a folder.
    #[arg(long, value_name = "SERVERS")]
    pub resolver: Option<ResolverSpec>,

    /// The Services of the cluster's DNS; repeatable.
    ///
    /// `--resolver kube` asks their pods. These pods may also stream over TCP and TLS. On OpenShift it is `openshift-dns/dns-default`.
    /// Only with `--store kube`.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        value_delimiter = ',',
        default_value = "kube-system/kube-dns",
        value_parser = parse_service
    )]
    pub resolver_service: Vec<ObjectKey>,

    /// The Services of all collectors, this one included; repeatable.
    ///
    /// The collector ignores DNS queries from their pods when it learns which names clients use. Only with `--store kube`. Default: none,
    /// for a collector without others.
    #[arg(long, value_name = "NAMESPACE/NAME", value_delimiter = ',', value_parser = parse_service)]
    pub peer_service: Vec<ObjectKey>,

    /// How long the collector looks up a name under a wildcard that no client asks for.
    ///
    /// The time begins with the last query of a client. After that the addresses of the name leave when their times are over.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = format_duration(Limits::default().wildcard_idle),
        value_parser = parse_duration
    )]
    pub wildcard_idle: Duration,
}
