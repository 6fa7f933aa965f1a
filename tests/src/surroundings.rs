//! Foreign rows in the northbound database of a large cluster: port groups, ACLs, and further networks.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id, address_set_name};
use serde_json::{Value, json};

use crate::ovsdb::Client;

const BATCH: usize = 1_000;

/// One in this many ACLs names an address set of pods, like a NetworkPolicy with a peer; the others have addresses.
const NAMES_A_SET: usize = 10;

/// Names of an EgressFirewall in the default network.
const OF_AN_EGRESS_FIREWALL: usize = 100;

/// How long an ACL of [`Churn`] exists.
const LIFETIME: Duration = Duration::from_secs(1);

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
    pub fn fill(self, folder: &Path, names: &[String]) -> Neighbours {
        let mut client = Client::connect(folder).expect("the server runs");
        let mut port_groups = Vec::new();
        let each = self.acls.div_ceil(self.port_groups.max(1));
        let batch = BATCH.div_ceil(each.max(1));
        for first in (0..self.port_groups).step_by(batch) {
            let mut operations = Vec::new();
            let groups = first..self.port_groups.min(first + batch);
            for n in groups.clone() {
                let acls = n * each..self.acls.min((n + 1) * each);
                operations.push(port_group(&group(n), acls.clone().map(acl_name)));
                operations.extend(acls.map(|acl| self.acl(acl)));
            }
            let mut results = transact(&mut client, operations);
            let is_group = |result: &usize| result.is_multiple_of(each + 1);
            let made = (0..results.len()).filter(is_group);
            port_groups.extend(made.map(|result| results[result]["uuid"].take()));
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
        Neighbours {
            surroundings: self,
            folder: folder.to_owned(),
            port_groups,
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

/// [`Surroundings`] in a database.
#[derive(Debug)]
pub struct Neighbours {
    surroundings: Surroundings,
    folder: PathBuf,
    /// Their `_uuid`.
    port_groups: Vec<Value>,
}

impl Neighbours {
    /// From now on creates this many ACLs a second, each in a transaction of its own, and deletes each a second later.
    ///
    /// # Panics
    /// If the server does not run.
    pub fn churn(&self, a_second: u32) -> Churn {
        let mut client = Client::connect(&self.folder).expect("the server runs");
        let (surroundings, port_groups) = (self.surroundings, self.port_groups.clone());
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = ends.clone();
        let thread = thread::spawn(move || {
            let pause = Duration::from_secs(1) / a_second;
            let mut there: VecDeque<(Instant, &Value, Value)> = VecDeque::new();
            let (mut next, mut made) = (Instant::now(), 0);
            while !is_over.load(Ordering::Relaxed) {
                sleep(next.saturating_duration_since(Instant::now()));
                next += pause;
                // Their numbers differ from those of the permanent ones.
                let n = surroundings.acls + made;
                let group = &port_groups[n % port_groups.len()];
                let named = json!(["named-uuid", acl_name(n)]);
                let operations = vec![surroundings.acl(n), mutate_acls(group, "insert", &named)];
                let mut results = transact(&mut client, operations);
                there.push_back((Instant::now(), group, results[0]["uuid"].take()));
                made += 1;
                while let Some((since, group, uuid)) = there.front()
                    && since.elapsed() > LIFETIME
                {
                    transact(&mut client, vec![mutate_acls(group, "delete", uuid)]);
                    there.pop_front();
                }
            }
            made
        });
        Churn {
            ends,
            thread: Some(thread),
        }
    }
}

/// ACLs that are created and deleted while the value exists, like NetworkPolicies of pods.
#[derive(Debug)]
pub struct Churn {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl Churn {
    /// Ends it, and returns how many ACLs were created.
    ///
    /// # Panics
    /// If the server refused one.
    pub fn stop(mut self) -> usize {
        self.ends.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("every ACL was accepted")
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
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

fn mutate_acls(port_group: &Value, mutator: &str, acl: &Value) -> Value {
    json!({
        "op": "mutate", "table": "Port_Group", "where": [["_uuid", "==", port_group]],
        "mutations": [["acls", mutator, acl]],
    })
}

fn transact(client: &mut Client, operations: Vec<Value>) -> Vec<Value> {
    client
        .transact(operations)
        .expect("the server accepts the rows")
}
