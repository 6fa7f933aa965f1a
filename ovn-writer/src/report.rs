//! Differences in words, for people and for programs: which addresses a set lacks or has too many, and what becomes of whose
//! packets when that is put right.

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

/// How differences are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// What is different in the sets of a name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NameReport {
    /// The DNS name.
    pub name: String,
    /// The sets that differ; none if all is well.
    pub sets: Vec<SetReport>,
}

/// What is different in a set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SetReport {
    /// The `name` of the row, whether there is one or not.
    pub set: String,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: String,
    /// Its family.
    pub family: Family,
    /// What kind of difference it is.
    pub kind: Kind,
    /// Addresses that it lacks.
    pub missing: Vec<SmolStr>,
    /// Members that it has too many, as they are written there.
    pub surplus: Vec<SmolStr>,
    /// What becomes of it.
    pub action: Action,
    /// What refers to the set.
    pub rules: Vec<RuleReport>,
}

/// What is wrong with a set.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// There is no such row.
    MissingRow,
    /// There is no such row, and none can be made: another client has one of its name, for something else.
    NameClash,
    /// It has other addresses.
    Addresses,
    /// The store does not have its name.
    UnwantedRow,
}

/// What becomes of a difference.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The writer undoes it.
    Now,
    /// The writer undoes it in so many milliseconds, if it is still there.
    AfterMillis(u64),
    /// The writer leaves it, for this reason.
    Left(&'static str),
}

/// A rule that names a set, or a row of NAT that refers to it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleReport {
    /// `ACL`, `QoS`, `Logical_Router_Policy` or `NAT`.
    pub table: &'static str,
    /// The `_uuid` of a row of NAT, and its column that refers to the set.
    #[serde(skip)]
    pub nat: Option<(Uuid, &'static str)>,
    /// `action`.
    pub action: String,
    /// `direction`.
    pub direction: String,
    /// `priority`; rows of NAT have none that the writer reads.
    pub priority: Option<i64>,
    /// `k8s.ovn.org/name`: the namespace of an EgressFirewall.
    pub owner: Option<String>,
    /// What more addresses do.
    pub effect: Effect,
}

/// What an address that comes into a set does to the packets of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// They pass.
    Opens,
    /// They are dropped.
    Closes,
    /// Something else, or what cannot be told.
    Changes,
}

impl NameReport {
    /// What the plan of a name says.
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
    /// Takes over what else is different in the same set, if the writer undoes both; returns whether it does.
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

/// A duration for people, rounded up.
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
    /// What refers to a set by its name, or to its row, in order.
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
            effect: Effect::of(rule, named.map(|(_, sense)| *sense)),
        }
    }

    /// Which packets get another address by it, and which keep their own: none of them is let through or dropped by that.
    fn from_nat(nat: (Uuid, &'static str)) -> Self {
        Self {
            table: Nat::TABLE,
            nat: Some(nat),
            action: String::new(),
            direction: String::new(),
            priority: None,
            owner: None,
            effect: Effect::Changes,
        }
    }
}

impl Effect {
    fn of(rule: &RuleDetails<'_>, sense: Option<Sense>) -> Self {
        let matched = match (rule.table, rule.action) {
            (RuleTable::Acl, "allow" | "allow-related" | "allow-stateless") => Self::Opens,
            (RuleTable::Acl, "drop" | "reject") => Self::Closes,
            // What a router does with a packet that it drops no longer is not in the rule.
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
    /// Addresses of which that cannot be told.
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
    /// Several lines, the last one without its end.
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
