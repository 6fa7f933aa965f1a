//! The command line.

use std::time::Duration;

use clap::Parser;
use ipnet::IpNet;
use runtime::{
    UsageError,
    address_filter::Filter,
    args::{
        CommonArgs, StoreAddress, headings, own_namespace, parse_duration, parse_namespace,
        parse_size, parse_time,
    },
    clock::Timestamp,
    listen::{ListenAddress, parse_local},
};

use crate::{egress::DnsPeers, planner::Options};

/// The prefix of the environment variables.
pub const PREFIX: &str = "POLICY_WRITER";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9094";

const WRITES: &str = "Writes";
const CONTENTS: &str = "Contents";
const DNS: &str = "DNS";

/// The longest time ahead for `--adopt-until`.
const LONGEST_ADOPTION: Duration = Duration::from_secs(24 * 3600);

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  In a cluster:          policy-writer --store kube --leader-elect
  Without Kubernetes:    policy-writer --store dir:/var/lib/egress --dnsresolver-objects-namespace names
  From another operator: policy-writer --store kube --adopt-until 2026-01-31T15:04:05Z";

/// Writes the addresses of DNS names into IPMaps, NetworkPolicies, and NetworkSets of Calico, as DNSResolver objects ask.
#[derive(Clone, Debug, Parser)]
#[command(name = "policy-writer", version = runtime::VERSION, after_help = EXAMPLES)]
pub struct Args {
    /// The flags of all programs.
    #[command(flatten)]
    pub common: CommonArgs,

    /// The namespace of the DNSNameResolver objects that the collector makes for DNSResolvers, and of the Lease.
    ///
    /// It differs from `--objects-namespace`, where ovn-kubernetes deletes objects that no EgressFirewall uses. Default: the namespace of
    /// the pod, and `egress-by-name` outside of a pod. The collector has the same flag and default.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace, help_heading = headings::STORE)]
    pub dnsresolver_objects_namespace: Option<String>,

    /// The URL where the policy-writer shows its state in JSON.
    ///
    /// `unix:///run/inspect.sock`, or `tcp://` with a loopback address, such as `tcp://127.0.0.1:9095`. The state has the names of all
    /// tenants, so other hosts cannot reach it. Default: none.
    #[arg(long, value_name = "URL", value_parser = parse_local, help_heading = headings::OBSERVABILITY)]
    pub inspect: Option<ListenAddress>,

    /// Write only while no other replica writes.
    ///
    /// The replicas share the Lease `policy-writer` in `--dnsresolver-objects-namespace`, or a lock in the folder.
    #[arg(long, help_heading = WRITES)]
    pub leader_elect: bool,

    /// The bytes a second of all writes of objects.
    ///
    /// Unspent bytes are saved for 10 s. Small writes go first, and namespaces that have written little. A write waits at most 10 s while its namespace is within its share.
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "256KiB", value_parser = parse_size, help_heading = WRITES)]
    pub policy_write_bytes: usize,

    /// Until this time, keep the addresses in objects that dns-resolution-operator made, for `--dnsresolver-retain`.
    ///
    /// An RFC 3339 time within the next day, such as 2026-01-31T15:04:05Z. Stop that operator first. Default: none; then only addresses
    /// that the collector knows count.
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = WRITES)]
    pub adopt_until: Option<Timestamp>,

    /// How long adopted addresses stay.
    ///
    /// The collector has a flag of this name for addresses that it no longer finds.
    #[arg(long, hide_short_help = true, value_name = "DURATION", default_value = "1h", value_parser = parse_duration, help_heading = CONTENTS)]
    pub dnsresolver_retain: Duration,

    /// The most addresses in the objects of one DNSResolver.
    ///
    /// At the limit new addresses are left out. An object also has at most 1 MiB.
    #[arg(long, value_name = "COUNT", default_value_t = 5_000, help_heading = CONTENTS)]
    pub dnsresolver_max_addresses: usize,

    /// The most bytes of the objects of all DNSResolvers of a namespace together.
    ///
    /// At the limit new addresses are left out, and those that are written stay.
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size, help_heading = CONTENTS)]
    pub dnsresolver_max_bytes: usize,

    /// The prefix of labels that a NetworkSet takes from its DNSResolver.
    ///
    /// A GlobalNetworkPolicy selects sets of all namespaces by label. Default: none; then a NetworkSet has no labels.
    #[arg(long, hide_short_help = true, value_name = "PREFIX", help_heading = CONTENTS)]
    pub networkset_label_prefix: Option<String>,

    /// The networks of the cluster's pods; repeatable.
    ///
    /// No object has addresses of these networks. If all are IPv4 networks, objects have only IPv4 addresses, and likewise for IPv6.
    /// Default: none, and both families.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = CONTENTS)]
    pub cluster_cidr: Vec<IpNet>,

    /// Networks whose addresses stand in no object, even if a status has them; repeatable.
    ///
    /// Loopback, link-local, multicast and cloud metadata addresses and the like stand in no object either. Default: none.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = CONTENTS)]
    pub deny_answer: Vec<IpNet>,

    /// Let each NetworkPolicy also allow DNS queries to `--dns-pods` and `--dns-address`.
    ///
    /// Without this flag another NetworkPolicy has to allow them; the condition DNSBlocked names DNSResolvers without one.
    #[arg(long, help_heading = DNS)]
    pub dns_egress: bool,

    /// The namespace and a label of the pods of the cluster's DNS service.
    #[arg(long, hide_short_help = true, value_name = "NAMESPACE/KEY=VALUE", default_value = "kube-system/k8s-app=kube-dns", value_parser = parse_pods, help_heading = DNS)]
    pub dns_pods: (String, String, String),

    /// Other networks where pods send DNS queries, such as the address of NodeLocal DNSCache; repeatable.
    ///
    /// Default: none.
    #[arg(long, hide_short_help = true, value_name = "CIDR", value_delimiter = ',', help_heading = DNS)]
    pub dns_address: Vec<IpNet>,
}

