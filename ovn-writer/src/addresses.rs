//! A compact set of addresses: about 4 bytes for IPv4 and 16 for IPv6.
//!
//! Sets are compared far more often than they change, so they are sorted slices.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proto::api::Family;

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Addresses {
    v4: Box<[Ipv4Addr]>,
    v6: Box<[Ipv6Addr]>,
}

/// A borrowed set of addresses, or its part of one family.
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

    /// Removes those addresses that are in the set, and adds the others.
    pub fn toggle(&mut self, addresses: &Self) {
        let kept = self.all().without(addresses.all());
        let new = addresses.all().without(self.all());
        *self = kept.into_iter().chain(new).collect();
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
    pub fn len(self) -> usize {
        self.v4.len().saturating_add(self.v6.len())
    }

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

    /// The addresses of one family.
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

    /// The addresses that are not in the other set, sorted.
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

/// The elements of `set` that are not in `other`. Both are sorted.
fn without<T: Copy + Ord>(set: &[T], other: &[T], mut left: impl FnMut(T)) {
    let mut other = other.iter().peekable();
    for element in set {
        while other.next_if(|it| *it < element).is_some() {}
        if other.peek() != Some(&element) {
            left(*element);
        }
    }
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
        // Unsorted, with duplicates.
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
            toggled.toggle(&b);
            prop_assert_eq!(toggled, compact(&one.symmetric_difference(&other).copied().collect()));
        }
    }
}
