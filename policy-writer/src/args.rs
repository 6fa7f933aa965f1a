//! The command line.

use clap::Parser;
use ipnet::IpNet;
use runtime::{
    address_filter::Filter,
    args::{CommonArgs, headings, own_namespace, parse_namespace},
    listen::{ListenAddress, parse_local},
};

use crate::plan::{Options, egress::DnsPeers};

/// The prefix of the environment variables.
pub const PREFIX: &str = "POLICY_WRITER";

/// The default of `--admin`.
pub const ADMIN: &str = "127.0.0.1:9094";

const WRITES: &str = "Writes";
const CONTENTS: &str = "Contents";
const DNS: &str = "DNS";

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  In a cluster:        policy-writer --store kube --leader-elect
  Without Kubernetes:  policy-writer --store dir:/var/lib/egress --dnsresolver-objects-namespace names";

/// Writes the addresses of DNS names into IPMaps, NetworkPolicies, and NetworkSets of Calico, as DNSResolver objects ask.
#[derive(Clone, Debug, Parser)]
#[command(name = "policy-writer", version = runtime::VERSION, after_help = EXAMPLES)]
pub struct Args {
    /// The flags of all programs.
    #[command(flatten)]
    pub common: CommonArgs,

    /// The namespace of the DNSNameResolver objects that the collector makes for DNSResolvers, and of the Lease.
    ///
    /// Default: the namespace of the pod, and `egress-by-name` outside of a pod. The collector has the same flag and default.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace, help_heading = headings::STORE)]
    pub dnsresolver_objects_namespace: Option<String>,

    /// The URL where the policy-writer shows its state, as a page and as JSON.
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

    /// The prefix of labels that a NetworkSet takes from its DNSResolver.
    ///
    /// A GlobalNetworkPolicy selects sets of all namespaces by label. Default: none; then a NetworkSet has no labels.
    #[arg(long, value_name = "PREFIX", help_heading = CONTENTS)]
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

    /// The namespace and a label of the pods of the cluster's DNS service, such as `kube-system/k8s-app=kube-dns`.
    ///
    /// Each NetworkPolicy also allows DNS queries to them. Default: none; then another NetworkPolicy has to allow them, and the condition
    /// DNSBlocked names DNSResolvers without one.
    #[arg(long, value_name = "NAMESPACE/KEY=VALUE", value_parser = parse_pods, help_heading = DNS)]
    pub dns_pods: Option<(String, String, String)>,

    /// Networks where pods send DNS queries, such as the address of NodeLocal DNSCache; repeatable.
    ///
    /// Each NetworkPolicy also allows DNS queries to them. Default: none.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = DNS)]
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
    pub fn namespace(&self) -> String {
        let given = self.dnsresolver_objects_namespace.clone();
        given.unwrap_or_else(own_namespace)
    }

    /// How the objects are made.
    pub fn options(&self) -> Options {
        let pods = self.dns_pods.clone();
        let dns = DnsPeers {
            pods: pods.map(|(namespace, key, value)| (namespace, (key, value))),
            networks: self.dns_address.clone(),
        };
        let prefix = self.networkset_label_prefix.clone();
        Options {
            filter: Filter::new(self.cluster_cidr.clone()).deny(self.deny_answer.clone()),
            label_prefix: prefix.filter(|prefix| !prefix.is_empty()),
            dns: (dns != DnsPeers::default()).then_some(dns),
        }
    }
}

#[cfg(test)]
mod tests {
    use runtime::args::try_parse_from;

    use super::*;

    #[test]
    fn dns_is_allowed_only_with_pods_or_addresses() {
        let dns = |flags: &[&str]| {
            let args = [&["policy-writer", "--store=kube"], flags].concat();
            let args: Args = try_parse_from(PREFIX, ADMIN, args, |_| None).unwrap();
            args.options().dns
        };
        assert_eq!(dns(&[]), None);
        let pods = dns(&["--dns-pods=kube-system/k8s-app=kube-dns"]).unwrap();
        assert_eq!(pods.pods.unwrap().1.1, "kube-dns");
        let networks = dns(&["--dns-address=169.254.20.10/32"]).unwrap();
        assert_eq!((networks.pods, networks.networks.len()), (None, 1));
        assert!(parse_pods("kube-system").is_err() && parse_pods("A/b=c").is_err());
    }
}
