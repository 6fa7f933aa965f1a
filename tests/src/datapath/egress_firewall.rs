//! Namespaces and their EgressFirewalls, as ovn-kubernetes writes them into the northbound database.
//!
//! The form of the rows is that of ovn-kubernetes at 8871cd9cec9c45d6da1baf9e3b06eb575f49039c, below `go-controller/pkg`:
//!
//! - `ovn/controller/egressfirewall/egressfirewall.go`: `addEgressFirewallRules`, `generateMatch`;
//! - `libovsdb/util/acl.go` and `port_group.go`;
//! - `ovn/base_network_controller_policy.go`: `addHairpinAllowACL` and `addAllowACLFromNode`, whose `allow-related` ACLs
//!   make the switch stateful.

use std::{fs, net::IpAddr};

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER, DnsName, EgressFirewallRule, EgressFirewallSpec, Family, RuleType,
    address_set_name,
};
use serde_json::{Value, json};

use super::topology::{CLUSTER, NODE, port_addresses};
use crate::{northbound::Northbound, ovn, ovnkube::set_name, ovsdb::Client};

/// The port group of all nodes' own ports.
const CLUSTER_PORT_GROUP: &str = "clusterPortGroup";

/// `types.EgressFirewallStartPriority`.
const FIRST_PRIORITY: usize = 10_000;

/// `types.DefaultACLTier`.
const TIER: u8 = 2;

/// The number of the first pod of another namespace.
const FIRST_NUMBER: u8 = 100;

/// The namespaces of other EgressFirewalls. Each has a pod on this node, so that its rules make flows here.
const OTHERS: u8 = 100;

/// The names that each of them allows, beside a network. All else is denied: that makes ten ACLs.
const NAMES_EACH: u8 = 7;

/// Writes the EgressFirewalls of other namespaces: 1,000 ACLs, and the sets of their names.
///
/// # Panics
/// If the database refuses it.
pub fn create_others(northbound: &Northbound) {
    let mut client = client(northbound);
    for number in 0..OTHERS {
        transact(&mut client, other(number));
    }
}

fn other(number: u8) -> Vec<Value> {
    let (namespace, port) = (format!("other{number}"), format!("port{number}"));
    let mut operations = Vec::new();
    let mut rules = vec![Rule::network("allow", "ip4", "192.88.99.0/24")];
    for name in 0..NAMES_EACH {
        let addresses = [
            vec![format!("198.19.{number}.{name}")],
            vec![format!("2001:db8:1:{number:x}::{name:x}")],
        ];
        let name = format!("n{name}.{namespace}.example.");
        operations.extend(address_sets(&name, &addresses));
        rules.push(Rule::name(&name));
    }
    rules.extend(Rule::all_else());
    let addresses = port_addresses(FIRST_NUMBER + number).join(" ");
    let row = json!({
        "name": format!("{namespace}_pod"), "addresses": addresses, "port_security": addresses,
    });
    operations.push(insert("Logical_Switch_Port", &port, row));
    let new = json!([["ports", "insert", ["named-uuid", port]]]);
    operations.push(mutate("Logical_Switch", NODE, new));
    let acls = Acls::of(&namespace, &rules);
    let uuids = acls.uuids();
    operations.extend(acls.operations);
    operations.push(port_group(&namespace, json!(["named-uuid", port]), uuids));
    operations
}

/// Creates a namespace without pods and rules.
///
/// # Panics
/// If the database refuses it.
pub fn create_namespace(northbound: &Northbound, namespace: &str) {
    let none = json!(["set", []]);
    let operation = port_group(namespace, none.clone(), none);
    transact(&mut client(northbound), vec![operation]);
}

/// Adds a port of a pod to its namespace.
///
/// # Panics
/// If the database refuses it.
pub(super) fn add_port(northbound: &Northbound, namespace: &str, port: &str) {
    let get = ["get", "Logical_Switch_Port", port, "_uuid"];
    let uuid = northbound.nbctl(&get).expect("the port is there");
    let new = json!([["ports", "insert", ["uuid", uuid]]]);
    let operation = mutate("Port_Group", &port_group_name(namespace), new);
    transact(&mut client(northbound), vec![operation]);
}

/// Replaces the EgressFirewall of a namespace by one that allows these names and denies all else outside the cluster.
///
/// # Panics
/// If the database refuses it.
pub fn set_egress_firewall(northbound: &Northbound, namespace: &str, names: &[&str]) {
    let rules = names.iter().map(|name| Rule::name(name));
    let rules: Vec<_> = rules.chain(Rule::all_else()).collect();
    replace(northbound, namespace, &rules);
}

