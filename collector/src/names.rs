//! Which names are wanted: the index that every event is held against.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use proto::{api::DnsName, dns};

/// An immutable set of wanted names, found by the wire form of a question without allocating.
#[derive(Debug, Default)]
pub struct NameIndex {
    exact: HashMap<Box<[u8]>, DnsName, RandomState>,
    /// What stands behind `*.`: such a name wants exactly one label more.
    wildcard: HashSet<Box<[u8]>, RandomState>,
}

/// The index as the readers see it: replaced as a whole, never changed, so that they need no lock.
pub type SharedIndex = Arc<ArcSwap<NameIndex>>;

/// Why a name is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Match<'a> {
    /// There is an object of this name.
    Exact(&'a DnsName),
    /// There is a wildcard one label above it. Whether an object can bear the name itself is still to be found out.
    Wildcard,
}

impl NameIndex {
    /// Whether an object of this name, or a wildcard one label above it, is wanted.
    pub fn find(&self, name: &dns::Name) -> Option<Match<'_>> {
        match self.exact.get(name.wire()) {
            Some(name) => Some(Match::Exact(name)),
            None => name
                .parent()
                .is_some_and(|parent| self.wildcard.contains(parent))
                .then_some(Match::Wildcard),
        }
    }
}

impl<'a> FromIterator<&'a DnsName> for NameIndex {
    fn from_iter<I: IntoIterator<Item = &'a DnsName>>(names: I) -> Self {
        let mut index = Self::default();
        for name in names {
            let wire = dns::Name::from(name);
            match wire.parent() {
                Some(parent) if name.is_wildcard() => {
                    index.wildcard.insert(parent.into());
                }
                _ => {
                    index.exact.insert(wire.wire().into(), name.clone());
                }
            }
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(wanted: &[&str], asked: &str) -> bool {
        let names: Vec<_> = wanted
            .iter()
            .map(|name| DnsName::parse(name).unwrap())
            .collect();
        names
            .iter()
            .collect::<NameIndex>()
            .find(&dns::Name::from_text(asked).unwrap())
            .is_some()
    }

    #[test]
    fn a_regular_name_wants_itself_in_any_case() {
        assert!(wants(&["www.example.com"], "WWW.Example.com."));
        assert!(!wants(&["www.example.com"], "example.com."));
        assert!(!wants(&["www.example.com"], "a.www.example.com."));
        assert!(!wants(&["www.example.com"], "ww.wexample.com."));
    }

    #[test]
    fn a_wildcard_wants_exactly_one_label_and_its_own_literal() {
        let wildcard = &["*.example.com"];
        assert!(wants(wildcard, "a.example.com."));
        assert!(wants(wildcard, "a_b.example.com."));
        assert!(wants(wildcard, "*.example.com."));
        assert!(!wants(wildcard, "a.b.example.com."));
        assert!(!wants(wildcard, "example.com."));
        assert!(!wants(wildcard, "com."));
        assert!(!wants(wildcard, "."));
    }

    #[test]
    fn a_dot_inside_a_label_is_not_a_label_boundary() {
        assert!(wants(&["*.example.com"], r"a\.b.example.com."));
        assert!(!wants(&["a.b.example.com"], r"a\.b.example.com."));
    }
}
