//! The name of a question, borrowed from the message.

use std::{
    fmt,
    hash::{BuildHasher, Hasher},
};

use super::name::Name;

/// A name in uncompressed wire form, in the case that the sender used.
///
/// An index finds it by its [`hashes`](Self::hashes) and compares it without a lower-case copy.
#[derive(Clone, Copy)]
pub struct Qname<'a>(&'a [u8]);

/// The hashes of a name in lower case, and of its parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hashes {
    /// The hash of the name.
    pub name: u64,
    /// The hash of the name without its first label, to compare with the same hash of other names.
    pub parent: u64,
}

impl<'a> Qname<'a> {
    /// Wraps the octets of a valid name.
    #[inline]
    pub(super) fn new(wire: &'a [u8]) -> Self {
        Self(wire)
    }

    /// Labels with their length octets, the root's zero last; 1 to 255 octets.
    pub(super) fn wire(self) -> &'a [u8] {
        self.0
    }

    /// A copy in lower case.
    pub fn lower(self) -> Name {
        Name::lower(self.0)
    }

    /// The name without its first label; `None` for the root.
    pub fn parent(self) -> Option<Self> {
        let (label, parent) = self.split();
        (!label.is_empty()).then_some(Self(parent))
    }

    /// Whether the name equals `text`, ignoring case. `text` has the form of a [`DnsName`](crate::api::DnsName): lower
    /// case, no escapes, with the trailing dot.
    pub fn is_plain(self, text: &str) -> bool {
        let text = text.as_bytes();
        let Some((_, octets)) = self.0.split_first() else {
            return false;
        };
        // The text must have a dot in the place of each length octet but the first, and of the root's zero.
        let (mut dots, mut is_same) = (0, octets.len() == text.len());
        for (character, octet) in text.iter().zip(octets) {
            let is_dot = *character == b'.';
            dots += u8::from(is_dot);
            is_same &= is_dot | (*character == octet.to_ascii_lowercase());
        }
        // It must have no other dots.
        let mut rest = self.0;
        while is_same && let Some((length @ 1.., _)) = rest.split_first() {
            let (_, behind) = rest
                .split_at_checked(1 + usize::from(*length))
                .unwrap_or_default();
            rest = behind;
            is_same = text
                .len()
                .checked_sub(rest.len())
                .and_then(|at| text.get(at))
                == Some(&b'.');
            dots = dots.wrapping_sub(1);
        }
        is_same && dots == 0
    }

    /// Hashes the name in lower case, and its parent on the way.
    #[inline]
    pub fn hashes(self, hasher: &impl BuildHasher) -> Hashes {
        let (label, rest) = self.split();
        let mut state = hasher.build_hasher();
        hash_lower(rest, &mut state);
        let parent = state.finish();
        hash_lower(label, &mut state);
        Hashes {
            name: state.finish(),
            parent,
        }
    }

    /// The first label with its length octet, and the rest. The root's first part is empty.
    #[inline]
    fn split(self) -> (&'a [u8], &'a [u8]) {
        let label = match self.0.first() {
            None | Some(0) => 0,
            Some(length) => 1 + usize::from(*length),
        };
        self.0.split_at_checked(label).unwrap_or_default()
    }
}

impl<'a> From<&'a Name> for Qname<'a> {
    fn from(name: &'a Name) -> Self {
        Self(name.wire())
    }
}

impl PartialEq<Name> for Qname<'_> {
    fn eq(&self, name: &Name) -> bool {
        // Length octets are smaller than any letter, so they compare unchanged.
        self.0.eq_ignore_ascii_case(name.wire())
    }
}

impl fmt::Debug for Qname<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lower().fmt(f)
    }
}

/// Hashes octets in lower case, 16 at a time, the last block zero-padded. Length octets mark where a name ends, so
/// padding cannot make two names equal.
#[inline]
fn hash_lower(octets: &[u8], state: &mut impl Hasher) {
    let (blocks, rest) = octets.as_chunks();
    for block in blocks {
        state.write_u128(lower(u128::from_le_bytes(*block)));
    }
    if !rest.is_empty() {
        state.write_u128(lower(part(rest)));
    }
}

/// Fewer than sixteen octets as a zero-padded number.
#[inline]
fn part(octets: &[u8]) -> u128 {
    // The last octets are read together with earlier ones, which are shifted out again.
    let behind = |whole: usize| 8 * (2 * whole - octets.len()) as u32;
    if let (Some(first), Some(last)) = (octets.first_chunk(), octets.last_chunk()) {
        let last = u64::from_le_bytes(*last).checked_shr(behind(8));
        u128::from(u64::from_le_bytes(*first)) | u128::from(last.unwrap_or(0)) << 64
    } else if let (Some(first), Some(last)) = (octets.first_chunk(), octets.last_chunk()) {
        let last = u32::from_le_bytes(*last).checked_shr(behind(4));
        u128::from(u32::from_le_bytes(*first)) | u128::from(last.unwrap_or(0)) << 32
    } else {
        let octets = octets.iter().rev();
        octets.fold(0, |part, octet| part << 8 | u128::from(*octet))
    }
}

