//! Rows whose `match` names address sets: ACLs, QoS rules and logical router policies.

use std::{fmt, hash::Hash, marker::PhantomData, sync::Arc};

use proto::api::DEFAULT_NETWORK_CONTROLLER;
use smol_str::SmolStr;

use super::expression::{self, Sense};
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
}

impl RuleTable {
    /// Its name in the schema.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acl => "ACL",
            Self::Qos => "QoS",
            Self::Policy => "Logical_Router_Policy",
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

/// The address sets that a rule names, sorted, each once with the common sense of its occurrences. Cheap to clone.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SetNames(Option<Arc<[(SetName, Sense)]>>);

impl SetNames {
    /// The sets that an expression names.
    pub(super) fn of(expression: &str) -> Self {
        let named = expression::sets(expression).into_iter();
        let mut sets: Vec<_> = named.map(|(name, sense)| (name.into(), sense)).collect();
        sets.sort_unstable();
        sets.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same && later.1 != earlier.1 {
                earlier.1 = Sense::Unclear;
            }
            same
        });
        Self((!sets.is_empty()).then(|| sets.into()))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &(SetName, Sense)> {
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
    is_for_ports: bool,
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
            is_for_ports: false,
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
    /// Whether `match` names a transport protocol: the rule concerns only some packets of these addresses.
    pub is_for_ports: bool,
    pub priority: i64,
    /// `direction`; empty if the table has none.
    pub direction: &'a str,
    /// `action`; empty if the table has none, or one of another kind.
    pub action: &'a str,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: Option<&'a str>,
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
            is_for_ports: self.is_for_ports,
            priority: self.priority,
            direction: &self.direction,
            action: &self.action,
            controller: self.external_ids.get(0),
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
            "match" => {
                let expression = difference.into_string()?;
                self.sets = SetNames::of(&expression);
                self.is_for_ports = expression::names_a_transport(&expression);
            }
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
        let mine = (SetName::from("mine"), Sense::Unclear);
        assert_eq!(sets, [(SetName::Number(12), Sense::More), mine]);
        assert_eq!((details.priority, details.direction), (10000, "to-lport"));
        assert_eq!(
            (details.action, details.owner_name),
            ("allow", Some("team"))
        );
        assert_eq!(details.owner_type, Some("EgressFirewall"));
        assert_eq!((details.index(), details.is_for_ports), (Some(0), false));
        assert_eq!(details.controller, Some("default-network-controller"));

        let difference = serde_json::json!({
            "match": "ip4 && tcp.dst == 443", "external_ids": ["map", [["k8s.ovn.org/owner-controller", "default-network-controller"]]],
        });
        assert!(acl.key().is_some());
        acl.modify(serde_json::from_value(difference).unwrap())
            .unwrap();
        assert_eq!((acl.details().controller, acl.key()), (None, None));
        assert!(acl.details().is_for_ports);
    }

    #[test]
    fn a_rule_without_sets_has_no_key_and_counts_if_ovn_kubernetes_owns_it() {
        let ids =
            serde_json::json!({"external_ids": ["map", [["k8s.ovn.org/owner-controller", "x"]]]});
        let owned = rule::<Policy>(ids).unwrap();
        assert_eq!((owned.key(), owned.counts()), (None, true));
        let other = rule::<Qos>(serde_json::json!({})).unwrap();
        assert_eq!((other.key(), other.counts()), (None, false));
    }

    #[test]
    fn names_that_are_numbers_are_kept_as_numbers() {
        for (name, number) in [
            ("a1", Some(1)),
            ("a18446744073709551615", Some(u64::MAX)),
            ("a18446744073709551616", None),
            ("a01", None),
            ("a+1", None),
            ("a", None),
            ("b1", None),
            ("", None),
        ] {
            let expected = number.map_or_else(|| SetName::Text(name.into()), SetName::Number);
            assert_eq!(SetName::from(name), expected, "{name}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (json, words) in [
            (
                serde_json::json!({"match": 1}),
                "column match: the value is not a string",
            ),
            (
                serde_json::json!({"priority": "x"}),
                "column priority: the value is not an integer",
            ),
            (
                serde_json::json!({"colour": "red"}),
                "column colour: the client did not request it",
            ),
        ] {
            assert_eq!(rule::<Acl>(json).unwrap_err(), words);
        }
    }
}
