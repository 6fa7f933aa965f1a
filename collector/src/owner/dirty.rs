//! Names to look at, each once, in turn.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

use proto::api::DnsName;

/// Names to look at. Whoever comes again has its turn after all others that are there.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    names: BTreeSet<DnsName>,
    /// Whose turn was last.
    last: Option<DnsName>,
}

impl Dirty {
    pub(super) fn insert(&mut self, name: DnsName) {
        self.names.insert(name);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Takes the next name: in their order, and from the first on again behind the last.
    pub(super) fn pop(&mut self) -> Option<DnsName> {
        let behind = self.last.take().and_then(|last| {
            let mut behind = self.names.range((Excluded(last), Unbounded));
            behind.next().cloned()
        });
        let next = match behind {
            Some(next) => self.names.take(&next),
            None => self.names.pop_first(),
        };
        self.last.clone_from(&next);
        next
    }
}

impl Extend<DnsName> for Dirty {
    fn extend<T: IntoIterator<Item = DnsName>>(&mut self, names: T) {
        self.names.extend(names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_comes_again_and_again_holds_nobody_up() {
        let name = |first: char| DnsName::parse(&format!("{first}.example.com")).unwrap();
        let mut dirty = Dirty::default();
        dirty.extend("abcd".chars().map(name));
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.extend(dirty.pop());
            dirty.insert(name('a'));
            dirty.insert(name('b'));
        }
        let expected: Vec<_> = "abcdab".chars().map(name).collect();
        assert_eq!(taken, expected);
    }
}
