//! Whether the store is the one that the rows of this program come from, as far as can be told from a first reading of both.
//!
//! The rows of names that went while nobody looked bear our mark, and should go. But in a wrong or emptied store all names are
//! gone: so nothing of them is removed before a list had a name that has a row here.

use std::collections::HashSet;

use proto::api::DnsName;

#[derive(Debug, Default)]
pub(super) struct Evidence {
    is_there: bool,
    /// The names with rows when the database was read first, before this program made any.
    rows: Option<HashSet<DnsName>>,
    /// The names of the last list, until it can be judged.
    list: Option<HashSet<DnsName>>,
}

impl Evidence {
    /// None is needed.
    pub(super) fn unneeded() -> Self {
        Self {
            is_there: true,
            ..Self::default()
        }
    }

    /// Whether there is any.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// A list of the store has these names.
    pub(super) fn listed(&mut self, names: HashSet<DnsName>) {
        if !self.is_there {
            self.list = Some(names);
        }
    }

    /// Judges a list that was not judged yet. `rows` are the names with rows, and whether one of them bears our mark. Returns
    /// whether there is evidence only now.
    pub(super) fn judge(&mut self, rows: impl FnOnce() -> (HashSet<DnsName>, bool)) -> bool {
        let Some(list) = self.list.take() else {
            return false;
        };
        let rows = match &mut self.rows {
            Some(rows) => rows,
            unread => {
                let (names, has_ours) = rows();
                // If nothing is ours there is nothing to lose.
                self.is_there = !has_ours;
                unread.insert(names)
            }
        };
        self.is_there |= list.iter().any(|name| rows.contains(name));
        if self.is_there {
            self.rows = None;
        }
        self.is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dns;

    fn names(names: &[&str]) -> HashSet<DnsName> {
        names.iter().map(|name| dns(name)).collect()
    }

    #[test]
    fn a_list_with_a_name_that_had_a_row_from_the_start_is_evidence() {
        let mut evidence = Evidence::default();
        assert!(!evidence.judge(|| panic!("there is nothing to judge")));
        for (list, expected) in [
            (&[][..], false),
            (&["x.example."], false),
            (&["x.example.", "a.example."], true),
        ] {
            evidence.listed(names(list));
            // Rows that came later, such as those that this program made for what is in the list, prove nothing.
            let rows = || (names(&["a.example.", "b.example."]), true);
            assert_eq!(evidence.judge(rows), expected, "{list:?}");
            assert_eq!(evidence.is_there(), expected);
        }
        evidence.listed(names(&[]));
        assert!(!evidence.judge(|| panic!("it is settled")) && evidence.is_there());
    }

    #[test]
    fn rows_that_this_program_made_later_are_no_evidence() {
        let mut evidence = Evidence::default();
        evidence.listed(names(&["x.example."]));
        assert!(!evidence.judge(|| (names(&["a.example."]), true)));
        evidence.listed(names(&["x.example."]));
        assert!(!evidence.judge(|| (names(&["a.example.", "x.example."]), true)));
    }

    #[test]
    fn where_nothing_is_ours_there_is_nothing_to_lose() {
        let mut evidence = Evidence::default();
        evidence.listed(names(&[]));
        assert!(evidence.judge(|| (names(&["a.example."]), false)));
        assert!(Evidence::unneeded().is_there());
    }
}
