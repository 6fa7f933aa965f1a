//! The effect on packets, by the kind of rule and the position of the set in it.

use super::*;
use crate::references::SetNames;

#[test]
fn report_opens_or_closes_by_action_and_by_the_operator_before_the_set() {
    use Effect::{Changes, Closes, Opens};
    for (table, action, expected) in [
        (RuleTable::Acl, "allow", [Opens, Closes]),
        (RuleTable::Acl, "allow-related", [Opens, Closes]),
        (RuleTable::Acl, "allow-stateless", [Opens, Closes]),
        (RuleTable::Acl, "drop", [Closes, Opens]),
        (RuleTable::Acl, "reject", [Closes, Opens]),
        // The following rules decide.
        (RuleTable::Acl, "pass", [Changes; 2]),
        (RuleTable::Policy, "allow", [Changes; 2]),
        (RuleTable::Policy, "drop", [Changes; 2]),
        (RuleTable::Qos, "", [Changes; 2]),
    ] {
        let sets = SetNames::default();
        let rule = RuleDetails {
            table,
            sets: &sets,
            is_for_ports: false,
            priority: 10000,
            direction: "to-lport",
            action,
            controller: None,
            owner_type: None,
            owner_name: None,
        };
        let effects = [Sense::More, Sense::Fewer].map(|sense| Effect::of(&rule, Some(sense)));
        assert_eq!(effects, expected, "{table:?} {action}");
        for unclear in [Some(Sense::Unclear), None] {
            assert_eq!(
                Effect::of(&rule, unclear),
                Changes,
                "{table:?} {action} {unclear:?}"
            );
        }
    }
}
