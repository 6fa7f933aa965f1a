//! What rules do with an address: the first one that matches decides, as in OVN.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    net::IpAddr,
};

use ipnet::IpNet;

use super::{DnsName, EgressFirewallPort, EgressFirewallSpec, RuleType};

/// A name, in lower case and without the trailing dot, with its addresses.
pub type KnownName = (String, BTreeSet<IpAddr>);

/// The rules of a namespace, with the addresses of their names as far as they are known.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// Whether an address that no rule matches passes: not so for policies, which allow only what they list.
    passes_otherwise: bool,
}

#[derive(Debug)]
struct Rule {
    is_allowed: bool,
    /// Without any, it is for all ports.
    ports: Vec<String>,
    destination: Destination,
}

/// What a rule matches.
#[derive(Debug)]
enum Destination {
    /// The addresses of its names.
    Addresses(HashSet<IpAddr>),
    Network(IpNet),
    /// It cannot be judged here: Nodes by label, or a text that is neither name nor network.
    Unknown,
}

/// What happens to connections to an address.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verdict {
    /// They pass.
    Passes,
    /// They pass to these ports alone, such as `TCP 443`.
    OnlyPorts(Vec<String>),
    /// They pass, but not to these ports.
    NotPorts(Vec<String>),
    /// The rule at this place denies them.
    Denied(usize),
    /// No rule allows them.
    NoRule,
}

impl Verdict {
    /// Whether no connection passes.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::NoRule)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passes => f.write_str("passes"),
            Self::OnlyPorts(ports) => write!(f, "passes to {} alone", ports.join(", ")),
            Self::NotPorts(ports) => write!(f, "passes, but not to {}", ports.join(", ")),
            Self::Denied(index) => write!(f, "egress[{index}] denies it"),
            Self::NoRule => f.write_str("no DNSResolver has it"),
        }
    }
}

impl Rules {
    /// Those of an EgressFirewall. A name in a rule stands for the addresses that `known` has for it.
    pub fn of_firewall(spec: &EgressFirewallSpec, known: &[KnownName]) -> Self {
        let rules = spec.egress.iter().map(|rule| {
            let to = &rule.to;
            let network = to.cidr_selector.as_ref().and_then(|it| it.parse().ok());
            Rule {
                is_allowed: rule.rule_type == RuleType::Allow,
                ports: rule.ports.iter().map(port).collect(),
                destination: match (&to.dns_name, network) {
                    (Some(name), _) => Destination::of_names([name.as_str()], known),
                    (None, Some(network)) => Destination::Network(network),
                    (None, None) => Destination::Unknown,
                },
            }
        });
        Self {
            rules: rules.collect(),
            passes_otherwise: true,
        }
    }

    /// Those of the names in DNSResolvers, whose addresses alone pass.
    pub fn of_resolvers<'a>(names: impl IntoIterator<Item = &'a str>, known: &[KnownName]) -> Self {
        let rule = Rule {
            is_allowed: true,
            ports: Vec::new(),
            destination: Destination::of_names(names, known),
        };
        Self {
            rules: vec![rule],
            passes_otherwise: false,
        }
    }

    /// The places of rules whose destination cannot be judged: they count as if they matched nothing.
    pub fn unknown(&self) -> impl Iterator<Item = usize> {
        let rules = self.rules.iter().enumerate();
        let unknown = rules.filter(|(_, rule)| matches!(rule.destination, Destination::Unknown));
        unknown.map(|(index, _)| index)
    }

    /// What happens to connections to this address.
    pub fn verdict(&self, address: IpAddr) -> Verdict {
        let rules = self.rules.iter().enumerate();
        let mut matching = rules.filter(|(_, rule)| rule.matches(address));
        let mut of_ports: Vec<&Rule> = Vec::new();
        let decides = matching.find(|(_, rule)| {
            if !rule.ports.is_empty() {
                of_ports.push(rule);
            }
            rule.ports.is_empty()
        });
        let passes = decides.map_or(self.passes_otherwise, |(_, rule)| rule.is_allowed);
        // Of two rules for one port, the first decides.
        let (mut seen, mut others) = (BTreeSet::new(), BTreeSet::new());
        for rule in of_ports {
            for port in &rule.ports {
                if seen.insert(port) && rule.is_allowed != passes {
                    others.insert(port.clone());
                }
            }
        }
        let others: Vec<String> = others.into_iter().collect();
        match (passes, decides) {
            (true, _) if others.is_empty() => Verdict::Passes,
            (true, _) => Verdict::NotPorts(others),
            (false, _) if !others.is_empty() => Verdict::OnlyPorts(others),
            (false, Some((index, _))) => Verdict::Denied(index),
            (false, None) => Verdict::NoRule,
        }
    }
}

impl Rule {
    fn matches(&self, address: IpAddr) -> bool {
        match &self.destination {
            Destination::Addresses(addresses) => addresses.contains(&address),
            Destination::Network(network) => network.contains(&address),
            Destination::Unknown => false,
        }
    }
}

