//! Differences for people: the addresses that a set lacks or has in excess, and the rules that use it.

use std::net::IpAddr;

use ovsdb_replica::Replica;
use proto::{
    api::{DnsName, address_set_id, address_set_name},
    facts::{Action, DifferenceKind, RuleInDatabase, SetDifference},
};

use crate::{
    address_set::AddressSet,
    plan::{
        Change, Plan,
        set_plan::{Finding, Verdict},
    },
    references::{NorthboundReplica, References, RuleDetails, RuleTable, SetName},
};

/// The differences of a name's sets, by its plan.
pub(crate) fn differences(
    name: &DnsName,
    plan: &Plan,
    replica: &NorthboundReplica,
    references: &References,
) -> Vec<SetDifference> {
    let mut sets: Vec<SetDifference> = Vec::new();
    for finding in &plan.findings {
        let mut set = difference(name, finding, &replica.0);
        if sets.last_mut().is_some_and(|last| last.merge(&set)) {
            continue;
        }
        set.rules = rules(&SetName::from(set.set.as_str()), replica, references);
        sets.push(set);
    }
    sets
}

fn difference(name: &DnsName, finding: &Finding, rows: &Replica<AddressSet>) -> SetDifference {
    let texts = |addresses: &[IpAddr]| addresses.iter().map(ToString::to_string).collect();
    let row = finding.change.uuid().and_then(|uuid| rows.get(uuid));
    let (missing, surplus, kind) = match &finding.change {
        Change::Create { addresses, .. } if finding.is_conflict => {
            (texts(addresses), Vec::new(), DifferenceKind::NameClash)
        }
        Change::Create { addresses, .. } => {
            (texts(addresses), Vec::new(), DifferenceKind::MissingRow)
        }
        Change::Mutate { insert, delete, .. } => {
            let surplus = delete.iter().map(ToString::to_string).collect();
            (texts(insert), surplus, DifferenceKind::Addresses)
        }
        Change::Delete { .. } => {
            let members = row.into_iter().flat_map(|row| row.addresses().iter());
            let members = members.map(|address| address.to_string()).collect();
            (Vec::new(), members, DifferenceKind::UnwantedRow)
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
    SetDifference {
        name: name.to_string(),
        set,
        controller: controller.to_owned(),
        family,
        kind,
        missing,
        surplus,
        action: match finding.verdict {
            Verdict::Now => Action::Now,
            Verdict::At(_) => Action::Soon,
            Verdict::Left => Action::Left,
        },
        rules: Vec::new(),
    }
}

/// The rules that name a set, in order.
pub(crate) fn rules(
    set: &SetName,
    replica: &NorthboundReplica,
    references: &References,
) -> Vec<RuleInDatabase> {
    let mut all: Vec<_> = references.rules(replica, set).map(rule).collect();
    all.sort_by_cached_key(RuleInDatabase::order);
    all
}

fn rule(rule: RuleDetails<'_>) -> RuleInDatabase {
    RuleInDatabase {
        table: rule.table.as_str().to_owned(),
        action: rule.action.to_owned(),
        direction: rule.direction.to_owned(),
        priority: (rule.table != RuleTable::Nat).then_some(rule.priority),
        owner: rule.owner_name.map(str::to_owned),
        index: rule.index(),
    }
}
