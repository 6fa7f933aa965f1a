//! The used keys of a row's `external_ids`.

use proto::api::{ADDRESS_SET_OWNER_TYPE, DEFAULT_NETWORK_CONTROLLER, Family};

use ovsdb_replica::{ColumnProblem, Datum, value::TypeError};

/// `external_ids`: the owners of rows describe their purpose there.
pub(crate) const EXTERNAL_IDS: &str = "external_ids";

/// A key of ovn-kubernetes: the controller of the row. There is one per network.
pub(crate) const OWNER_CONTROLLER: &str = "k8s.ovn.org/owner-controller";
/// A key of ovn-kubernetes: the kind of the row's owner.
pub(crate) const OWNER_TYPE: &str = "k8s.ovn.org/owner-type";
/// A key of ovn-kubernetes: the name of the row's owner, such as a DNS name or a namespace.
pub(crate) const OWNER_NAME: &str = "k8s.ovn.org/name";

/// Frequent values, stored as a number each.
const COMMON: [&str; 4] = [
    ADDRESS_SET_OWNER_TYPE,
    DEFAULT_NETWORK_CONTROLLER,
    Family::V4.as_str(),
    Family::V6.as_str(),
];

/// The first byte of a value: none, or a four-byte length follows. A byte in between is an index of [`COMMON`].
const NONE: u8 = 0;
const TEXT: u8 = 1 + COMMON.len() as u8;

/// The values of most rows are shorter, in bytes.
const USUAL_LENGTH: usize = 256;

/// The values of `N` keys, in the order of the keys. There are many rows, so the values share one allocation. Missing
/// values at the end are left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Kept<const N: usize>(Box<[u8]>);

impl<const N: usize> Kept<N> {
    /// Applies a difference: an existing pair is removed, another one is added or replaces the key's value.
    pub(crate) fn modify(
        &mut self,
        keys: &[&str; N],
        difference: Datum,
    ) -> Result<(), ColumnProblem> {
        let pairs = difference.into_map()?;
        let texts = pairs
            .iter()
            .map(|(key, value)| Ok((key.text()?, value.text()?)));
        let texts = distinct(texts.collect::<Result<_, TypeError>>()?)?;
        let mut values: [Option<&str>; N] = std::array::from_fn(|place| self.get(place));
        for (key, value) in texts {
            let slot = keys.iter().position(|kept| *kept == key);
            if let Some(slot) = slot.and_then(|slot| values.get_mut(slot)) {
                let value = Some(value);
                *slot = if *slot == value { None } else { value };
            }
        }
        *self = Self::of(values);
        Ok(())
    }

    fn of(values: [Option<&str>; N]) -> Self {
        let mut bytes = Vec::with_capacity(USUAL_LENGTH);
        // Missing values at the end take no space.
        let present = values.iter().rposition(Option::is_some);
        for value in values.into_iter().take(present.map_or(0, |last| last + 1)) {
            let common = COMMON.iter().position(|common| value == Some(*common));
            match (value, common) {
                (None, _) => bytes.push(NONE),
                (_, Some(at)) => bytes.extend((1..TEXT).nth(at)),
                (Some(text), None) => {
                    bytes.push(TEXT);
                    // No message is that long.
                    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    bytes.extend_from_slice(&length.to_le_bytes());
                    bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
        // Copied, because shrinking in place would leave a gap behind each row.
        Self(bytes.as_slice().into())
    }

    /// The value of the key at this index, if the row has one.
    pub(crate) fn get(&self, place: usize) -> Option<&str> {
        let mut rest = &*self.0;
        for _ in 0..place {
            (_, rest) = first(rest)?;
        }
        first(rest)?.0
    }
}

/// The first value, and the rest; `None` at the end.
fn first(bytes: &[u8]) -> Option<(Option<&str>, &[u8])> {
    let (start, rest) = bytes.split_first()?;
    match *start {
        NONE => Some((None, rest)),
        TEXT => {
            let (length, rest) = rest.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (text, rest) = rest.split_at_checked(length)?;
            Some((std::str::from_utf8(text).ok(), rest))
        }
        common => {
            let at = usize::from(common).checked_sub(1)?;
            Some((COMMON.get(at).copied(), rest))
        }
    }
}

/// The elements; an error if one occurs twice, since it would undo itself.
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