impl Destination {
    fn of_names<'a>(names: impl IntoIterator<Item = &'a str>, known: &[KnownName]) -> Self {
        let names = names.into_iter().filter_map(|it| DnsName::parse(it).ok());
        let names = names.map(|it| it.as_str().trim_end_matches('.').to_owned());
        let names: HashSet<String> = names.collect();
        let of_them = known.iter().filter(|(name, _)| {
            // A name that no rule can have, such as `a_b.example.com`, is in the set of a wildcard all the same.
            let parent = name.split_once('.').map(|(_, parent)| parent);
            let wildcard = parent.map(|parent| format!("*.{parent}"));
            names.contains(name) || wildcard.is_some_and(|it| names.contains(&it))
        });
        Self::Addresses(of_them.flat_map(|(_, ips)| ips.iter().copied()).collect())
    }
}

/// A port as people write it, such as `TCP 443`.
fn port(port: &EgressFirewallPort) -> String {
    format!("{} {}", port.protocol, port.port)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn known(name: &str, addresses: &[&str]) -> KnownName {
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap());
        (name.to_owned(), addresses.collect())
    }

    fn verdicts(rules: Value, addresses: &[&str]) -> Vec<Verdict> {
        let spec: EgressFirewallSpec = serde_json::from_value(json!({"egress": rules})).unwrap();
        let known = [
            known("www.example.com", &["192.0.2.1", "2001:db8::1"]),
            known("a.wild.example.com", &["192.0.2.2"]),
            known("cdn.example.org", &["192.0.2.1"]),
        ];
        let rules = Rules::of_firewall(&spec, &known);
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap());
        addresses.map(|ip| rules.verdict(ip)).collect()
    }

    #[test]
    fn first_rule_that_matches_decides_and_without_one_all_passes() {
        let rules = json!([
            {"type": "Allow", "to": {"dnsName": "WWW.example.com."}},
            {"type": "Allow", "to": {"dnsName": "*.wild.example.com"}},
            {"type": "Deny", "to": {"cidrSelector": "192.0.2.0/24"}},
        ]);
        assert_eq!(
            verdicts(
                rules,
                &[
                    "192.0.2.1",
                    "2001:db8::1",
                    "192.0.2.2",
                    "192.0.2.3",
                    "198.51.100.1"
                ]
            ),
            [
                Verdict::Passes,
                Verdict::Passes,
                Verdict::Passes,
                Verdict::Denied(2),
                Verdict::Passes
            ]
        );
    }

    #[test]
    fn rule_for_ports_decides_for_these_alone() {
        let https = json!([{"protocol": "TCP", "port": 443}]);
        let rules = json!([
            {"type": "Allow", "to": {"dnsName": "www.example.com"}, "ports": https},
            {"type": "Deny", "to": {"dnsName": "*.wild.example.com"}, "ports": https},
            {"type": "Allow", "to": {"dnsName": "*.wild.example.com"}},
            {"type": "Deny", "to": {"cidrSelector": "0.0.0.0/0"}},
        ]);
        let ports = vec!["TCP 443".to_owned()];
        assert_eq!(
            verdicts(rules, &["192.0.2.1", "192.0.2.2"]),
            [Verdict::OnlyPorts(ports.clone()), Verdict::NotPorts(ports)]
        );
    }

    #[test]
    fn wildcard_has_names_of_one_more_label_and_also_those_that_no_rule_can_have() {
        let known = [
            known("a_b.example.com", &["192.0.2.1"]),
            known("a.b.example.com", &["192.0.2.2"]),
            known("example.com", &["192.0.2.3"]),
        ];
        let rules = Rules::of_resolvers(["*.Example.com."], &known);
        let passes = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
            .map(|ip| !rules.verdict(ip.parse().unwrap()).is_blocked());
        assert_eq!(passes, [true, false, false]);
    }

    #[test]
    fn rule_that_cannot_be_judged_is_named_and_matches_nothing() {
        let rules = json!([
            {"type": "Deny", "to": {"nodeSelector": {}}},
            {"type": "Deny", "to": {"cidrSelector": "192.0.2.1"}},
            {"type": "Deny", "to": {"cidrSelector": "198.51.100.0/24"}},
        ]);
        let spec = serde_json::from_value(json!({"egress": rules})).unwrap();
        let rules = Rules::of_firewall(&spec, &[]);
        assert_eq!(rules.unknown().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(rules.verdict("192.0.2.1".parse().unwrap()), Verdict::Passes);
    }

    #[test]
    fn resolvers_allow_the_addresses_of_their_names_alone() {
        let known = [
            known("www.example.com", &["192.0.2.1"]),
            known("api.example.com", &["192.0.2.2"]),
        ];
        let rules = Rules::of_resolvers(["www.example.com"], &known);
        assert_eq!(rules.verdict("192.0.2.1".parse().unwrap()), Verdict::Passes);
        assert!(rules.verdict("192.0.2.2".parse().unwrap()).is_blocked());
    }
}
