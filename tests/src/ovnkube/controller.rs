//! The requests of ovnkube-controller to one northbound database.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use proto::api::{
    ADDRESS_SET_OWNER_TYPE, DEFAULT_NETWORK_CONTROLLER, Family, RuleType, address_set_id,
};
use serde_json::{Value, json};

use super::set_name;
use crate::{
    northbound::{read_map, read_set},
    ovsdb::Client,
};

/// The comment in every transaction of the stand-in.
pub const COMMENT: &str = "ovnkube";

/// The rules of a namespace that have a DNS name, in their order.
pub(super) type Rules = Vec<(RuleType, String)>;

/// The result of a status.
pub(super) enum Written {
    /// The set has it already.
    Equal,
    /// The set was replaced.
    Replaced,
    /// There is no set, or no database.
    Failed,
}

/// A database, and the controller's view of it.
pub(super) struct Controller {
    folder: PathBuf,
    client: Option<Client>,
    /// The names whose sets it has created, as far as it knows.
    tracked: BTreeSet<String>,
}

impl Controller {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            client: None,
            tracked: BTreeSet::new(),
        }
    }

    /// Creates the port group of a namespace, for its ACLs, and the address set of its pods.
    pub(super) fn make_namespace(&mut self, namespace: &str) -> Result<(), String> {
        let name = json!([["name", "==", port_group(namespace)]]);
        let found = self.select("Port_Group", name, &["name"])?;
        if !found.is_empty() {
            return Ok(());
        }
        let ids = json!([
            ["k8s.ovn.org/owner-controller", DEFAULT_NETWORK_CONTROLLER],
            ["k8s.ovn.org/owner-type", "Namespace"],
            ["k8s.ovn.org/name", namespace],
        ]);
        let ids = json!(["map", ids]);
        let set = json!({"name": format!("{}v4", port_group(namespace)), "external_ids": ids});
        let group = json!({"name": port_group(namespace), "external_ids": ids});
        self.transact(vec![
            json!({"op": "insert", "table": "Address_Set", "row": set}),
            json!({"op": "insert", "table": "Port_Group", "row": group}),
        ])?;
        Ok(())
    }

    /// Creates the missing sets of names, with these addresses: one transaction per name. Without addresses an existing
    /// set keeps its own.
    pub(super) fn make_sets(
        &mut self,
        names: &[String],
        addresses: impl Fn(&str) -> Option<BTreeSet<String>>,
    ) -> Result<(), String> {
        for name in names {
            if !self.tracked.insert(name.clone()) {
                continue;
            }
            let addresses = addresses(name);
            let mut operations = Vec::new();
            for family in Family::ALL {
                let addresses = addresses.as_ref().map(|all| of_family(all, family));
                match (self.set(name, family)?, addresses) {
                    (Some((uuid, _)), Some(addresses)) => {
                        operations.push(replace(&uuid, &addresses))
                    }
                    (Some(_), None) => {}
                    (None, addresses) => {
                        operations.push(insert(name, family, &addresses.unwrap_or_default()))
                    }
                }
            }
            self.transact(operations)?;
        }
        Ok(())
    }

    /// Deletes the sets of DNS names without an ACL. Their names stay tracked.
    pub(super) fn clean_up(&mut self) -> Result<(), String> {
        let rules = self.select("ACL", json!([]), &["match"])?;
        let rules: Vec<&str> = rules
            .iter()
            .filter_map(|row| row["match"].as_str())
            .collect();
        let of_type = json!([["k8s.ovn.org/owner-type", ADDRESS_SET_OWNER_TYPE]]);
        let of_type = json!([["external_ids", "includes", ["map", of_type]]]);
        let sets = self.select("Address_Set", of_type, &["_uuid", "name"])?;
        let is_unused = |row: &&Value| {
            let reference = format!("${}", row["name"].as_str().unwrap_or_default());
            !rules.iter().any(|rule| refers_to(rule, &reference))
        };
        let deletes: Vec<Value> = sets
            .iter()
            .filter(is_unused)
            .map(|row| json!({"op": "delete", "table": "Address_Set", "where": is(&row["_uuid"])}))
            .collect();
        if !deletes.is_empty() {
            self.transact(deletes)?;
        }
        Ok(())
    }

    /// Replaces the ACLs of a namespace by those of these rules, in one transaction. An existing ACL of a rule's index
    /// is changed.
    pub(super) fn write_rules(&mut self, namespace: &str, rules: &Rules) -> Result<(), String> {
        let owner = json!([
            ["k8s.ovn.org/owner-type", "EgressFirewall"],
            ["k8s.ovn.org/name", namespace],
        ]);
        let owned = json!([["external_ids", "includes", ["map", owner]]]);
        let there = self.select("ACL", owned, &["_uuid", "external_ids"])?;
        let index = |row: &Value| read_map(&row["external_ids"]).remove("rule-index");
        let mut there: BTreeMap<String, Value> = there
            .into_iter()
            .filter_map(|row| Some((index(&row)?, row["_uuid"].clone())))
            .collect();
        let mut operations = Vec::new();
        let mut made = Vec::new();
        for (index, (action, name)) in rules.iter().enumerate() {
            let row = acl(namespace, index, *action, name);
            if let Some(uuid) = there.remove(&index.to_string()) {
                let update =
                    json!({"op": "update", "table": "ACL", "where": is(&uuid), "row": row});
                operations.push(update);
            } else {
                let name = format!("acl{index}");
                made.push(json!(["named-uuid", name]));
                let insert = json!({"op": "insert", "table": "ACL", "row": row, "uuid-name": name});
                operations.push(insert);
            }
        }
        let gone: Vec<Value> = there.into_values().collect();
        let group = json!([["name", "==", port_group(namespace)]]);
        for (mutator, acls) in [("insert", made), ("delete", gone)] {
            if !acls.is_empty() {
                let mutation = json!([["acls", mutator, ["set", acls]]]);
                operations.push(json!({"op": "mutate", "table": "Port_Group", "where": group, "mutations": mutation}));
            }
        }
        if !operations.is_empty() {
            self.transact(operations)?;
        }
        Ok(())
    }

    /// Stops to track a name that no rule has any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.tracked.remove(name);
    }

    /// Replaces the whole set by these addresses of its family.
    pub(super) fn replace(
        &mut self,
        name: &str,
        family: Family,
        addresses: &BTreeSet<String>,
    ) -> Written {
        let addresses = of_family(addresses, family);
        match self.set(name, family) {
            Ok(Some((_, found))) if found == addresses => Written::Equal,
            Ok(Some((uuid, _))) => match self.transact(vec![replace(&uuid, &addresses)]) {
                Ok(_) => Written::Replaced,
                Err(_) => Written::Failed,
            },
            Ok(None) | Err(_) => Written::Failed,
        }
    }

    /// The row of a name and family, as in its libovsdb cache.
    fn set(
        &mut self,
        name: &str,
        family: Family,
    ) -> Result<Option<(Value, BTreeSet<String>)>, String> {
        let filter = json!([["name", "==", set_name(name, family)]]);
        let mut rows = self.select("Address_Set", filter, &["_uuid", "addresses"])?;
        Ok(rows
            .pop()
            .map(|row| (row["_uuid"].clone(), read_set(&row["addresses"]))))
    }

    fn select(
        &mut self,
        table: &str,
        filter: Value,
        columns: &[&str],
    ) -> Result<Vec<Value>, String> {
        let select = json!({"op": "select", "table": table, "where": filter, "columns": columns});
        let mut results = self.send(vec![select])?;
        match results[0]["rows"].take() {
            Value::Array(rows) => Ok(rows),
            other => Err(other.to_string()),
        }
    }

    fn transact(&mut self, mut operations: Vec<Value>) -> Result<Vec<Value>, String> {
        operations.insert(0, json!({"op": "comment", "comment": COMMENT}));
        self.send(operations)
    }

    fn send(&mut self, operations: Vec<Value>) -> Result<Vec<Value>, String> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(&self.folder)?,
        };
        let results = client.transact(operations)?;
        self.client = Some(client);
        Ok(results)
    }
}

