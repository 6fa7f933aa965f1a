//! The facts of an ovn-writer: address sets, the rules that refer to them, and how they differ from the statuses.

use std::{cmp::Reverse, collections::BTreeMap, fmt, net::IpAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reason;
use crate::{
    api::{DnsName, Family},
    text::{few, printable},
    timestamp::Timestamp,
};

/// What an ovn-writer knows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OvnWriterFacts {
    /// Why this process writes nothing; `null` if it writes.
    pub idle: Option<Idle>,
    /// The connection to the northbound database.
    pub database: DatabaseFacts,
    /// The DNSNameResolver objects with a valid name.
    pub objects: usize,
    /// The names in the store or in the database.
    pub name_count: usize,
    /// The counts of differences between statuses and sets, by kind.
    pub differences: BTreeMap<String, usize>,
    /// Names whose sets rules use, and that have no object. Their sets keep their addresses.
    pub absent: Vec<String>,
    /// Names with addresses that no rule refers to by a set, at most 1,000.
    pub unreferenced: Vec<DnsName>,
    /// The sets of a page of names, sorted by name.
    pub sets: Vec<SetFacts>,
    /// The last name of the page, if more follow.
    pub next: Option<DnsName>,
    /// The latest new addresses of rows, the oldest first.
    pub new_addresses: Vec<RowAddress>,
}

/// Why a process writes nothing.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// It has `--dry-run`.
    DryRun,
    /// Another one writes.
    Standby,
}

impl Idle {
    /// The reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DryRun => "this process writes nothing: --dry-run",
            Self::Standby => "this process stands by: another one writes",
        }
    }
}

/// The connection to the northbound database.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseFacts {
    /// The server of the session, or the one that is tried next.
    pub remote: String,
    /// Whether there is a session.
    pub is_connected: bool,
    /// The address sets of names; `null` without a session.
    pub rows: Option<usize>,
    /// Whether ovn-kubernetes manages the address sets, as far as known.
    pub is_managed: bool,
}

/// An address set, whether its row exists or not.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetFacts {
    /// The DNS name.
    pub name: String,
    /// `name` of the row.
    pub set: String,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: String,
    /// The family of its addresses.
    pub family: Family,
    /// The number of addresses that the statuses want in it.
    pub wanted: usize,
    /// The number of its members; `null` if there is no row.
    pub present: Option<usize>,
    /// The first of its addresses.
    pub addresses: Vec<IpAddr>,
    /// The number of rules and NAT rows that refer to it.
    pub rules: usize,
    /// The namespaces of these rules, at most 100.
    pub namespaces: Vec<String>,
    /// The number of other namespaces.
    pub more_namespaces: usize,
    /// Its difference, and the planned action.
    pub difference: Option<String>,
    /// The difference is about to be written, so it is no problem.
    pub is_being_written: bool,
}

/// A new address of a row.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowAddress {
    /// `spec.name` of the object.
    pub rule: String,
    /// The address.
    pub address: IpAddr,
    /// When the ovn-writer received the event of the object.
    pub received_at: Timestamp,
    /// When the database acknowledged the transaction.
    pub committed_at: Timestamp,
    /// `name` of the row.
    pub set: String,
}

/// What an ovn-writer knows of a name or an address.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetsExplained {
    /// Whether a set with it is in use by a rule.
    pub is_there: bool,
    /// The names whose sets are affected, at most 1,000.
    pub names: Vec<NameExplained>,
    /// The number of other names.
    pub more_names: usize,
    /// Why it is not in a set, and other problems.
    pub reasons: Vec<Reason>,
}

/// A name in the store or the database.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameExplained {
    /// The name.
    pub name: String,
    /// Its objects, as `NAMESPACE/NAME`.
    pub objects: Vec<String>,
    /// Whether the statuses want the address, or any address of the name.
    pub is_wanted: bool,
    /// The rows of the name that have the address; all its rows for a name.
    pub rows: Vec<RowExplained>,
    /// The differences between statuses and rows.
    pub differences: Vec<SetDifference>,
}

/// A row of an address set.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowExplained {
    /// Its UUID.
    pub uuid: String,
    /// `name` of the row.
    pub set: String,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: String,
    /// The family of its addresses: `v4` or `v6`.
    pub family: String,
    /// The matching addresses, at most 1,000.
    pub addresses: Vec<AddressExplained>,
    /// The number of others.
    pub more_addresses: usize,
    /// The rules that refer to it, at most 100.
    pub rules: Vec<RuleInDatabase>,
    /// The number of others.
    pub more_rules: usize,
    /// The number of rules left out because they belong to other namespaces.
    pub rules_elsewhere: usize,
}

/// An address of a row.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressExplained {
    /// The address.
    pub address: IpAddr,
    /// For how many seconds, if it is one of the last new addresses.
    pub since_seconds: Option<u64>,
    /// Whether the statuses want it.
    pub is_wanted: bool,
}

/// A rule that names a set.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleInDatabase {
    /// `ACL`, `QoS`, `Logical_Router_Policy` or `NAT`.
    pub table: String,
    /// `action`; empty if the table has none.
    pub action: String,
    /// `direction`; empty if the table has none.
    pub direction: String,
    /// `priority`; `null` for NAT.
    pub priority: Option<i64>,
    /// `k8s.ovn.org/name`: the namespace of an EgressFirewall.
    pub owner: Option<String>,
    /// The index of the rule in its EgressFirewall, from 0.
    pub index: Option<i64>,
}

