//! The Kubernetes objects that the programs read and write, and the names derived from a DNS name.

mod dns_name_resolver;
mod dns_resolver;
mod egress_firewall;
mod ip_map;
mod kube_ovn;
mod lint;
mod names;
mod network_set;
mod verdict;

pub use self::{
    dns_name_resolver::{
        ANSWER_REFUSED, DEGRADED, DnsNameResolver, DnsNameResolverSpec, DnsNameResolverStatus,
        ResolvedAddress, ResolvedName,
    },
    dns_resolver::{
        DnsResolver, DnsResolverSpec, DnsResolverStatus, GenerateType, MAX_DOMAIN_LENGTH,
        MAX_DOMAINS,
    },
    egress_firewall::{
        EgressFirewall, EgressFirewallDestination, EgressFirewallPort, EgressFirewallRule,
        EgressFirewallSpec, EgressFirewallStatus, RuleType, RuleTypeError,
    },
    ip_map::{IpList, IpMap, IpMapData, IpMapDefinition},
    kube_ovn::{KubeOvnDnsNameResolver, KubeOvnDnsNameResolverSpec, POLICY_LABEL},
    lint::Lint,
    names::{
        ADDRESS_SET_OWNER_TYPE, AddressSetHasher, DEFAULT_NETWORK_CONTROLLER, DnsName, Family,
        NameError, address_set_id, address_set_name, object_name,
    },
    network_set::{CrdNetworkSet, CrdNetworkSetSpec, NetworkSet, NetworkSetSpec},
    verdict::{KnownName, Rules, Verdict},
};

#[cfg(test)]
mod tests;
