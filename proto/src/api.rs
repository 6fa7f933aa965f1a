//! The Kubernetes objects that the programs read and write, and the names derived from a DNS name.

mod dns_name_resolver;
mod egress_firewall;
mod names;
mod schema;

pub use self::{
    dns_name_resolver::{
        DEGRADED, DnsNameResolver, DnsNameResolverSpec, DnsNameResolverStatus, NO_RULE,
        ResolvedAddress, ResolvedName,
    },
    egress_firewall::{
        EgressFirewall, EgressFirewallDestination, EgressFirewallPort, EgressFirewallRule,
        EgressFirewallSpec, EgressFirewallStatus, RuleType, RuleTypeError,
    },
    names::{
        ADDRESS_SET_OWNER_TYPE, AddressSetHasher, DEFAULT_NETWORK_CONTROLLER, DnsName, Family,
        NameError, address_set_id, address_set_name, object_name,
    },
    schema::custom_resource_definitions,
};

#[cfg(test)]
mod tests;
