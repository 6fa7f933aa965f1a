//! Foreign rows in the northbound database of a large cluster: port groups, ACLs, and further networks.

use std::path::Path;

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id, address_set_name};
use serde_json::{Value, json};

use crate::ovsdb::Client;

const BATCH: usize = 1_000;

/// One in this many ACLs names an address set of pods, like a NetworkPolicy with a peer; the others have addresses.
const NAMES_A_SET: usize = 10;

/// Names of an EgressFirewall in the default network.
const OF_AN_EGRESS_FIREWALL: usize = 100;

/// The number of foreign rows.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// ACLs, distributed over the port groups.
    pub acls: usize,
    /// The minimum length of an ACL's `match`, in bytes.
    pub match_length: usize,
    pub port_groups: usize,
    /// User-defined networks, each with an EgressFirewall.
    pub networks: usize,
    /// The number of names in each of these EgressFirewalls.
    pub names_each: usize,
}

impl Surroundings {
    /// Writes them to the database in the folder, with EgressFirewalls in the default network for all of these DNS
    /// names. Those of the other networks have the first ones.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn fill(self, folder: &Path, names: &[String]) {
        let mut client = Client::connect(folder).expect("the server runs");
        let each = self.acls.div_ceil(self.port_groups.max(1));
        let batch = BATCH.div_ceil(each.max(1));
        for first in (0..self.port_groups).step_by(batch) {
            let mut operations = Vec::new();
            let groups = first..self.port_groups.min(first + batch);
            for n in groups {
                let acls = n * each..self.acls.min((n + 1) * each);
                operations.push(port_group(&group(n), acls.clone().map(acl_name)));
                operations.extend(acls.map(|acl| self.acl(acl)));
            }
            transact(&mut client, operations);
        }
        for (n, names) in names.chunks(OF_AN_EGRESS_FIREWALL).enumerate() {
            let network = (DEFAULT_NETWORK_CONTROLLER.to_owned(), format!("default{n}"));
            make_egress_firewall(&mut client, network, names);
        }
        let names = &names[..self.names_each.min(names.len())];
        for n in 0..self.networks {
            let network = (
                format!("network{n}-network-controller"),
                format!("network{n}"),
            );
            make_egress_firewall(&mut client, network, names);
        }
    }

    fn acl(&self, n: usize) -> Value {
        let port = format!("outport == @{}", group(n % self.port_groups.max(1)));
        let mut expression = if n.is_multiple_of(NAMES_A_SET) {
            format!("ip4.src == $a{} && {port}", 1_000_000 + n)
        } else {
            format!("ip4.src == 10.{}.{}.0/24 && {port}", n / 256 % 256, n % 256)
        };
        while expression.len() < self.match_length {
            expression.push_str(" && tcp.dst != 65535");
        }
        let row = json!({
            "action": "allow-related", "direction": "to-lport", "match": expression, "priority": 1001,
            "external_ids": ["map", [
                ["k8s.ovn.org/owner-controller", "default-network-controller"],
                ["k8s.ovn.org/owner-type", "NetworkPolicy"],
                ["k8s.ovn.org/name", format!("namespace{}:policy", n % 1000)],
            ]],
        });
        insert("ACL", &acl_name(n), row)
    }
}

fn make_egress_firewall(
    client: &mut Client,
    (controller, namespace): (String, String),
    names: &[String],
) {
    let rule = |(n, name): (usize, &String)| {
        let [v4, v6] =
            Family::ALL.map(|family| address_set_name(&address_set_id(&controller, name, family)));
        let row = json!({
            "action": "allow", "direction": "to-lport", "priority": 10_000,
            "match": format!("(ip4.dst == ${v4} || ip6.dst == ${v6}) && inport == @{namespace}"),
            "external_ids": ["map", [
                ["k8s.ovn.org/owner-controller", controller],
                ["k8s.ovn.org/owner-type", "EgressFirewall"],
                ["k8s.ovn.org/name", namespace],
            ]],
        });
        insert("ACL", &acl_name(n), row)
    };
    let mut operations: Vec<Value> = names.iter().enumerate().map(rule).collect();
    operations.push(port_group(&namespace, (0..names.len()).map(acl_name)));
    transact(client, operations);
}

fn group(n: usize) -> String {
    format!("a{:020}", 500_000 + n)
}

fn acl_name(n: usize) -> String {
    format!("acl{n}")
}

fn insert(table: &str, uuid_name: &str, row: Value) -> Value {
    json!({"op": "insert", "table": table, "uuid-name": uuid_name, "row": row})
}

fn port_group(name: &str, acls: impl Iterator<Item = String>) -> Value {
    let acls: Vec<_> = acls.map(|acl| json!(["named-uuid", acl])).collect();
    insert(
        "Port_Group",
        name,
        json!({"name": name, "acls": ["set", acls]}),
    )
}

fn transact(client: &mut Client, operations: Vec<Value>) {
    let done = client.transact(operations);
    done.expect("the server accepts the rows");
}
