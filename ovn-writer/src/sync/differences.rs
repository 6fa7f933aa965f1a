//! How many differences there are, by kind.

use serde::Serialize;

use super::{
    change::Change,
    plan::{Finding, Plan},
};

/// Differences between what the store wants and what the database has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Differences {
    /// Rows that should be there and are not, and could be made.
    #[serde(rename = "missing_row")]
    pub missing_rows: usize,
    /// Rows that should be there and cannot be made, as somebody else has one of the name.
    #[serde(rename = "name_clash")]
    pub name_clashes: usize,
    /// Addresses that should be in a row and are not, those of missing rows among them.
    #[serde(rename = "missing_address")]
    pub missing_addresses: usize,
    /// Members of rows that should not be there.
    #[serde(rename = "surplus_address")]
    pub surplus_addresses: usize,
    /// Rows with members for names that the store does not have.
    #[serde(rename = "unwanted_row")]
    pub unwanted_rows: usize,
    /// Addresses that others put into rows under a name as they wrote it. This is no difference: they may.
    pub foreign_addresses: usize,
}

impl Differences {
    /// Those of one name.
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

    /// Their number.
    pub fn count(&self) -> usize {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }

    /// Each kind with its number and a word for metric labels.
    pub fn by_kind(&self) -> [(&'static str, usize); 5] {
        [
            ("missing_row", self.missing_rows),
            ("name_clash", self.name_clashes),
            ("missing_address", self.missing_addresses),
            ("surplus_address", self.surplus_addresses),
            ("unwanted_row", self.unwanted_rows),
        ]
    }

    fn add_finding(&mut self, finding: &Finding) {
        match &finding.change {
            Change::Create { .. } if finding.is_conflict => self.name_clashes += 1,
            Change::Create { addresses, .. } => {
                self.missing_rows += 1;
                self.missing_addresses += addresses.len();
            }
            Change::Mutate { insert, delete, .. } if finding.is_wanted => {
                self.missing_addresses += insert.len();
                self.surplus_addresses += delete.len();
            }
            Change::Mutate { .. } => self.unwanted_rows += 1,
            // An empty row that waits for its end is none.
            Change::Delete { members, .. } => self.unwanted_rows += usize::from(*members > 0),
        }
    }

    /// Takes some out and puts others in.
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