/// Replaces the EgressFirewall of a namespace by one with these rules.
///
/// # Panics
/// If the database refuses it.
pub fn set_rules(northbound: &Northbound, namespace: &str, spec: &EgressFirewallSpec) {
    let rules: Vec<_> = spec.egress.iter().map(Rule::of).collect();
    replace(northbound, namespace, &rules);
}

/// Creates the sets of names with these addresses.
///
/// # Panics
/// If the database refuses it.
pub fn create_sets(northbound: &Northbound, names: &[(DnsName, Vec<IpAddr>)]) {
    let operations = names.iter().flat_map(|(name, addresses)| {
        let of_family = Family::ALL.map(|family| {
            let is_of = |ip: &&IpAddr| ip.is_ipv4() == (family == Family::V4);
            let addresses = addresses.iter().filter(is_of).map(ToString::to_string);
            addresses.collect::<Vec<_>>()
        });
        address_sets(name.as_str(), &of_family)
    });
    transact(&mut client(northbound), operations.collect());
}

fn replace(northbound: &Northbound, namespace: &str, rules: &[Rule]) {
    let acls = Acls::of(namespace, rules);
    let uuids = acls.uuids();
    let mut operations = acls.operations;
    operations.push(json!({
        "op": "update", "table": "Port_Group", "row": {"acls": uuids},
        "where": [["name", "==", port_group_name(namespace)]],
    }));
    transact(&mut client(northbound), operations);
}

/// Creates the ACLs of the node itself.
pub(super) fn create_of_node(northbound: &Northbound) {
    let stateful = |name: &str, direction: &str, condition: &str| {
        let mut row = acl(1001, condition, "allow-related", json!([]));
        row["direction"] = direction.into();
        if direction == "from-lport" {
            row["options"] = json!(["map", [["apply-after-lb", "true"]]]);
        }
        insert("ACL", name, row)
    };
    let hairpin = "(ip4.src == 169.254.0.5 || ip6.src == fd69::5)";
    let named = |names: &[&str]| {
        let uuids = names.iter().map(|name| json!(["named-uuid", name]));
        json!(["set", uuids.collect::<Vec<_>>()])
    };
    let get = ["get", "Logical_Switch_Port", "k8s-node", "_uuid"];
    let own = northbound.nbctl(&get).expect("the node's own port");
    let group = json!({
        "name": CLUSTER_PORT_GROUP, "ports": ["uuid", own], "acls": named(&["ingress", "egress"]),
    });
    let of_switch = named(&["node4", "node6"]);
    let operations = vec![
        stateful("ingress", "to-lport", hairpin),
        stateful("egress", "from-lport", hairpin),
        insert("Port_Group", "cluster", group),
        stateful("node4", "to-lport", "ip4.src==10.128.0.2"),
        stateful("node6", "to-lport", "ip6.src==fd01::2"),
        mutate(
            "Logical_Switch",
            NODE,
            json!([["acls", "insert", of_switch]]),
        ),
    ];
    transact(&mut client(northbound), operations);
}

/// A rule: the destinations of its match, the match of its ports, and its action.
struct Rule {
    to: String,
    ports: String,
    action: &'static str,
}

impl Rule {
    fn name(name: &str) -> Self {
        let [v4, v6] = Family::ALL.map(|family| set_name(name, family));
        Self {
            to: format!("ip4.dst == ${v4} || ip6.dst == ${v6}"),
            ports: String::new(),
            action: "allow",
        }
    }

    fn network(action: &'static str, family: &str, network: &str) -> Self {
        Self {
            to: format!("{family}.dst == {network}"),
            ports: String::new(),
            action,
        }
    }

    /// A rule by name or network. Networks that have the cluster's exclude these.
    fn of(rule: &EgressFirewallRule) -> Self {
        let action = match rule.rule_type {
            RuleType::Allow => "allow",
            RuleType::Deny => "drop",
        };
        let network = rule.to.cidr_selector.as_deref();
        let to = match (&rule.to.dns_name, network) {
            (Some(name), _) => Self::name(DnsName::parse(name).expect("a name").as_str()),
            (None, Some("0.0.0.0/0")) => Self::all_else().into_iter().next().expect("IPv4"),
            (None, Some("::/0")) => Self::all_else().into_iter().nth(1).expect("IPv6"),
            (None, Some(network)) if network.contains(':') => Self::network(action, "ip6", network),
            (None, Some(network)) => Self::network(action, "ip4", network),
            (None, None) => panic!("{rule:?} has neither a name nor a network"),
        };
        let ports = rule.ports.iter().map(|it| {
            let protocol = it.protocol.to_lowercase();
            format!("({protocol} && ( {protocol}.dst == {} ))", it.port)
        });
        let ports: Vec<_> = ports.collect();
        Self {
            ports: match ports.is_empty() {
                true => String::new(),
                false => format!(" && ({})", ports.join(" || ")),
            },
            action,
            ..to
        }
    }

