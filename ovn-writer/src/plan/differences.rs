//! Counts of differences, by kind.

use std::collections::BTreeMap;

use super::{
    change::Change,
    set_plan::{Finding, Plan},
};

/// Differences between the desired state and the database.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Differences {
    /// Missing rows that can be created.
    pub missing_rows: usize,
    /// Missing rows that cannot be created, because another client has a row of their name.
    pub name_clashes: usize,
    /// Missing addresses, including those of missing rows.
    pub missing_addresses: usize,
    /// Surplus members of rows.
    pub surplus_addresses: usize,
    /// Rows that have neither an object nor a rule, and are deleted.
    pub unwanted_rows: usize,
    /// Addresses that other clients added to rows whose name is as written in a rule. These are allowed, and are no
    /// difference.
    pub foreign_addresses: usize,
}

impl Differences {
    /// The differences of one name.
    pub fn of(plan: &Plan) -> Self {
        let mut differences = Self {
            foreign_addresses: plan.foreign,
            ..Self::default()
        };
        for finding in &plan.findings {
            differences.add_finding(finding);
        }
        differences
    }

    /// The total.
    pub fn count(&self) -> usize {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }

    /// Each kind with its count and its metric label.
    pub fn by_kind(&self) -> [(&'static str, usize); 5] {
        [
            ("missing_row", self.missing_rows),
            ("name_clash", self.name_clashes),
            ("missing_address", self.missing_addresses),
            ("surplus_address", self.surplus_addresses),
            ("unwanted_row", self.unwanted_rows),
        ]
    }

    /// The same as a map.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let by_kind = self.by_kind().into_iter();
        by_kind
            .map(|(kind, count)| (kind.to_owned(), count))
            .collect()
    }

    fn add_finding(&mut self, finding: &Finding) {
        match &finding.change {
            Change::Create { .. } if finding.is_conflict => self.name_clashes += 1,
            Change::Create { addresses, .. } => {
                self.missing_rows += 1;
                self.missing_addresses += addresses.len();
            }
            Change::Mutate { insert, delete, .. } => {
                self.missing_addresses += insert.len();
                self.surplus_addresses += delete.len();
            }
            Change::Delete { .. } => self.unwanted_rows += 1,
        }
    }

    /// Subtracts some and adds others.
    pub(super) fn replace(&mut self, old: Self, new: Self) {
        self.missing_rows += new.missing_rows;
        self.missing_rows -= old.missing_rows;
        self.name_clashes += new.name_clashes;
        self.name_clashes -= old.name_clashes;
        self.missing_addresses += new.missing_addresses;
        self.missing_addresses -= old.missing_addresses;
        self.surplus_addresses += new.surplus_addresses;
        self.surplus_addresses -= old.surplus_addresses;
        self.unwanted_rows += new.unwanted_rows;
        self.unwanted_rows -= old.unwanted_rows;
        self.foreign_addresses += new.foreign_addresses;
        self.foreign_addresses -= old.foreign_addresses;
    }
}
