//! The index compared with a search of all rows.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json, value::to_raw_value};
use uuid::Uuid;

use super::*;
use ovsdb_replica::replica::TableUpdates;

/// A replica with its index.
#[derive(Default)]
struct World {
    replica: NorthboundReplica,
    references: References,
}

impl World {
    fn update(&mut self, tables: Value) -> Touched {
        let json = to_raw_value(&tables).unwrap();
        let updates = TableUpdates::read_differences(&json).unwrap();
        let mut changes = NorthboundChanges::default();
        Northbound::apply(&mut self.replica, updates, &mut changes).unwrap();
        self.references.update(&self.replica, &changes)
    }

    fn named(&self, name: &str) -> Vec<(RuleTable, i64)> {
        let set = SetName::from(name);
        let rules = self.references.rules(&self.replica, &set);
        let mut rules: Vec<_> = rules.map(|rule| (rule.table, rule.priority)).collect();
        rules.sort();
        assert_eq!(self.references.contain(&set), !rules.is_empty());
        rules
    }
}

fn uuid(n: u128) -> String {
    Uuid::from_u128(n).to_string()
}

fn names(touched: &Touched) -> Vec<SetName> {
    touched
        .names
        .iter()
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

#[test]
fn rules_of_every_table_are_found_by_the_sets_that_they_name() {
    let mut world = World::default();
    let rule = |expression: &str, priority: i64| json!({"initial": {"match": expression, "priority": priority}});
    world.update(json!({
        "ACL": {uuid(1): rule("ip4.dst == $a1 || ip6.dst == $a2", 1), uuid(2): rule("ip4.dst == $a1", 2)},
        "QoS": {uuid(3): rule("ip4.src == $a1", 3)},
        "Logical_Router_Policy": {uuid(4): rule("ip4.src == $other", 4)},
        "NAT": {uuid(5): json!({"initial": {"match": "ip4.dst == $a7"}})},
    }));
    assert_eq!(
        world.named("a1"),
        [
            (RuleTable::Acl, 1),
            (RuleTable::Acl, 2),
            (RuleTable::Qos, 3)
        ]
    );
    assert_eq!(world.named("a2"), [(RuleTable::Acl, 1)]);
    assert_eq!(world.named("other"), [(RuleTable::Policy, 4)]);
    assert_eq!(world.named("a7"), [(RuleTable::Nat, 0)]);
    assert_eq!(world.named("a12"), []);
    let touched = world.update(json!({
        "ACL": {uuid(1): {"modify": {"match": "ip4.dst == $a3"}}, uuid(2): {"delete": null}},
    }));
    assert_eq!(names(&touched), [1, 2, 3].map(SetName::Number));
    assert_eq!(world.named("a1"), [(RuleTable::Qos, 3)]);
    assert_eq!(world.named("a3"), [(RuleTable::Acl, 1)]);
    assert_eq!(world.references.managed_rules(), 0);
}

proptest! {
    #[test]
    fn the_index_is_as_if_it_were_made_anew(
        steps in prop::collection::vec((0..4_u128, prop::option::of((0..3_u8, 0..3_u8))), 0..30),
    ) {
        let mut world = World::default();
        let mut there = BTreeMap::new();
        for (row, sets) in steps {
            let before = there.contains_key(&row);
            let update = match sets {
                None if !before => continue,
                None => {
                    there.remove(&row);
                    json!({"delete": null})
                }
                Some((one, other)) => {
                    there.insert(row, (one, other));
                    let columns = json!({"match": format!("ip4.dst == {{$a{one}, $a{other}}}")});
                    if before { json!({"modify": columns}) } else { json!({"insert": columns}) }
                }
            };
            world.update(json!({"ACL": {uuid(row): update}}));
            let anew = References::of(&world.replica);
            prop_assert_eq!(&world.references.by_name, &anew.by_name);
            for set in 0..3 {
                let count = there.values().filter(|sets| sets.0 == set || sets.1 == set).count();
                prop_assert_eq!(world.named(&format!("a{set}")).len(), count);
            }
        }
    }
}
