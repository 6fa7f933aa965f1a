//! The packets that NetworkPolicies let out of a pod, as the API defines it.
//!
//! An independent reading of `networking.k8s.io/v1`: a pod that no policy selects for egress may send everything. Else each
//! packet needs a rule of any policy that selects the pod. A rule without peers allows every destination, and a rule without
//! ports every port.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::{
    api::networking::v1::{NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPort},
    apimachinery::pkg::util::intstr::IntOrString,
};

/// A packet to an address outside of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub to: IpAddr,
    pub protocol: &'static str,
    pub port: i32,
}

/// Whether a pod with these labels may send the packet. The policies are those of its namespace. Selectors have labels
/// alone.
///
/// # Panics
/// If a block is malformed.
pub fn passes(
    policies: &[NetworkPolicy],
    labels: &BTreeMap<String, String>,
    packet: Packet,
) -> bool {
    let specs = policies.iter().filter_map(|policy| policy.spec.as_ref());
    let selects = |policy: &&k8s_openapi::api::networking::v1::NetworkPolicySpec| {
        let selector = policy.pod_selector.clone().unwrap_or_default();
        let wanted = selector.match_labels.unwrap_or_default();
        let is_egress = match &policy.policy_types {
            Some(types) => types.iter().any(|kind| kind == "Egress"),
            None => policy.egress.is_some(),
        };
        is_egress
            && wanted
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
    };
    let mut selecting = specs.filter(selects).peekable();
    if selecting.peek().is_none() {
        return true;
    }
    let rules = selecting.flat_map(|spec| spec.egress.iter().flatten());
    rules.into_iter().any(|rule| allows(rule, packet))
}

fn allows(rule: &NetworkPolicyEgressRule, packet: Packet) -> bool {
    let peers = rule.to.as_deref().unwrap_or_default();
    let is_to = peers.iter().any(|peer| {
        // Selectors are for pods of the cluster.
        let block = peer.ip_block.as_ref();
        block.is_some_and(|block| {
            let except = block.except.iter().flatten();
            contains(&block.cidr, packet.to)
                && !except.into_iter().any(|it| contains(it, packet.to))
        })
    });
    let ports = rule.ports.as_deref().unwrap_or_default();
    let is_port = ports.iter().any(|port| is_of(port, packet));
    (peers.is_empty() || is_to) && (ports.is_empty() || is_port)
}

fn is_of(port: &NetworkPolicyPort, packet: Packet) -> bool {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let is_number = match (&port.port, port.end_port) {
        (None, _) => true,
        (Some(IntOrString::Int(from)), Some(to)) => (*from..=to).contains(&packet.port),
        (Some(IntOrString::Int(port)), None) => *port == packet.port,
        (Some(IntOrString::String(_)), _) => false,
    };
    protocol == packet.protocol && is_number
}

/// Whether a block contains an address, by its bits.
fn contains(cidr: &str, address: IpAddr) -> bool {
    let (base, length) = cidr.split_once('/').expect("a block");
    let (base, length): (IpAddr, u32) = (
        base.parse().expect("an address"),
        length.parse().expect("a length"),
    );
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let ((base, size), (address, other)) = (bits(base), bits(address));
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    size == other && base & mask == address & mask
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn verdict(egress: Value, to: &str) -> bool {
        let policy = json!({
            "metadata": {},
            "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress},
        });
        let packet = Packet {
            to: to.parse().unwrap(),
            protocol: "TCP",
            port: 443,
        };
        passes(
            &[serde_json::from_value(policy).unwrap()],
            &BTreeMap::new(),
            packet,
        )
    }

    #[test]
    fn rules_are_read_as_the_api_defines_them() {
        let one = json!([{"to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}]}]);
        for (egress, to, expected) in [
            (json!([]), "192.0.2.1", false),
            (json!([{}]), "192.0.2.1", true),
            (json!([{"to": []}]), "2001:db8::1", true),
            (one.clone(), "192.0.2.1", true),
            (one.clone(), "192.0.2.2", false),
            (one, "2001:db8::1", false),
            (json!([{"to": [{"podSelector": {}}]}]), "192.0.2.1", false),
            (
                json!([{"ports": [{"port": 53, "protocol": "UDP"}]}]),
                "192.0.2.1",
                false,
            ),
            (json!([{"ports": [{"port": 443}]}]), "192.0.2.1", true),
            (
                json!([{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["192.0.2.0/24"]}}]}]),
                "192.0.2.1",
                false,
            ),
            (
                json!([{"to": [{"ipBlock": {"cidr": "2001:db8::/32"}}]}]),
                "2001:db8::1",
                true,
            ),
        ] {
            assert_eq!(verdict(egress.clone(), to), expected, "{egress} {to}");
        }
        let packet = Packet {
            to: "192.0.2.1".parse().unwrap(),
            protocol: "TCP",
            port: 443,
        };
        assert!(passes(&[], &BTreeMap::new(), packet));
    }
}