    /// Denies both families, without the cluster.
    fn all_else() -> [Self; 2] {
        let [v4, v6] = CLUSTER;
        [("ip4", "0.0.0.0/0", v4), ("ip6", "::/0", v6)].map(|(family, all, cluster)| {
            Self::network(
                "drop",
                family,
                &format!("{all} && {family}.dst != {cluster}"),
            )
        })
    }
}

/// Insertions of ACLs.
struct Acls {
    operations: Vec<Value>,
    namespace: String,
}

impl Acls {
    fn of(namespace: &str, rules: &[Rule]) -> Self {
        let group = port_group_name(namespace);
        let operations = rules.iter().enumerate().map(|(index, rule)| {
            let ids = ids(
                "EgressFirewall",
                namespace,
                &[("rule-index", index.to_string())],
            );
            let condition = format!("({}) && inport == @{group}{}", rule.to, rule.ports);
            let mut row = acl(FIRST_PRIORITY - index, &condition, rule.action, ids);
            row["name"] = format!("EF:{namespace}:{index}").into();
            insert("ACL", &format!("{namespace}acl{index}"), row)
        });
        Self {
            operations: operations.collect(),
            namespace: namespace.to_owned(),
        }
    }

    fn uuids(&self) -> Value {
        let named = |index| json!(["named-uuid", format!("{}acl{index}", self.namespace)]);
        json!([
            "set",
            (0..self.operations.len()).map(named).collect::<Vec<_>>()
        ])
    }
}

fn acl(priority: usize, condition: &str, action: &str, external_ids: Value) -> Value {
    let mut row = json!({
        "priority": priority, "direction": "to-lport", "match": condition, "action": action, "log": false,
        "meter": "acl-logging", "external_ids": ["map", external_ids],
    });
    if has_tiers() {
        row["tier"] = TIER.into();
    }
    row
}

/// Whether the schema has tiers of ACLs: 23.03 has none.
fn has_tiers() -> bool {
    let schema = fs::read(ovn::shared("ovn/ovn-nb.ovsschema")).expect("the schema");
    let schema: Value = serde_json::from_slice(&schema).expect("JSON");
    schema["tables"]["ACL"]["columns"].get("tier").is_some()
}

/// `external_ids` of a row, with those that identify its kind of row.
fn ids(owner_type: &str, name: &str, more: &[(&str, String)]) -> Value {
    let mut id = format!("{DEFAULT_NETWORK_CONTROLLER}:{owner_type}:{name}");
    let mut pairs = vec![
        json!(["k8s.ovn.org/owner-controller", DEFAULT_NETWORK_CONTROLLER]),
        json!(["k8s.ovn.org/owner-type", owner_type]),
        json!(["k8s.ovn.org/name", name]),
    ];
    for (key, value) in more {
        id = format!("{id}:{value}");
        pairs.push(json!([key, value]));
    }
    pairs.push(json!(["k8s.ovn.org/id", id]));
    pairs.into()
}

fn port_group_name(namespace: &str) -> String {
    // The same hash as for address sets.
    address_set_name(&format!(
        "{DEFAULT_NETWORK_CONTROLLER}:Namespace:{namespace}"
    ))
}

/// The sets of a name, with the addresses of each family.
fn address_sets(name: &str, addresses: &[Vec<String>; 2]) -> Vec<Value> {
    let sets = Family::ALL.into_iter().zip(addresses);
    let sets = sets.map(|(family, addresses)| {
        let ids = ids(
            "EgressFirewallDNS",
            name,
            &[("ip-family", family.as_str().to_owned())],
        );
        let row = json!({"name": set_name(name, family), "addresses": ["set", addresses], "external_ids": ["map", ids]});
        json!({"op": "insert", "table": "Address_Set", "row": row})
    });
    sets.collect()
}

fn port_group(namespace: &str, ports: Value, acls: Value) -> Value {
    let row = json!({
        "name": port_group_name(namespace), "ports": ports, "acls": acls,
        "external_ids": ["map", ids("Namespace", namespace, &[])],
    });
    json!({"op": "insert", "table": "Port_Group", "row": row})
}

fn insert(table: &str, uuid_name: &str, row: Value) -> Value {
    json!({"op": "insert", "table": table, "uuid-name": uuid_name, "row": row})
}

fn mutate(table: &str, name: &str, mutations: Value) -> Value {
    json!({"op": "mutate", "table": table, "where": [["name", "==", name]], "mutations": mutations})
}

fn client(northbound: &Northbound) -> Client {
    Client::connect(northbound.folder()).expect("the server runs")
}

fn transact(client: &mut Client, operations: Vec<Value>) {
    let done = client.transact(operations);
    done.expect("the server accepts the rows");
}