/// Sixteen octets with their upper-case ASCII letters in lower case. Length octets are smaller than any letter and
/// stay.
#[inline]
fn lower(octets: u128) -> u128 {
    const ALL: u128 = u128::MAX / 0xff;
    const HIGH: u128 = ALL * 0x80;
    // The high bit of each octet tells whether its other bits are at least `A`, and whether they are above `Z`.
    let low = octets & !HIGH;
    let from_a = low + ALL * (0x80 - b'A' as u128);
    let behind_z = low + ALL * (0x7f - b'Z' as u128);
    let is_upper = from_a & !behind_z & !octets & HIGH;
    octets | is_upper >> 2
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn wire(labels: &[Vec<u8>]) -> Vec<u8> {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(label.len() as u8);
            wire.extend_from_slice(label);
        }
        wire.push(0);
        wire
    }

    fn labels() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let label = prop_oneof![
            3 => "[aAbB]{1,2}".prop_map(String::into_bytes),
            1 => "[a-zA-Z.0-9-]{1,40}".prop_map(String::into_bytes),
            1 => vec(any::<u8>(), 1..63),
        ];
        vec(label, 0..5)
    }

    proptest! {
        #[test]
        fn names_in_any_case_are_one_and_others_are_not(a in labels(), b in labels()) {
            let hasher = RandomState::new();
            let (in_a, in_b) = (wire(&a), wire(&b));
            let lowered = [&in_a, &in_b].map(|wire| wire.to_ascii_lowercase());
            let same = lowered[0] == lowered[1];
            let [a_name, b_name] = [Qname::new(&in_a), Qname::new(&in_b)];
            prop_assert_eq!(a_name.hashes(&hasher).name == b_name.hashes(&hasher).name, same);
            prop_assert_eq!(a_name == b_name.lower(), same);
            let upper = in_a.to_ascii_uppercase();
            let upper = Qname::new(&upper);
            prop_assert_eq!(a_name.hashes(&hasher), upper.hashes(&hasher));
        }

        #[test]
        fn names_with_one_parent_share_its_hash(a in labels(), b in labels(), c in labels()) {
            let hasher = RandomState::new();
            let under = |label: &[u8], parent: &[Vec<u8>]| {
                wire(&[&[label.to_vec()], parent].concat())
            };
            let (x, y, z) = (under(b"*", &a), under(b"wWw", &a), under(b"*", &b));
            let [x, y, z] = [&x, &y, &z].map(|wire| Qname::new(wire));
            let [of_x, of_y, of_z] = [x, y, z].map(|name| name.hashes(&hasher));
            prop_assert_eq!(of_x.parent, of_y.parent);
            prop_assert!(of_x.name != of_y.name);
            let same = x.parent().unwrap() == z.parent().unwrap().lower();
            prop_assert_eq!(of_x.parent == of_z.parent, same);
            prop_assert!(x.parent().unwrap() == Qname::new(&wire(&a)).lower());
            let whole = wire(&c);
            prop_assert_eq!(Qname::new(&whole).parent().is_some(), !c.is_empty());
        }
    }

    #[test]
    fn a_name_is_that_of_a_text_if_its_labels_are() {
        let plain = |labels: &[&[u8]], text| {
            let labels: Vec<_> = labels.iter().map(|label| label.to_vec()).collect();
            Qname::new(&wire(&labels)).is_plain(text)
        };
        assert!(plain(&[b"wWw", b"example-1", b"COM"], "www.example-1.com."));
        assert!(plain(&[b"*", b"a"], "*.a."));
        assert!(!plain(&[b"www", b"example"], "www.example.com."));
        assert!(!plain(&[b"www", b"example", b"com"], "www.example."));
        assert!(!plain(&[b"ww", b"wexample"], "www.example."));
        assert!(!plain(&[b"a.b", b"c"], "a.b.c."));
        assert!(!plain(&[b"a", b"b"], "a.b"));
        assert!(!plain(&[b"a\x01b"], "a.b."));
        assert!(!plain(&[], "a."));
        assert!(!plain(&[b"a"], ""));
        let long = [b'x'; 46];
        assert!(plain(&[&long], &format!("{}.", "x".repeat(46))));
    }
}
