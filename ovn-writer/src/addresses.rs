//! A set of addresses that takes little more room than the addresses: 4 bytes for IPv4, 16 for IPv6.
//!
//! Sets change by a few addresses at a time and are compared far more often, so they are sorted slices, and whole runs of them
//! are copied or skipped at once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proto::api::Family;

/// The set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Addresses {
    v4: Box<[Ipv4Addr]>,
    v6: Box<[Ipv6Addr]>,
}

/// A set that belongs to somebody else, or the part of it that is of one family.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AddressesRef<'a> {
    v4: &'a [Ipv4Addr],
    v6: &'a [Ipv6Addr],
}

impl Addresses {
    /// All of it, borrowed.
    pub fn all(&self) -> AddressesRef<'_> {
        AddressesRef {
            v4: &self.v4,
            v6: &self.v6,
        }
    }

    /// Takes out those that are in it, and puts the others in.
    pub fn toggle(&mut self, addresses: Self) {
        toggle(&mut self.v4, addresses.v4);
        toggle(&mut self.v6, addresses.v6);
    }
}

impl FromIterator<IpAddr> for Addresses {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for address in addresses {
            match address {
                IpAddr::V4(address) => v4.push(address),
                IpAddr::V6(address) => v6.push(address),
            }
        }
        Self {
            v4: sorted(v4),
            v6: sorted(v6),
        }
    }
}

impl<'a> AddressesRef<'a> {
    /// The number of addresses.
    pub fn len(self) -> usize {
        self.v4.len().saturating_add(self.v6.len())
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether the address is one of them.
    pub fn contains(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.binary_search(&address).is_ok(),
            IpAddr::V6(address) => self.v6.binary_search(&address).is_ok(),
        }
    }

    /// The addresses in order, IPv4 before IPv6.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> + use<'a> {
        let v4 = self.v4.iter().copied().map(IpAddr::V4);
        v4.chain(self.v6.iter().copied().map(IpAddr::V6))
    }

    /// Those of one family.
    pub fn of_family(self, family: Family) -> Self {
        match family {
            Family::V4 => Self {
                v4: self.v4,
                v6: &[],
            },
            Family::V6 => Self {
                v4: &[],
                v6: self.v6,
            },
        }
    }

    /// Those that are not in the other set, in order.
    pub fn without(self, other: Self) -> Vec<IpAddr> {
        let mut left = Vec::new();
        without(self.v4, other.v4, |address| left.push(address.into()));
        without(self.v6, other.v6, |address| left.push(address.into()));
        left
    }
}

fn sorted<T: Ord>(mut elements: Vec<T>) -> Box<[T]> {
    elements.sort_unstable();
    elements.dedup();
    elements.into_boxed_slice()
}

/// Both are sorted.
fn toggle<T: Copy + Ord>(set: &mut Box<[T]>, elements: Box<[T]>) {
    if elements.is_empty() {
        return;
    }
    if set.is_empty() {
        *set = elements;
        return;
    }
    let mut toggled = Vec::with_capacity(set.len().saturating_add(elements.len()));
    let mut rest = &**set;
    for element in &*elements {
        let run;
        (run, rest) = split_at_not_less(rest, element);
        toggled.extend_from_slice(run);
        match rest.split_first() {
            Some((first, behind)) if first == element => rest = behind,
            _ => toggled.push(*element),
        }
    }
    toggled.extend_from_slice(rest);
    *set = toggled.into_boxed_slice();
}

/// Both are sorted.
fn without<T: Copy + Ord>(set: &[T], other: &[T], mut left: impl FnMut(T)) {
    let (mut rest, mut other) = (set, other);
    loop {
        // Mostly they are equal for long.
        let equal = equal(rest, other);
        (rest, other) = (
            rest.get(equal..).unwrap_or_default(),
            other.get(equal..).unwrap_or_default(),
        );
        let Some((first, behind)) = rest.split_first() else {
            return;
        };
        (_, other) = split_at_not_less(other, first);
        if other.first() != Some(first) {
            left(*first);
            rest = behind;
        }
    }
}

/// How many elements at the start are the same. Many are compared at once, without a look at each result.
fn equal<T: Eq>(one: &[T], other: &[T]) -> usize {
    const MANY: usize = 64;
    let (chunks, _) = one.as_chunks::<MANY>();
    let (others, _) = other.as_chunks::<MANY>();
    let same = |(a, b): &(&[T; MANY], &[T; MANY])| {
        a.iter().zip(*b).fold(true, |same, (a, b)| same & (a == b))
    };
    let before = chunks.iter().zip(others).take_while(same).count() * MANY;
    let rest = one.iter().zip(other).skip(before);
    before + rest.take_while(|(a, b)| a == b).count()
}

/// The elements that are less, and those from there on. It looks at few of them if the place is near.
fn split_at_not_less<'a, T: Ord>(sorted: &'a [T], element: &T) -> (&'a [T], &'a [T]) {
    let mut step = 1;
    let mut bound = sorted.len();
    while step < bound {
        match sorted.get(step) {
            Some(probe) if probe < element => step *= 2,
            _ => bound = step,
        }
    }
    let near = sorted.get(..bound).unwrap_or(sorted);
    let at = near.partition_point(|probe| probe < element);
    sorted.split_at_checked(at).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Few different ones, so that sets overlap.
    fn addresses() -> impl Strategy<Value = BTreeSet<IpAddr>> {
        let v4 = (0..40_u32).prop_map(|n| IpAddr::from(Ipv4Addr::from_bits(n << 16)));
        let v6 = (0..20_u128).prop_map(|n| IpAddr::from(Ipv6Addr::from_bits(n << 64)));
        prop::collection::btree_set(prop_oneof![v4, v6], 0..60)
    }

    fn compact(set: &BTreeSet<IpAddr>) -> Addresses {
        // In no order, and some of them twice.
        set.iter()
            .rev()
            .chain(set.iter().take(3))
            .copied()
            .collect()
    }

    proptest! {
        #[test]
        fn it_does_what_other_sets_do(one in addresses(), other in addresses()) {
            let (a, b) = (compact(&one), compact(&other));
            let (a_ref, b_ref) = (a.all(), b.all());
            prop_assert!(a_ref.iter().eq(one.iter().copied()));
            prop_assert_eq!(a_ref.len(), one.len());
            prop_assert_eq!(a_ref.is_empty(), one.is_empty());
            prop_assert!(one.union(&other).all(|ip| a_ref.contains(*ip) == one.contains(ip)));
            prop_assert_eq!(a_ref.without(b_ref), one.difference(&other).copied().collect::<Vec<_>>());
            for family in Family::ALL {
                let mut of_family = one.clone();
                of_family.retain(|ip| ip.is_ipv4() == (family == Family::V4));
                prop_assert!(a_ref.of_family(family).iter().eq(of_family));
            }
            let mut toggled = a.clone();
            toggled.toggle(b);
            prop_assert_eq!(toggled, compact(&one.symmetric_difference(&other).copied().collect()));
        }
    }
}