fn is(uuid: &Value) -> Value {
    json!([["_uuid", "==", uuid]])
}

fn replace(uuid: &Value, addresses: &BTreeSet<String>) -> Value {
    let row = json!({"addresses": ["set", addresses]});
    json!({"op": "update", "table": "Address_Set", "where": is(uuid), "row": row})
}

fn insert(name: &str, family: Family, addresses: &BTreeSet<String>) -> Value {
    let ids = json!([
        ["k8s.ovn.org/owner-controller", DEFAULT_NETWORK_CONTROLLER],
        ["k8s.ovn.org/owner-type", ADDRESS_SET_OWNER_TYPE],
        ["k8s.ovn.org/name", name],
        ["ip-family", family.as_str()],
        [
            "k8s.ovn.org/id",
            address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family)
        ],
    ]);
    let row = json!({"name": set_name(name, family), "addresses": ["set", addresses], "external_ids": ["map", ids]});
    json!({"op": "insert", "table": "Address_Set", "row": row})
}

fn acl(namespace: &str, index: usize, action: RuleType, name: &str) -> Value {
    let [v4, v6] = Family::ALL.map(|family| set_name(name, family));
    let expression = format!(
        "(ip4.dst == ${v4} || ip6.dst == ${v6}) && inport == @{}",
        port_group(namespace)
    );
    let ids = json!([
        ["k8s.ovn.org/owner-controller", DEFAULT_NETWORK_CONTROLLER],
        ["k8s.ovn.org/owner-type", "EgressFirewall"],
        ["k8s.ovn.org/name", namespace],
        ["rule-index", index.to_string()],
    ]);
    let action = match action {
        RuleType::Allow => "allow",
        RuleType::Deny => "drop",
    };
    json!({
        "direction": "to-lport",
        "priority": 10_000 - index,
        "action": action,
        "match": expression,
        "external_ids": ["map", ids],
    })
}

/// Names of port groups and sets in expressions are letters and digits.
fn port_group(namespace: &str) -> String {
    format!("a9{namespace}")
}

fn refers_to(rule: &str, reference: &str) -> bool {
    let is_whole = |at: usize| {
        let rest = &rule[at + reference.len()..];
        !rest.starts_with(|next: char| next.is_ascii_alphanumeric())
    };
    rule.match_indices(reference).any(|(at, _)| is_whole(at))
}

fn of_family(addresses: &BTreeSet<String>, family: Family) -> BTreeSet<String> {
    let is_v6 = family == Family::V6;
    let of_family = addresses.iter().filter(|text| text.contains(':') == is_v6);
    of_family.cloned().collect()
}
