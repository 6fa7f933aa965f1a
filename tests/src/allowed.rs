//! The addresses that rules let through over time: an address in a set has no effect until a rule refers to the set.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
    time::Duration,
};

use tokio::time::Instant;

use crate::{monitor::Update, northbound::Row};

/// A period in which an address of a DNS name was in a set that a rule refers to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stay {
    pub from: Instant,
    /// The end, and the index of its update; `None` if the address is still there.
    pub to: Option<(Instant, usize)>,
}

/// A period in which an address of a DNS name was in no set that a rule refers to, after it had been in one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Absence {
    /// The name, lower-case and with its dot.
    pub name: String,
    /// The address as it is spelt in sets.
    pub address: String,
    pub from: Instant,
    /// The end; `None` if it did not come back.
    pub to: Option<Instant>,
}

impl Absence {
    /// The duration, up to now if it has not ended.
    pub fn length(&self) -> Duration {
        self.to.unwrap_or_else(Instant::now) - self.from
    }
}

/// A period in which a rule referred to a missing set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MissingSet {
    pub set: String,
    pub from: Instant,
    /// The end; `None` if it has not ended.
    pub to: Option<Instant>,
}

impl MissingSet {
    /// The duration, up to now if it has not ended.
    pub fn length(&self) -> Duration {
        self.to.unwrap_or_else(Instant::now) - self.from
    }
}

/// The periods in which each address of each name was in a set that a rule refers to. Names are in lower case with the
/// final dot. The updates are those of a [`crate::monitor::Monitor::with_rules`] or of the [`crate::transaction_log`].
pub fn stays(updates: &[Update]) -> BTreeMap<(String, String), Vec<Stay>> {
    let mut tables = Tables::default();
    let mut before: BTreeSet<(String, String)> = BTreeSet::new();
    let mut stays: BTreeMap<(String, String), Vec<Stay>> = BTreeMap::new();
    for (index, update) in updates.iter().enumerate() {
        tables.apply(update);
        let sets = tables.referred_to();
        let open = tables.rows.values();
        let open = open.filter(|row| sets.contains(row.name.as_str()));
        let now: BTreeSet<(String, String)> = open.flat_map(members).collect();
        for gone in before.difference(&now) {
            let stay = stays.get_mut(gone).and_then(|all| all.last_mut());
            stay.expect("it came").to = Some((update.at, index));
        }
        for new in now.difference(&before) {
            stays.entry(new.clone()).or_default().push(Stay {
                from: update.at,
                to: None,
            });
        }
        before = now;
    }
    stays
}

/// All absences, sorted by their start.
pub fn absences(updates: &[Update]) -> Vec<Absence> {
    let mut absences = Vec::new();
    for ((name, address), stays) in stays(updates) {
        let returns = stays.iter().skip(1).map(|stay| Some(stay.from));
        let returns = returns.chain([None]);
        for (stay, to) in stays.iter().zip(returns) {
            let Some((from, _)) = stay.to else { continue };
            absences.push(Absence {
                name: name.clone(),
                address: address.clone(),
                from,
                to,
            });
        }
    }
    absences.sort_by_key(|absence| absence.from);
    absences
}

/// All periods in which a rule referred to a missing set, sorted by their start.
pub fn missing_sets(updates: &[Update]) -> Vec<MissingSet> {
    let mut tables = Tables::default();
    let mut missing: Vec<MissingSet> = Vec::new();
    for update in updates {
        tables.apply(update);
        let there: BTreeSet<&str> = tables.rows.values().map(|row| row.name.as_str()).collect();
        let referred = tables.referred_to();
        let mut now: BTreeSet<&str> = referred.difference(&there).copied().collect();
        for open in missing.iter_mut().filter(|missing| missing.to.is_none()) {
            if !now.remove(open.set.as_str()) {
                open.to = Some(update.at);
            }
        }
        missing.extend(now.into_iter().map(|set| MissingSet {
            set: set.to_owned(),
            from: update.at,
            to: None,
        }));
    }
    missing
}

