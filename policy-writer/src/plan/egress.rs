//! The egress rules of a NetworkPolicy. No other code makes one.
//!
//! In a NetworkPolicy an empty list of rules refuses everything, and a rule without peers allows everything. So a rule
//! is made only with at least one peer.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use k8s_openapi::{
    api::networking::v1::{
        IPBlock, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

/// The port of DNS.
const DNS_PORT: i32 = 53;

/// The label with a Namespace's own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The policy type of all policies of this program.
const EGRESS: &str = "Egress";

/// Where pods send DNS queries.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DnsPeers {
    /// The namespace and one label of the DNS pods.
    pub pods: Option<(String, (String, String))>,
    /// Other addresses, such as that of NodeLocal DNSCache.
    pub networks: Vec<IpNet>,
}

/// The policy that allows all pods of the namespace these addresses, and DNS if the peers are given: each address once in
/// one rule, and a rule for DNS. Without addresses and peers there is no rule, so everything is refused.
pub fn policy(addresses: &BTreeSet<IpAddr>, dns: Option<&DnsPeers>) -> NetworkPolicySpec {
    let blocks = addresses.iter().map(|address| block(cidr(*address)));
    let found = rule(blocks.collect(), None);
    let dns = dns.and_then(|peers| rule(dns_peers(peers), Some(dns_ports())));
    NetworkPolicySpec {
        pod_selector: Some(LabelSelector::default()),
        policy_types: Some(vec![EGRESS.to_owned()]),
        egress: Some(found.into_iter().chain(dns).collect()),
        ingress: None,
    }
}

/// The CIDR block of one address.
pub fn cidr(address: IpAddr) -> String {
    IpNet::from(address).to_string()
}

/// A rule, unless it has no peer and would allow everything.
fn rule(
    to: Vec<NetworkPolicyPeer>,
    ports: Option<Vec<NetworkPolicyPort>>,
) -> Option<NetworkPolicyEgressRule> {
    (!to.is_empty()).then_some(NetworkPolicyEgressRule {
        to: Some(to),
        ports,
    })
}

fn block(cidr: String) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr, except: None }),
        ..NetworkPolicyPeer::default()
    }
}

fn dns_peers(peers: &DnsPeers) -> Vec<NetworkPolicyPeer> {
    let selector = |key: &str, value: &str| LabelSelector {
        match_labels: Some([(key.to_owned(), value.to_owned())].into()),
        ..LabelSelector::default()
    };
    let pods = peers
        .pods
        .iter()
        .map(|(namespace, (key, value))| NetworkPolicyPeer {
            namespace_selector: Some(selector(NAMESPACE_NAME, namespace)),
            pod_selector: Some(selector(key, value)),
            ip_block: None,
        });
    let networks = peers
        .networks
        .iter()
        .map(|network| block(network.to_string()));
    pods.chain(networks).collect()
}

fn dns_ports() -> Vec<NetworkPolicyPort> {
    let port = |protocol: &str| NetworkPolicyPort {
        port: Some(IntOrString::Int(DNS_PORT)),
        protocol: Some(protocol.to_owned()),
        end_port: None,
    };
    vec![port("UDP"), port("TCP")]
}

/// Whether the policy lets some pods reach pods of another namespace, or anything, on the UDP port of DNS. Where the
/// DNS pods are is not compared.
pub fn allows_dns(spec: &NetworkPolicySpec) -> bool {
    let rules = spec.egress.iter().flatten();
    rules.into_iter().any(|rule| {
        let ports = rule.ports.as_deref().unwrap_or_default();
        let to = rule.to.as_deref().unwrap_or_default();
        let is_wide = |peer: &NetworkPolicyPeer| {
            let block = peer.ip_block.as_ref();
            let network = block.and_then(|block| block.cidr.parse::<IpNet>().ok());
            peer.namespace_selector.is_some()
                || network.is_some_and(|network| network.prefix_len() < network.max_prefix_len())
        };
        let is_explicit = ports.iter().any(is_dns);
        is_explicit || (ports.is_empty() && (to.is_empty() || to.iter().any(is_wide)))
    })
}

fn is_dns(port: &NetworkPolicyPort) -> bool {
    let is_udp = port.protocol.as_deref() == Some("UDP");
    let is_port = match (&port.port, port.end_port) {
        (None, _) => true,
        (Some(IntOrString::Int(from)), Some(to)) => (*from..=to).contains(&DNS_PORT),
        (Some(IntOrString::Int(port)), None) => *port == DNS_PORT,
        // A named port of the DNS pods.
        (Some(IntOrString::String(_)), _) => true,
    };
    is_udp && is_port
}

/// Whether a rule of the policy has no peer, so that it allows every destination.
pub fn opens_everything(spec: &NetworkPolicySpec) -> bool {
    let mut rules = spec.egress.iter().flatten();
    rules.any(|rule| rule.to.as_ref().is_none_or(Vec::is_empty))
}

/// The single addresses that the policy allows.
pub fn addresses(spec: &NetworkPolicySpec) -> impl Iterator<Item = IpAddr> {
    let rules = spec.egress.iter().flatten();
    let peers = rules.flat_map(|rule| rule.to.iter().flatten());
    let blocks = peers.filter_map(|peer| peer.ip_block.as_ref());
    blocks.filter_map(|block| single(&block.cidr))
}

/// The address of a block of one address.
pub fn single(cidr: &str) -> Option<IpAddr> {
    let network: IpNet = cidr.parse().ok()?;
    (network.prefix_len() == network.max_prefix_len()).then(|| network.addr())
}

#[cfg(test)]
mod tests;
