//! Differences as text and as JSON: the addresses that a set lacks or has in excess, and the effect of a repair on
//! packets.

use std::{cmp::Reverse, fmt, net::IpAddr, time::Instant};

use ovsdb_replica::{Record, Replica};
use proto::api::{DnsName, Family, address_set_id, address_set_name};
use serde::{Serialize, Serializer, ser::SerializeStruct};
use smol_str::{SmolStr, ToSmolStr};
use uuid::Uuid;

use crate::{
    address_set::AddressSet,
    references::{Nat, NorthboundReplica, References, RuleDetails, RuleTable, Sense, SetName},
    sync::{
        Change, Plan,
        plan::{Finding, Verdict},
    },
};

/// The format of differences.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Format {
    /// Plain text
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// The differences of the sets of a name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NameReport {
    pub name: String,
    /// The sets that differ; empty if none does.
    pub sets: Vec<SetReport>,
}

/// The differences of a set.
#[derive(Clone, Debug, Eq, PartialEq)]
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
    /// The store does not have its name.
    UnwantedRow,
}

/// The planned action for a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The writer repairs it.
    Now,
    /// The writer repairs it after this many milliseconds, if it still exists.
    AfterMillis(u64),
    /// The writer ignores it, for this reason.
    Left(&'static str),
}

/// A rule that names a set, or a NAT row that refers to it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleReport {
    /// `ACL`, `QoS`, `Logical_Router_Policy` or `NAT`.
    pub table: &'static str,
    /// The `_uuid` of a NAT row, and its column that refers to the set.
    #[serde(skip)]
    pub nat: Option<(Uuid, &'static str)>,
    /// `action`.
    pub action: String,
    /// `direction`.
    pub direction: String,
    /// `priority`; `None` for NAT rows.
    pub priority: Option<i64>,
    /// `k8s.ovn.org/name`: the namespace of an EgressFirewall.
    pub owner: Option<String>,
    /// The index of the rule in its EgressFirewall, from 0.
    pub index: Option<i64>,
    /// Whether the rule concerns only some protocols or ports.
    pub is_for_ports: bool,
    /// The effect of more addresses.
    pub effect: Effect,
}

/// The effect of a new address in a set on the packets of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Opens,
    Closes,
    /// Another effect, or an unknown one.
    Changes,
}

impl NameReport {
    /// The report of a name's plan.
    pub fn of(
        name: &DnsName,
        plan: &Plan,
        replica: &NorthboundReplica,
        references: &References,
        now: Instant,
    ) -> Self {
        let mut sets: Vec<SetReport> = Vec::new();
        for finding in &plan.findings {
            let mut set = SetReport::of(name, finding, &replica.0, now);
            if sets.last_mut().is_some_and(|last| last.merge(&set)) {
                continue;
            }
            let set_name = SetName::from(set.set.as_str());
            set.rules = RuleReport::all(&set_name, finding.change.uuid(), replica, references);
            sets.push(set);
        }
        Self {
            name: name.to_string(),
            sets,
        }
    }
}

impl SetReport {
    fn of(name: &DnsName, finding: &Finding, rows: &Replica<AddressSet>, now: Instant) -> Self {
        let texts = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::to_smolstr).collect();
        let row = finding.change.uuid().and_then(|uuid| rows.get(uuid));
        let (missing, surplus, kind) = match &finding.change {
            Change::Create { addresses, .. } if finding.is_conflict => {
                (texts(addresses), Vec::new(), Kind::NameClash)
            }
            Change::Create { addresses, .. } => (texts(addresses), Vec::new(), Kind::MissingRow),
            Change::Mutate { insert, delete, .. } => {
                let kind = match finding.is_wanted {
                    true => Kind::Addresses,
                    false => Kind::UnwantedRow,
                };
                (texts(insert), delete.clone(), kind)
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
            action: Action::of(finding.verdict, now),
            rules: Vec::new(),
        }
    }
}

