//! Rows whose `match` names address sets: ACLs, QoS rules, logical router policies and NAT rows.

use std::{collections::BTreeSet, fmt, hash::Hash, marker::PhantomData, sync::Arc};

use proto::api::DEFAULT_NETWORK_CONTROLLER;
use smol_str::SmolStr;

use ovsdb_replica::{
    BaseType, Column, ColumnProblem, ColumnType, Datum, Record, columns::ColumnValue,
};

use crate::external_ids::{EXTERNAL_IDS, Kept, OWNER_CONTROLLER, OWNER_NAME, OWNER_TYPE};

/// `k8s.ovn.org/owner-type` of the ACLs of EgressFirewalls.
const EGRESS_FIREWALL: &str = "EgressFirewall";

/// The priority of the ACL of an EgressFirewall's first rule. Each further rule has one less (ovn-kubernetes, `EgressFirewallStartPriority`).
const FIRST_PRIORITY: i64 = 10_000;

/// The used keys of a rule's `external_ids`.
const KEYS: [&str; 3] = [OWNER_CONTROLLER, OWNER_TYPE, OWNER_NAME];

const MATCH: Column = Column::required("match", ColumnType::One(BaseType::String));
const OPTIONAL_MATCH: Column = Column::optional("match", ColumnType::One(BaseType::String));
const PRIORITY: Column = Column::optional("priority", ColumnType::One(BaseType::Integer));
const DIRECTION: Column = Column::optional("direction", ColumnType::One(BaseType::String));
const ACTION: Column = Column::optional("action", ColumnType::One(BaseType::String));
const IDS: Column = Column::optional(
    EXTERNAL_IDS,
    ColumnType::Map(BaseType::String, BaseType::String),
);

/// A table of rules.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum RuleTable {
    Acl,
    Qos,
    Policy,
    Nat,
}

impl RuleTable {
    /// Its name in the schema.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acl => "ACL",
            Self::Qos => "QoS",
            Self::Policy => "Logical_Router_Policy",
            Self::Nat => "NAT",
        }
    }
}

/// The table of a [`Rule`].
pub trait OfTable: Clone + fmt::Debug + Send + 'static {
    const TABLE: RuleTable;
    /// The columns that are read.
    const COLUMNS: &'static [Column];
}

/// [`RuleTable::Acl`].
#[derive(Clone, Debug)]
pub enum Acl {}

/// [`RuleTable::Qos`].
#[derive(Clone, Debug)]
pub enum Qos {}

/// [`RuleTable::Policy`].
#[derive(Clone, Debug)]
pub enum Policy {}

/// [`RuleTable::Nat`].
#[derive(Clone, Debug)]
pub enum Nat {}

impl OfTable for Acl {
    const TABLE: RuleTable = RuleTable::Acl;
    const COLUMNS: &'static [Column] = &[MATCH, PRIORITY, DIRECTION, ACTION, IDS];
}

impl OfTable for Qos {
    const TABLE: RuleTable = RuleTable::Qos;
    const COLUMNS: &'static [Column] = &[MATCH, PRIORITY, DIRECTION, IDS];
}

impl OfTable for Policy {
    const TABLE: RuleTable = RuleTable::Policy;
    const COLUMNS: &'static [Column] = &[MATCH, PRIORITY, ACTION, IDS];
}

impl OfTable for Nat {
    const TABLE: RuleTable = RuleTable::Nat;
    // OVN has `match` of NAT rows since 24.03.
    const COLUMNS: &'static [Column] = &[OPTIONAL_MATCH, IDS];
}

/// The name of an address set, in compact form: nearly all relevant ones are `a` and a number.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SetName {
    /// `a123`.
    Number(u64),
    Text(Box<str>),
}

impl From<&str> for SetName {
    fn from(name: &str) -> Self {
        let digits = name.strip_prefix('a').filter(|digits| {
            // Only a number that reads back unchanged: no sign, no leading zero.
            digits.bytes().all(|b| b.is_ascii_digit())
                && (*digits == "0" || !digits.starts_with('0'))
        });
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(number) => Self::Number(number),
            None => Self::Text(name.into()),
        }
    }
}

/// The address sets that a rule names, sorted, each once. Cheap to clone.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SetNames(Option<Arc<[SetName]>>);

impl SetNames {
    /// The sets that an expression names: each `$` with an identifier of OVN's lexer. Strings and comments count, too,
    /// which at worst keeps a set for longer.
    fn of(expression: &str) -> Self {
        let is_first = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.');
        let after_signs = expression.split('$').skip(1);
        let names = after_signs.filter(|text| text.starts_with(is_first));
        let names = names.filter_map(|text| {
            let end = text.find(|c: char| !is_first(c) && !c.is_ascii_digit());
            text.get(..end.unwrap_or(text.len()))
        });
        let sets: BTreeSet<SetName> = names.map(SetName::from).collect();
        Self((!sets.is_empty()).then(|| sets.into_iter().collect()))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &SetName> {
        self.0.iter().flat_map(|sets| sets.iter())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// The key of rules.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RuleKey {
    /// The address sets that it names.
    pub sets: SetNames,
    /// The controller of an EgressFirewall's network, if that is not the default one. Such a network has its own sets.
    pub network: Option<Arc<str>>,
}

/// A rule, reduced to the used columns.
#[derive(Clone, Debug)]
pub struct Rule<T> {
    sets: SetNames,
    priority: i64,
    direction: SmolStr,
    action: SmolStr,
    external_ids: Kept<3>,
    table: PhantomData<T>,
}

impl<T> Default for Rule<T> {
    fn default() -> Self {
        Self {
            sets: SetNames::default(),
            priority: 0,
            direction: SmolStr::default(),
            action: SmolStr::default(),
            external_ids: Kept::default(),
            table: PhantomData,
        }
    }
}

/// The columns of a rule, independent of its table.
#[derive(Clone, Copy, Debug)]
pub struct RuleDetails<'a> {
    pub table: RuleTable,
    /// The address sets that it names.
    pub sets: &'a SetNames,
    pub priority: i64,
    /// `direction`; empty if the table has none.
    pub direction: &'a str,
    /// `action`; empty if the table has none, or one of another kind.
    pub action: &'a str,
    /// `k8s.ovn.org/owner-type`.
    pub owner_type: Option<&'a str>,
    /// `k8s.ovn.org/name`; the namespace for an ACL of an EgressFirewall.
    pub owner_name: Option<&'a str>,
}

impl<'a> RuleDetails<'a> {
    /// The index of the rule in its EgressFirewall, from 0, as far as the priority tells.
    pub fn index(&self) -> Option<i64> {
        let is_acl = self.table == RuleTable::Acl && self.owner_type == Some(EGRESS_FIREWALL);
        let index = FIRST_PRIORITY.checked_sub(self.priority);
        index.filter(|index| is_acl && *index >= 0)
    }