/// Parses `kube-system/k8s-app=kube-dns`.
fn parse_pods(text: &str) -> Result<(String, String, String), &'static str> {
    let words = "it is a namespace and a label, such as kube-system/k8s-app=kube-dns";
    let (namespace, label) = text.split_once('/').ok_or(words)?;
    let (key, value) = label.split_once('=').ok_or(words)?;
    parse_namespace(namespace).map_err(|_| words)?;
    if key.is_empty() {
        return Err(words);
    }
    Ok((namespace.to_owned(), key.to_owned(), value.to_owned()))
}

impl Args {
    /// The namespace of the DNSNameResolver objects.
    ///
    /// # Errors
    /// [`UsageError`] if it is that of other objects.
    pub fn namespace(&self) -> Result<String, UsageError> {
        let told = self.dnsresolver_objects_namespace.clone();
        let namespace = told.unwrap_or_else(own_namespace);
        if namespace == self.common.objects_namespace {
            return Err(UsageError(format!(
                "--dnsresolver-objects-namespace is {namespace}, as --objects-namespace: ovn-kubernetes deletes objects there that no EgressFirewall uses. Choose another namespace"
            )));
        }
        Ok(namespace)
    }

    /// How the objects are made. `now` is the time of day.
    ///
    /// # Errors
    /// [`UsageError`] for a time of `--adopt-until` that is too far ahead, and for limits of zero.
    pub fn options(&self, now: Timestamp) -> Result<Options, UsageError> {
        let usage = |words: &str| UsageError(words.to_owned());
        if self
            .adopt_until
            .is_some_and(|until| until.since(now) > LONGEST_ADOPTION)
        {
            return Err(usage(
                "--adopt-until is more than a day ahead; give a time within the next day",
            ));
        }
        let limits = [
            self.policy_write_bytes,
            self.dnsresolver_max_addresses,
            self.dnsresolver_max_bytes,
        ];
        if limits.contains(&0) {
            return Err(usage(
                "--policy-write-bytes, --dnsresolver-max-addresses and --dnsresolver-max-bytes are at least 1",
            ));
        }
        let (namespace, key, value) = self.dns_pods.clone();
        let dns = DnsPeers {
            pods: Some((namespace, (key, value))),
            networks: self.dns_address.clone(),
        };
        Ok(Options {
            filter: Filter::new(self.cluster_cidr.clone()).deny(self.deny_answer.clone()),
            max_addresses: self.dnsresolver_max_addresses,
            namespace_bytes: self.dnsresolver_max_bytes,
            write_bytes: self.policy_write_bytes,
            retain: self.dnsresolver_retain,
            adopt_until: self.adopt_until,
            label_prefix: self
                .networkset_label_prefix
                .clone()
                .filter(|prefix| !prefix.is_empty()),
            dns: self.dns_egress.then_some(dns),
            collects_garbage: self.common.store == StoreAddress::Kube,
        })
    }
}

#[cfg(test)]
mod tests {
    use runtime::args::try_parse_from;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    fn args(args: &[&str]) -> Args {
        let args = [
            &[
                "policy-writer",
                "--store=kube",
                "--dnsresolver-objects-namespace=names",
            ],
            args,
        ]
        .concat();
        try_parse_from(PREFIX, ADMIN, args, |_| None).unwrap()
    }

    #[test]
    fn the_objects_have_a_namespace_of_their_own() {
        let own = ["policy-writer", "--store=kube"];
        let own: Args = try_parse_from(PREFIX, ADMIN, own, |_| None).unwrap();
        assert_eq!(own.namespace().unwrap(), own_namespace());
        assert_eq!(args(&[]).namespace().unwrap(), "names");
        let error = args(&["--objects-namespace=names"])
            .namespace()
            .unwrap_err();
        assert!(error.0.contains("ovn-kubernetes"), "{error}");
    }

    #[test]
    fn dns_is_allowed_only_if_asked_for() {
        let options = |told: &[&str]| args(told).options(NOW).unwrap();
        assert_eq!(options(&[]).dns, None);
        let dns = options(&["--dns-egress", "--dns-address=169.254.20.10/32"])
            .dns
            .unwrap();
        assert_eq!(dns.pods.unwrap().1.1, "kube-dns");
        assert_eq!(dns.networks.len(), 1);
        assert!(parse_pods("kube-system").is_err() && parse_pods("A/b=c").is_err());
    }

    #[test]
    fn adoption_ends_within_a_day() {
        let until = |time: &str| args(&[&format!("--adopt-until={time}")]).options(NOW);
        assert!(until("2026-01-01T23:59:59Z").unwrap().adopt_until.is_some());
        assert!(
            until("2026-01-02T00:00:01Z")
                .unwrap_err()
                .0
                .contains("a day")
        );
        for zero in ["--policy-write-bytes=0", "--dnsresolver-max-bytes=0"] {
            assert!(args(&[zero]).options(NOW).is_err());
        }
    }
}
