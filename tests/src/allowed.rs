//! Which addresses the rules let through, from moment to moment: what stands in a set does nothing until a rule refers to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::{monitor::Update, northbound::Row};

/// For how long an address of a DNS name was in no set that a rule refers to, having been in one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Absence {
    /// The name, lower-case and with its dot.
    pub name: String,
    /// The address as it is spelt in sets.
    pub address: String,
    /// Since when.
    pub from: Instant,
    /// Until when; `None` if it did not come back.
    pub to: Option<Instant>,
}

impl Absence {
    /// How long it took, up to now if it did not end.
    pub fn length(&self) -> Duration {
        self.to.unwrap_or_else(Instant::now) - self.from
    }
}

/// All absences, from the updates of a [`crate::monitor::Monitor::with_rules`].
pub fn absences(updates: &[Update]) -> Vec<Absence> {
    let mut rows: BTreeMap<&str, &Row> = BTreeMap::new();
    let mut rules: BTreeMap<&str, &str> = BTreeMap::new();
    let mut before: BTreeSet<(String, String)> = BTreeSet::new();
    let mut absences: Vec<Absence> = Vec::new();
    for update in updates {
        for (uuid, row) in &update.rows {
            match row {
                Some(row) => rows.insert(uuid, row),
                None => rows.remove(uuid.as_str()),
            };
        }
        for (uuid, rule) in &update.rules {
            match rule {
                Some(rule) => rules.insert(uuid, rule),
                None => rules.remove(uuid.as_str()),
            };
        }
        let sets: BTreeSet<&str> = rules.values().flat_map(|rule| sets_in(rule)).collect();
        let open = rows.values().filter(|row| sets.contains(row.name.as_str()));
        let now: BTreeSet<(String, String)> = open.flat_map(|row| members(row)).collect();
        for absence in absences.iter_mut().filter(|absence| absence.to.is_none()) {
            if now.contains(&(absence.name.clone(), absence.address.clone())) {
                absence.to = Some(update.at);
            }
        }
        for (name, address) in before.difference(&now).cloned() {
            absences.push(Absence {
                name,
                address,
                from: update.at,
                to: None,
            });
        }
        before = now;
    }
    absences
}

fn members(row: &Row) -> Vec<(String, String)> {
    let name = row.dns_name().unwrap_or_default().to_lowercase();
    let name = format!("{}.", name.trim_end_matches('.'));
    let pair = |address: &String| (name.clone(), address.clone());
    row.addresses.iter().map(pair).collect()
}

/// The sets that a rule refers to, as `$NAME`.
fn sets_in(rule: &str) -> impl Iterator<Item = &str> {
    rule.split('$').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
        &rest[..end.unwrap_or(rest.len())]
    })
}