impl RuleInDatabase {
    /// The order of rules: by owner, table and precedence.
    pub fn order(&self) -> (Option<String>, String, Reverse<Option<i64>>) {
        (
            self.owner.clone(),
            self.table.clone(),
            Reverse(self.priority),
        )
    }
}

impl fmt::Display for RuleInDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table)?;
        for word in [&self.action, &self.direction] {
            if !word.is_empty() {
                write!(f, " {word}")?;
            }
        }
        if let Some(priority) = self.priority {
            write!(f, " {priority}")?;
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

/// The address sets of a database, compared with the statuses. Its text is that of `egress verify` and of `ovn-writer --dry-run`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Why nothing was compared; `null` if it was.
    pub not_compared: Option<String>,
    /// The DNSNameResolver objects with a valid name.
    pub objects: usize,
    /// The rows of DNS names in the database.
    pub rows: usize,
    /// Whether ovn-kubernetes manages the address sets of the database.
    pub is_managed: bool,
    /// The counts of differences, by kind.
    pub counts: BTreeMap<String, usize>,
    /// The names of sets that rules use and that have no object.
    pub absent: Vec<String>,
    /// How many rows have marks of other stores, by store. They lose only addresses that this program added.
    pub other_stores: BTreeMap<String, usize>,
    /// The sets that differ, ordered by the first rule that refers to them; those without a rule are last.
    pub differences: Vec<SetDifference>,
}

/// The differences of a set.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetDifference {
    /// The DNS name.
    pub name: String,
    /// The `name` of the row, which may not exist.
    pub set: String,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: String,
    /// The family of its addresses.
    pub family: Family,
    /// The kind of the difference.
    pub kind: DifferenceKind,
    /// Addresses that it lacks.
    pub missing: Vec<String>,
    /// Surplus members, as written in the row.
    pub surplus: Vec<String>,
    /// What the ovn-writer does about it.
    pub action: Action,
    /// The rules that refer to the set, in their [order](RuleInDatabase::order).
    pub rules: Vec<RuleInDatabase>,
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
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
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The ovn-writer repairs it.
    Now,
    /// The ovn-writer repairs it if it lasts for half a second, since another client made it.
    Soon,
    /// The ovn-writer leaves it: another client has a set of its name.
    Left,
}

impl Action {
    /// What a reader should know of it; empty if it is done at once.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "",
            Self::Soon => " (repaired if it lasts for 500 ms)",
            Self::Left => " (left: another client has a set of its name)",
        }
    }
}

impl SetDifference {
    /// Adds another difference of the same set if the ovn-writer repairs both; returns whether it does.
    pub fn merge(&mut self, other: &Self) -> bool {
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

/// One line, without the rules.
impl fmt::Display for SetDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.set, self.family)?;
        if !self.controller.is_empty() {
            write!(f, " of {}", self.controller)?;
        }
        f.write_str(match self.kind {
            DifferenceKind::MissingRow | DifferenceKind::NameClash => " is missing:",
            DifferenceKind::Addresses => ":",
            DifferenceKind::UnwantedRow => " has neither an object nor a rule:",
        })?;
        for address in &self.missing {
            write!(f, " +{address}")?;
        }
        for address in &self.surplus {
            // Another client may have written anything.
            write!(f, " -{}", printable(address))?;
        }
        f.write_str(self.action.as_str())
    }
}

impl Comparison {
    /// Whether the sets are those of the statuses.
    pub fn is_same(&self) -> bool {
        self.not_compared.is_none() && self.differences.is_empty()
    }

    /// Orders the differences by rule.
    pub fn sort(&mut self) {
        self.differences.sort_by_cached_key(|set| {
            let rule = set.rules.first().map(RuleInDatabase::order);
            (rule.is_none(), rule, set.name.clone(), set.family)
        });
    }
}

/// Several lines, the last one without a line break.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.not_compared {
            return write!(f, "not compared: {why}");
        }
        let mut last = None;
        for set in &self.differences {
            let rule = set.rules.first();
            if last != Some(rule) {
                match rule {
                    Some(rule) => writeln!(f, "{rule}:")?,
                    None => writeln!(f, "no rule:")?,
                }
                last = Some(rule);
            }
            writeln!(f, "  {set}")?;
            for rule in set.rules.iter().skip(1) {
                writeln!(f, "    also {rule}")?;
            }
        }
        if !self.absent.is_empty() {
            let (count, names) = (self.absent.len(), few(self.absent.iter(), 3));
            writeln!(
                f,
                "{count} names in use have no DNSNameResolver object, and their address sets keep their addresses: {names}"
            )?;
        }
        for (store, rows) in &self.other_stores {
            writeln!(
                f,
                "{rows} rows are marked for another store, {store}, and lose only addresses that this one added"
            )?;
        }
        let count = |kind| self.counts.get(kind).copied().unwrap_or(0);
        write!(
            f,
            "{} objects, {} rows: {} missing rows, {} name clashes, {} missing addresses, {} surplus addresses, {} unwanted rows",
            self.objects,
            self.rows,
            count("missing_row"),
            count("name_clash"),
            count("missing_address"),
            count("surplus_address"),
            count("unwanted_row")
        )
    }
}
