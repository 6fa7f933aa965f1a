//! Differences as text and as JSON: the addresses that a set lacks or has in excess, and the rules that use it.

use std::{cmp::Reverse, fmt, net::IpAddr};

use ovsdb_replica::Replica;
use proto::api::{DnsName, Family, address_set_id, address_set_name};
use serde::Serialize;
use smol_str::{SmolStr, ToSmolStr};

use crate::{
    address_set::AddressSet,
    references::{NorthboundReplica, References, RuleDetails, RuleTable, SetName},
    sync::{
        Change, Plan,
        plan::{Finding, Verdict},
    },
};

/// The differences of the sets of a name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NameReport {
    pub name: String,
    /// The sets that differ; empty if none does.
    pub sets: Vec<SetReport>,
}

/// The differences of a set.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct SetReport {
    /// The `name` of the row, which may not exist.
    pub set: String,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: String,
    pub family: Family,
    pub kind: Kind,
    /// Addresses that it lacks.
    pub missing: Vec<SmolStr>,
    /// Surplus members, as written in the row.
    pub surplus: Vec<SmolStr>,
    pub action: Action,
    /// The rules that refer to the set.
    pub rules: Vec<RuleReport>,
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The row is missing.
    MissingRow,
    /// The row is missing and cannot be created: another client has a row of its name for another purpose.
    NameClash,
    /// It has other addresses.
    Addresses,
    /// It has neither an object nor a rule.
    UnwantedRow,
}

/// The planned action for a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The writer repairs it.
    Now,
    /// The writer repairs it if it lasts for half a second, since another client made it.
    Soon,
    /// The writer leaves it: another client has a set of its name.
    Left,
}

/// A rule that names a set.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleReport {
    /// `ACL`, `QoS`, `Logical_Router_Policy` or `NAT`.
    pub table: &'static str,
    /// `action`; empty if the table has none.
    pub action: String,
    /// `direction`; empty if the table has none.
    pub direction: String,
    /// `priority`.
    pub priority: i64,
    /// `k8s.ovn.org/name`: the namespace of an EgressFirewall.
    pub owner: Option<String>,
    /// The index of the rule in its EgressFirewall, from 0.
    pub index: Option<i64>,
}

impl NameReport {
    /// The report of a name's plan.
    pub fn of(
        name: &DnsName,
        plan: &Plan,
        replica: &NorthboundReplica,
        references: &References,
    ) -> Self {
        let mut sets: Vec<SetReport> = Vec::new();
        for finding in &plan.findings {
            let mut set = SetReport::of(name, finding, &replica.0);
            if sets.last_mut().is_some_and(|last| last.merge(&set)) {
                continue;
            }
            let set_name = SetName::from(set.set.as_str());
            set.rules = RuleReport::all(&set_name, replica, references);
            sets.push(set);
        }
        Self {
            name: name.to_string(),
            sets,
        }
    }
}

impl SetReport {
    fn of(name: &DnsName, finding: &Finding, rows: &Replica<AddressSet>) -> Self {
        let texts = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::to_smolstr).collect();
        let row = finding.change.uuid().and_then(|uuid| rows.get(uuid));
        let (missing, surplus, kind) = match &finding.change {
            Change::Create { addresses, .. } if finding.is_conflict => {
                (texts(addresses), Vec::new(), Kind::NameClash)
            }
            Change::Create { addresses, .. } => (texts(addresses), Vec::new(), Kind::MissingRow),
            Change::Mutate { insert, delete, .. } => {
                (texts(insert), delete.clone(), Kind::Addresses)
            }
            Change::Delete { .. } => {
                let members = row.into_iter().flat_map(|row| row.addresses().iter());
                let members = members.map(|address| address.to_smolstr()).collect();
                (Vec::new(), members, Kind::UnwantedRow)
            }
        };
        let family = finding.change.family();
        let (set, controller) = match (row, &finding.change) {
            (Some(row), _) => (row.name().to_owned(), row.controller().unwrap_or_default()),
            (None, Change::Create { set, .. }) => {
                let id = address_set_id(&set.controller, name.as_str(), family);
                (address_set_name(&id), &*set.controller)
            }
            (None, _) => Default::default(),
        };
        Self {
            set,
            controller: controller.to_owned(),
            family,
            kind,
            missing,
            surplus,
            action: Action::of(finding.verdict),
            rules: Vec::new(),
        }
    }
}

impl SetReport {
    /// Adds another difference of the same set if the writer repairs both; returns whether it does.
    fn merge(&mut self, other: &Self) -> bool {
        let action = match (self.action, other.action) {
            (Action::Left, _) | (_, Action::Left) => return false,
            (Action::Now, action) | (action, Action::Now) => action,
            (Action::Soon, Action::Soon) => Action::Soon,
        };
        let is_same = (&self.set, self.family, self.kind) == (&other.set, other.family, other.kind);
        if is_same {
            self.action = action;
            self.missing.extend_from_slice(&other.missing);
            self.surplus.extend_from_slice(&other.surplus);
        }
        is_same
    }
}

impl Action {
    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Now => Self::Now,
            Verdict::At(_) => Self::Soon,
            Verdict::Left => Self::Left,
        }
    }

    /// What a reader should know of it; empty if it is done at once.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Now => "",
            Self::Soon => " (repaired if it lasts for 500 ms)",
            Self::Left => " (left: another client has a set of its name)",
        }
    }
}

impl RuleReport {
    /// The rules that name a set, sorted.
    pub(crate) fn all(
        set: &SetName,
        replica: &NorthboundReplica,
        references: &References,
    ) -> Vec<Self> {
        let mut all: Vec<_> = references.rules(replica, set).map(Self::of).collect();
        all.sort_by_cached_key(|rule| (rule.table, rule.owner.clone(), Reverse(rule.priority)));
        all
    }

    fn of(rule: RuleDetails<'_>) -> Self {
        Self {
            table: rule.table.as_str(),
            action: rule.action.to_owned(),
            direction: rule.direction.to_owned(),
            priority: rule.priority,
            owner: rule.owner_name.map(str::to_owned),
            index: rule.index(),
        }
    }
}

impl fmt::Display for NameReport {
    /// Several lines, the last one without a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.sets.is_empty() {
            return f.write_str(": no differences");
        }
        self.sets.iter().try_for_each(|set| write!(f, "\n  {set}"))
    }
}

impl fmt::Display for SetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.set, self.family)?;
        if !self.controller.is_empty() {
            write!(f, " of {}", self.controller)?;
        }
        f.write_str(match self.kind {
            Kind::MissingRow | Kind::NameClash => " is missing:",
            Kind::Addresses => ":",
            Kind::UnwantedRow => " has neither an object nor a rule:",
        })?;
        for address in &self.missing {
            write!(f, " +{address}")?;
        }
        for address in &self.surplus {
            write!(f, " -{address}")?;
        }
        f.write_str(self.action.as_str())?;
        (self.rules.iter()).try_for_each(|rule| write!(f, "\n    {rule}"))
    }
}

impl fmt::Display for RuleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table)?;
        for word in [&self.action, &self.direction] {
            if !word.is_empty() {
                write!(f, " {word}")?;
            }
        }
        if self.table != RuleTable::Nat.as_str() {
            write!(f, " {}", self.priority)?;
        }
        if let Some(owner) = &self.owner {
            write!(f, " of {owner}")?;
        }
        if let Some(index) = self.index {
            write!(f, ", egress[{index}]")?;
        }
        Ok(())
    }
}
