//! The `external_ids` of a row, of which only some keys matter.

use crate::ovsdb::{ColumnProblem, Datum};

/// `external_ids`, where owners of rows say what a row is for.
pub(crate) const EXTERNAL_IDS: &str = "external_ids";

/// Keys of ovn-kubernetes: which of its controllers, one a network, the row belongs to.
pub(crate) const OWNER_CONTROLLER: &str = "k8s.ovn.org/owner-controller";
/// What kind of thing the row is for.
pub(crate) const OWNER_TYPE: &str = "k8s.ovn.org/owner-type";
/// The name of that thing: a DNS name, a namespace.
pub(crate) const OWNER_NAME: &str = "k8s.ovn.org/name";

/// The values of `N` keys, in the order in which the keys are given.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Kept<const N: usize>([Option<Box<str>>; N]);

impl<const N: usize> Default for Kept<N> {
    fn default() -> Self {
        Self([const { None }; N])
    }
}

impl<const N: usize> Kept<N> {
    /// Takes a difference over: a pair that is there goes, anything else comes or takes the place of what was there.
    pub(crate) fn modify(
        &mut self,
        keys: &[&str; N],
        difference: Datum,
    ) -> Result<(), ColumnProblem> {
        for (key, value) in distinct(difference.into_string_map()?)? {
            let slot = keys.iter().position(|kept| *kept == key);
            if let Some(slot) = slot.and_then(|slot| self.0.get_mut(slot)) {
                let value = Some(value.into_boxed_str());
                *slot = if *slot == value { None } else { value };
            }
        }
        Ok(())
    }

    /// The value of the key at this place, if the row has one.
    pub(crate) fn get(&self, place: usize) -> Option<&str> {
        self.0.get(place)?.as_deref()
    }
}

/// Elements that differ. The same one twice would undo itself.
pub(crate) fn distinct<T: Ord>(mut elements: Vec<T>) -> Result<Vec<T>, ColumnProblem> {
    elements.sort_unstable();
    let count = elements.len();
    elements.dedup();
    if elements.len() == count {
        Ok(elements)
    } else {
        Err(ColumnProblem::Duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_brings_changes_and_removes() {
        let mut kept = Kept::<2>::default();
        for (difference, expected) in [
            (&[("a", "1"), ("c", "9")][..], [Some("1"), None]),
            (&[("a", "2"), ("b", "3")], [Some("2"), Some("3")]),
            (&[("a", "2"), ("c", "9")], [None, Some("3")]),
            (&[], [None, Some("3")]),
        ] {
            let pairs = difference.iter().copied();
            kept.modify(&["a", "b"], Datum::string_map(pairs)).unwrap();
            assert_eq!([kept.get(0), kept.get(1)], expected);
        }
        assert_eq!(kept.get(2), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let modify = |difference| Kept::<1>::default().modify(&["a"], difference);
        let twice = Datum::string_map([("z", "1"), ("z", "1")]);
        assert_eq!(modify(twice), Err(ColumnProblem::Duplicate));
        assert!(matches!(modify("text".into()), Err(ColumnProblem::Type(_))));
    }
}
