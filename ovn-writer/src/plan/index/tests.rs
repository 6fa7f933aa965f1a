//! The index over a database that changes.

use proptest::prelude::*;
use serde_json::{Value, json, value::to_raw_value};
use uuid::Uuid;

use super::*;
use ovsdb_replica::{Tables, replica::TableUpdates};

use crate::{references::Northbound, testing::dns};

const CONTROLLERS: [&str; 3] = [DEFAULT_NETWORK_CONTROLLER, "blue", "red"];

#[derive(Default)]
struct World {
    replica: NorthboundReplica,
    references: References,
    index: Index,
}

impl World {
    fn update(&mut self, tables: Value) -> Vec<DnsName> {
        let json = to_raw_value(&tables).unwrap();
        let updates = TableUpdates::read_differences(&json).unwrap();
        let mut changes = NorthboundChanges::default();
        Northbound::apply(&mut self.replica, updates, &mut changes).unwrap();
        let touched = self.references.update(&self.replica, &changes);
        let mut names = self
            .index
            .changed(&self.replica, &changes, &self.references, &touched);
        let found = sorted(names.clone());
        names.extend(changes.0);
        names.iter().for_each(|name| self.settle(name));
        found
    }

    fn settle(&mut self, name: &DnsName) {
        let rows = self.replica.0.with_key(name).map(|(_, row)| row);
        let rows: Vec<_> = rows.collect();
        let rows = rows.iter().copied();
        self.index.settle(name, rows, &self.references);
    }

    /// The sets of a name that rules refer to and that do not exist.
    fn missed(&self, name: &DnsName) -> Vec<String> {
        let rows = self.replica.0.with_key(name);
        let there: Vec<SetName> = rows.map(|(_, row)| row.name().into()).collect();
        let sets = self.index.sets(name);
        let missed = sets.filter(|(_, set)| self.references.contain(set) && !there.contains(set));
        let mut missed: Vec<_> = missed
            .map(|(set, _)| format!("{} {}", set.controller, set.family))
            .collect();
        missed.sort();
        missed
    }
}

fn sorted(names: impl IntoIterator<Item = DnsName>) -> Vec<DnsName> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort();
    names
}

fn uuid(table: u128, n: usize) -> String {
    Uuid::from_u128(table << 64 | n as u128).to_string()
}

fn set(controller: &str, name: &DnsName, family: Family) -> String {
    proto::api::address_set_name(&proto::api::address_set_id(
        controller,
        name.as_str(),
        family,
    ))
}

fn rule(controller: &str, set: &str) -> Value {
    let ids = json!([
        "map",
        [
            ["k8s.ovn.org/owner-controller", controller],
            ["k8s.ovn.org/owner-type", "EgressFirewall"],
        ]
    ]);
    json!({"insert": {"match": format!("ip4.dst == ${set}"), "external_ids": ids}})
}

fn row(controller: &str, name: &DnsName, family: Family) -> Value {
    let ids = json!([
        "map",
        [
            ["k8s.ovn.org/owner-controller", controller],
            ["k8s.ovn.org/owner-type", "EgressFirewallDNS"],
            ["k8s.ovn.org/name", name.as_str()],
            ["ip-family", family.as_str()],
        ]
    ]);
    json!({"insert": {"name": set(controller, name, family), "external_ids": ids}})
}

#[test]
fn the_hash_is_that_of_ovn_kubernetes() {
    let name = dns("www.example.com.");
    for (family, number) in sets("blue", &name) {
        assert_eq!(number, SetName::from(&*set("blue", &name, family)));
    }
}

#[test]
fn a_set_of_the_default_network_is_not_one_of_another_that_names_it() {
    let a = dns("a.example.");
    let mut world = World::default();
    let shared = set(DEFAULT_NETWORK_CONTROLLER, &a, Family::V6);
    world.update(json!({"ACL": {uuid(1, 1): rule("blue", &shared)}}));
    world.index.add(&a);
    assert!(world.index.unknown.is_empty());
    assert_eq!(world.missed(&a), ["default-network-controller v6"]);
    let touched = world.update(json!({"ACL": {uuid(1, 2): rule("red", &shared)}}));
    assert_eq!(touched, std::slice::from_ref(&a));
    assert_eq!(world.missed(&a), ["default-network-controller v6"]);
}