impl SetReport {
    /// Adds another difference of the same set if the writer repairs both; returns whether it does.
    fn merge(&mut self, other: &Self) -> bool {
        let action = match (self.action, other.action) {
            (Action::Left(_), _) | (_, Action::Left(_)) => return false,
            (Action::Now, action) | (action, Action::Now) => action,
            (Action::AfterMillis(one), Action::AfterMillis(other)) => {
                Action::AfterMillis(one.max(other))
            }
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

/// A duration as text, rounded up.
pub(crate) fn short_duration(millis: u64) -> String {
    match millis {
        0..10_000 => format!("{millis} ms"),
        10_000..120_000 => format!("{} s", millis.div_ceil(1000)),
        _ => format!("{} min", millis.div_ceil(60_000)),
    }
}

impl Action {
    fn of(verdict: Verdict, now: Instant) -> Self {
        match verdict {
            Verdict::Now => Self::Now,
            Verdict::At(at) => {
                let millis = at.saturating_duration_since(now).as_millis();
                Self::AfterMillis(u64::try_from(millis).unwrap_or(u64::MAX))
            }
            Verdict::Left(reason) => Self::Left(reason.as_str()),
        }
    }
}

impl RuleReport {
    /// The references to a set by its name or row, sorted.
    pub(crate) fn all(
        set: &SetName,
        row: Option<Uuid>,
        replica: &NorthboundReplica,
        references: &References,
    ) -> Vec<Self> {
        let rules = references.rules(replica, set);
        let mut all: Vec<_> = rules.map(|rule| Self::of(&rule, set)).collect();
        all.extend(references.nats(replica, set, row).map(Self::from_nat));
        all.sort_by(|a, b| {
            let key = |rule: &Self| {
                (
                    rule.table,
                    rule.owner.clone(),
                    Reverse(rule.priority),
                    rule.nat,
                )
            };
            key(a).cmp(&key(b))
        });
        all
    }

    fn of(rule: &RuleDetails<'_>, set: &SetName) -> Self {
        let named = rule.sets.iter().find(|(name, _)| name == set);
        Self {
            table: rule.table.as_str(),
            nat: None,
            action: rule.action.to_owned(),
            direction: rule.direction.to_owned(),
            priority: Some(rule.priority),
            owner: rule.owner_name.map(str::to_owned),
            index: rule.index(),
            is_for_ports: rule.is_for_ports,
            effect: Effect::of(rule, named.map(|(_, sense)| *sense)),
        }
    }

    /// NAT changes the source address of packets. It neither passes nor drops them.
    fn from_nat(nat: (Uuid, &'static str)) -> Self {
        Self {
            table: Nat::TABLE,
            nat: Some(nat),
            action: String::new(),
            direction: String::new(),
            priority: None,
            owner: None,
            index: None,
            is_for_ports: false,
            effect: Effect::Changes,
        }
    }
}

impl Effect {
    fn of(rule: &RuleDetails<'_>, sense: Option<Sense>) -> Self {
        let matched = match (rule.table, rule.action) {
            (RuleTable::Acl, "allow" | "allow-related" | "allow-stateless") => Self::Opens,
            (RuleTable::Acl, "drop" | "reject") => Self::Closes,
            // The rule does not tell what the router does with packets that it no longer drops.
            _ => return Self::Changes,
        };
        match (matched, sense) {
            (_, None | Some(Sense::Unclear)) => Self::Changes,
            (Self::Opens, Some(Sense::Fewer)) => Self::Closes,
            (Self::Closes, Some(Sense::Fewer)) => Self::Opens,
            (effect, _) => effect,
        }
    }
}

/// A rule with the addresses that it would open and close.
#[derive(Serialize)]
struct RuleView<'a> {
    table: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<Uuid>,
    #[serde(skip_serializing_if = "str::is_empty")]
    column: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    action: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    direction: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    opens: &'a [SmolStr],
    closes: &'a [SmolStr],
    /// Addresses with another or unknown effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<&'a SmolStr>,
}

impl SetReport {
    fn views(&self) -> impl Iterator<Item = RuleView<'_>> {
        self.rules.iter().map(|rule| {
            let (opens, closes, changes) = match rule.effect {
                Effect::Opens => (&*self.missing, &*self.surplus, Vec::new()),
                Effect::Closes => (&*self.surplus, &*self.missing, Vec::new()),
                Effect::Changes => {
                    let all = self.missing.iter().chain(&self.surplus);
                    (&[][..], &[][..], all.collect())
                }
            };
            RuleView {
                table: rule.table,
                row: rule.nat.map(|(row, _)| row),
                column: rule.nat.map_or("", |(_, column)| column),
                action: &rule.action,
                direction: &rule.direction,
                priority: rule.priority,
                owner: rule.owner.as_deref(),
                opens,
                closes,
                changes,
            }
        })
    }
}

impl Serialize for SetReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut set = serializer.serialize_struct("SetReport", 8)?;
        set.serialize_field("set", &self.set)?;
        set.serialize_field("controller", &self.controller)?;
        set.serialize_field("family", self.family.as_str())?;
        set.serialize_field("kind", &self.kind)?;
        set.serialize_field("missing", &self.missing)?;
        set.serialize_field("surplus", &self.surplus)?;
        set.serialize_field("action", &self.action)?;
        set.serialize_field("rules", &self.views().collect::<Vec<_>>())?;
        set.end()
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
            Kind::MissingRow => " is missing:",
            Kind::NameClash => " is missing, and another client has a set of its name:",
            Kind::Addresses => ":",
            Kind::UnwantedRow => " is of no name in the store:",
        })?;
        for address in &self.missing {
            write!(f, " +{address}")?;
        }
        for address in &self.surplus {
            write!(f, " -{address}")?;
        }
        match self.action {
            Action::Now => {}
            Action::AfterMillis(millis) => write!(f, " (in {})", short_duration(millis))?,
            Action::Left(_) if self.kind == Kind::NameClash => {}
            Action::Left(reason) => write!(f, " (left: {reason})")?,
        }
        self.views().try_for_each(|rule| write!(f, "\n    {rule}"))
    }
}

impl fmt::Display for RuleView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table)?;
        for word in [self.column, self.action, self.direction] {
            if !word.is_empty() {
                write!(f, " {word}")?;
            }
        }
        if let Some(priority) = self.priority {
            write!(f, " {priority}")?;
        }
        if let Some(row) = self.row {
            write!(f, " of {row}")?;
        }
        if let Some(owner) = self.owner {
            write!(f, " of {owner}")?;
        }
        let mut separator = ":";
        for (verb, addresses) in [
            ("opens", self.opens.iter().collect()),
            ("closes", self.closes.iter().collect()),
            ("changes", self.changes.clone()),
        ] {
            if !addresses.is_empty() {
                write!(f, "{separator} {verb}")?;
                separator = ";";
            }
            addresses
                .iter()
                .try_for_each(|address| write!(f, " {address}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