    /// The namespace of the EgressFirewall of the rule.
    pub fn namespace(&self) -> Option<&'a str> {
        self.owner_name
            .filter(|_| self.owner_type == Some(EGRESS_FIREWALL))
    }
}

impl<T: OfTable> Rule<T> {
    /// All used columns.
    pub fn details(&self) -> RuleDetails<'_> {
        RuleDetails {
            table: T::TABLE,
            sets: &self.sets,
            priority: self.priority,
            direction: &self.direction,
            action: &self.action,
            owner_type: self.external_ids.get(1),
            owner_name: self.external_ids.get(2),
        }
    }

    fn network(&self) -> Option<&str> {
        let is_egress_firewall = self.external_ids.get(1) == Some(EGRESS_FIREWALL);
        let controller = self.external_ids.get(0).filter(|_| is_egress_firewall);
        controller.filter(|controller| *controller != DEFAULT_NETWORK_CONTROLLER)
    }
}

impl<T: OfTable> Record for Rule<T> {
    const TABLE: &'static str = T::TABLE.as_str();
    const COLUMNS: &'static [Column] = T::COLUMNS;
    type Key = RuleKey;

    fn modify_column(&mut self, column: &str, difference: Datum) -> Result<(), ColumnProblem> {
        match column {
            "match" => self.sets = SetNames::of(&difference.into_string()?),
            "priority" => self.priority.modify(difference)?,
            "direction" => self.direction = difference.into_string()?,
            "action" => self.action = difference.into_string()?,
            EXTERNAL_IDS => self.external_ids.modify(&KEYS, difference)?,
            _ => return Err(ColumnProblem::Unknown),
        }
        Ok(())
    }

    /// A rule without sets has no key: only the number of such rules of ovn-kubernetes matters.
    fn key(&self) -> Option<RuleKey> {
        (!self.sets.is_empty()).then(|| RuleKey {
            sets: self.sets.clone(),
            network: self.network().map(Arc::from),
        })
    }

    /// Whether it is a rule of ovn-kubernetes.
    fn counts(&self) -> bool {
        self.external_ids.get(0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule<T: OfTable>(json: serde_json::Value) -> Result<Rule<T>, String> {
        Rule::read(serde_json::from_value(json).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_of_ovn_kubernetes_is_known_by_what_it_says_of_itself() {
        let mut acl: Rule<Acl> = rule(serde_json::json!({
            "match": "(ip4.dst == $a12 || ip6.dst == $mine) && inport == @a3 && ip4.src != $mine",
            "priority": 10000, "direction": "to-lport", "action": "allow",
            "external_ids": ["map", [
                ["k8s.ovn.org/owner-controller", "default-network-controller"],
                ["k8s.ovn.org/owner-type", "EgressFirewall"],
                ["k8s.ovn.org/name", "team"],
                ["rule-index", "0"],
            ]],
        }))
        .unwrap();
        let details = acl.details();
        let sets: Vec<_> = details.sets.iter().cloned().collect();
        assert_eq!(sets, [SetName::Number(12), SetName::from("mine")]);
        assert_eq!((details.priority, details.direction), (10000, "to-lport"));
        assert_eq!(
            (details.action, details.owner_name),
            ("allow", Some("team"))
        );
        assert_eq!(details.owner_type, Some("EgressFirewall"));
        assert_eq!(details.index(), Some(0));

        let difference = serde_json::json!({
            "match": "ip4 && tcp.dst == 443", "external_ids": ["map", [["k8s.ovn.org/owner-controller", "default-network-controller"]]],
        });
        assert!(acl.key().is_some());
        acl.modify(serde_json::from_value(difference).unwrap())
            .unwrap();
        assert_eq!(acl.key(), None);
    }

    #[test]
    fn sets_of_an_expression_are_its_dollar_tokens() {
        for (expression, expected) in [
            ("ip4.dst == $a1", &["a1"][..]),
            ("ip4.dst=={$a1,$b_2.c}&&ip4.src!=$a1", &["a1", "b_2.c"]),
            ("$.x || !($_y)", &[".x", "_y"]),
            ("$a1$a2 $a3-4 $a5\u{e4}", &["a1", "a2", "a3", "a5"]),
            ("$1 $ $$ @a1 a1 $-a", &[]),
            ("reg0 == \"$a1\" // $a2", &["a1", "a2"]),
            ("", &[]),
        ] {
            let sets: BTreeSet<SetName> = SetNames::of(expression).iter().cloned().collect();
            let expected: BTreeSet<SetName> = expected.iter().copied().map(SetName::from).collect();
            assert_eq!(sets, expected, "{expression}");
        }
    }
}