/// The sets that transactions matching `fits` created while no rule referred to them.
pub fn made_without_a_rule(updates: &[Update], fits: impl Fn(&Update) -> bool) -> Vec<String> {
    let mut tables = Tables::default();
    let mut made = Vec::new();
    for update in updates {
        let is_new = |uuid: &String| !tables.rows.contains_key(uuid) && fits(update);
        let rows = update.rows.iter();
        let new: Vec<&Row> = rows
            .filter_map(|(uuid, row)| row.as_ref().filter(|_| is_new(uuid)))
            .collect();
        tables.apply(update);
        if !new.is_empty() {
            let sets = tables.referred_to();
            let unused = new.iter().filter(|row| !sets.contains(row.name.as_str()));
            made.extend(unused.map(|row| row.to_string()));
        }
    }
    made
}

/// An address that left a set while a rule referred to the set, before and after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Closing {
    /// The row of the set before the change.
    pub row: Row,
    pub address: String,
}

impl Closing {
    /// The DNS name of the set, from its row.
    pub fn name(&self) -> &str {
        self.row.dns_name().unwrap_or(&self.row.name)
    }
}

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.address)
    }
}

/// All closings, in their order, as `NAME ADDRESS`.
pub fn closings(updates: &[Update]) -> Vec<String> {
    let mut tables = Tables::default();
    let closings = updates.iter().flat_map(|update| tables.apply(update));
    closings.map(|closing| closing.to_string()).collect()
}

/// The content of the tables after some updates.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The sets, by the uuids of their rows.
    pub rows: BTreeMap<String, Row>,
    /// The names of the sets that each rule refers to.
    rules: BTreeMap<String, BTreeSet<String>>,
    /// How many rules refer to each set.
    references: BTreeMap<String, usize>,
}

impl Tables {
    /// The names of the sets that rules refer to.
    fn referred_to(&self) -> BTreeSet<&str> {
        self.references.keys().map(String::as_str).collect()
    }

    /// Whether a rule refers to the set of this name.
    pub fn is_referred_to(&self, set: &str) -> bool {
        self.references.contains_key(set)
    }

    /// Applies the next update, and returns the addresses that left sets to which a rule refers.
    pub fn apply(&mut self, update: &Update) -> Vec<Closing> {
        // If an update changes both tables, the rule must exist before and after it.
        let before = (!update.rules.is_empty()).then(|| self.references.clone());
        for (uuid, rule) in &update.rules {
            for set in self.rules.remove(uuid).unwrap_or_default() {
                if let Entry::Occupied(mut count) = self.references.entry(set) {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            }
            if let Some(rule) = rule {
                let sets: BTreeSet<String> = sets_in(rule).map(str::to_owned).collect();
                for set in &sets {
                    *self.references.entry(set.clone()).or_default() += 1;
                }
                self.rules.insert(uuid.clone(), sets);
            }
        }
        let mut old = Vec::new();
        for (uuid, row) in &update.rows {
            old.extend(match row {
                Some(row) => self.rows.insert(uuid.clone(), row.clone()),
                None => self.rows.remove(uuid),
            });
        }
        let was_used = |set: &str| before.as_ref().is_none_or(|sets| sets.contains_key(set));
        old.retain(|row| was_used(&row.name) && self.is_referred_to(&row.name));
        let mut closings = Vec::new();
        for old in old {
            // The name of a set is unique, but a row may replace another one within a transaction.
            let mut now = update.rows.values().flatten();
            let now = now.find(|row| row.name == old.name);
            let is_there =
                |address: &String| now.is_some_and(|row| row.addresses.contains(address));
            let gone = old.addresses.iter().filter(|address| !is_there(address));
            closings.extend(gone.map(|address| Closing {
                row: old.clone(),
                address: address.clone(),
            }));
        }
        closings
    }
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
