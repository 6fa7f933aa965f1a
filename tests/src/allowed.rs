//! The addresses that left sets while rules referred to the sets: only these close something.

use std::collections::{BTreeMap, BTreeSet};

use crate::{northbound::Row, transaction_log::Update};

/// The addresses that left a set while a rule referred to it, before and after, in their order, as `NAME ADDRESS`. The updates are
/// those of [`crate::transaction_log`].
pub fn closings(updates: &[Update]) -> Vec<String> {
    let mut tables = Tables::default();
    let closings = updates.iter().flat_map(|update| tables.apply(update));
    closings.collect()
}

/// The content of the tables after some updates.
#[derive(Default)]
struct Tables {
    /// The sets, by the uuids of their rows.
    rows: BTreeMap<String, Row>,
    /// The names of the sets that each rule refers to.
    rules: BTreeMap<String, BTreeSet<String>>,
}

impl Tables {
    fn is_referred_to(&self, set: &str) -> bool {
        self.rules.values().any(|sets| sets.contains(set))
    }

    /// Applies the next update, and returns the addresses that left sets to which a rule refers.
    fn apply(&mut self, update: &Update) -> Vec<String> {
        // If an update changes both tables, the rule must exist before and after it.
        let mut old: Vec<Row> = update
            .rows
            .keys()
            .filter_map(|uuid| self.rows.get(uuid))
            .filter(|row| self.is_referred_to(&row.name))
            .cloned()
            .collect();
        for (uuid, rule) in &update.rules {
            match rule {
                Some(rule) => self.rules.insert(uuid.clone(), sets_in(rule)),
                None => self.rules.remove(uuid),
            };
        }
        for (uuid, row) in &update.rows {
            match row {
                Some(row) => self.rows.insert(uuid.clone(), row.clone()),
                None => self.rows.remove(uuid),
            };
        }
        old.retain(|row| self.is_referred_to(&row.name));
        let mut closings = Vec::new();
        for old in old {
            // The name of a set is unique, but a row may replace another one within a transaction.
            let mut now = update.rows.values().flatten();
            let now = now.find(|row| row.name == old.name);
            let is_there =
                |address: &String| now.is_some_and(|row| row.addresses.contains(address));
            let gone = old.addresses.iter().filter(|address| !is_there(address));
            let name = old.dns_name().unwrap_or(&old.name);
            closings.extend(gone.map(|address| format!("{name} {address}")));
        }
        closings
    }
}

/// The sets that a rule refers to, as `$NAME`.
fn sets_in(rule: &str) -> BTreeSet<String> {
    let sets = rule.split('$').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
        rest[..end.unwrap_or(rest.len())].to_owned()
    });
    sets.collect()
}