#[derive(Clone, Debug)]
enum Step {
    Name(usize),
    Rule(usize, usize, usize),
    Row(usize, usize),
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..3_usize;
    prop_oneof![
        4 => name.clone().prop_map(Step::Name),
        8 => (0..4_usize, 0..3_usize, name.clone()).prop_map(|(n, c, name)| Step::Rule(n, c, name)),
        4 => (0..3_usize, name).prop_map(|(c, name)| Step::Row(c, name)),
        1 => Just(Step::Read),
    ]
}

proptest! {
    /// After any sequence of changes, the missing and the kept sets follow from the current state alone.
    #[test]
    fn the_index_is_as_if_it_were_made_anew(steps in prop::collection::vec(step(), 0..40)) {
        let names = ["a.example.", "b.example.", "c.example."].map(dns);
        let mut world = World::default();
        let (mut rules, mut rows) = (HashMap::default(), HashSet::default());
        let mut store = HashSet::default();
        for step in steps {
            match step {
                Step::Name(n) => {
                    let name = &names[n];
                    let has_rows = world.replica.0.with_key(name).next().is_some();
                    if store.insert(name.clone()) {
                        world.index.add(name);
                        world.settle(name);
                    } else if !has_rows {
                        // Only names without rows are removed.
                        store.remove(name);
                        world.index.remove(name, &world.references);
                    }
                }
                Step::Rule(n, controller, name) => {
                    let update = if rules.remove(&n).is_some() {
                        json!({"delete": null})
                    } else {
                        let controller = CONTROLLERS[controller];
                        rules.insert(n, (controller, name));
                        rule(controller, &set(controller, &names[name], Family::V4))
                    };
                    world.update(json!({"ACL": {uuid(1, n): update}}));
                }
                Step::Row(controller, name) => {
                    let of = (controller, name);
                    let update = if rows.remove(&of) {
                        json!({"delete": null})
                    } else {
                        rows.insert(of);
                        row(CONTROLLERS[controller], &names[name], Family::V4)
                    };
                    world.update(json!({"Address_Set": {uuid(0, 3 * controller + name): update}}));
                }
                Step::Read => {
                    world.references = References::of(&world.replica);
                    world.index.read(&world.replica, &world.references, store.iter());
                    names.iter().for_each(|name| world.settle(name));
                }
            }
            for (n, name) in names.iter().enumerate().filter(|(_, name)| store.contains(*name)) {
                let mut expected: Vec<_> = rules.values().filter(|(_, of)| *of == n).collect();
                expected.retain(|(controller, _)| {
                    let controller = CONTROLLERS.iter().position(|other| other == controller);
                    !rows.contains(&(controller.unwrap(), n))
                });
                let mut expected: Vec<_> =
                    expected.iter().map(|(controller, _)| format!("{controller} v4")).collect();
                expected.sort();
                expected.dedup();
                prop_assert_eq!(world.missed(name), expected);
            }
            let elsewhere = |(controller, _): &&(&str, usize)| *controller != CONTROLLERS[0];
            let of_rules = rules.values().filter(elsewhere);
            let unknown = of_rules.filter(|(controller, name)| {
                let controller = CONTROLLERS.iter().position(|other| other == controller);
                !store.contains(&names[*name]) && !rows.contains(&(controller.unwrap(), *name))
            });
            let unknown: HashSet<_> = unknown.collect();
            let counted: usize = world.index.unknown.values().map(HashSet::len).sum();
            // The set of a deleted row stays known as long as a rule names it.
            prop_assert!(counted <= unknown.len());
            prop_assert!(world.index.unknown.values().all(|sets| !sets.is_empty()));
            let mut anew = Index::default();
            anew.read(&world.replica, &world.references, store.iter());
            let is_settled = |index: &Index| -> HashSet<SetName> {
                let unknown = index.unknown.values().flatten();
                index.by_set.keys().chain(unknown).cloned().collect()
            };
            prop_assert_eq!(is_settled(&world.index), is_settled(&anew));
        }
    }
}
