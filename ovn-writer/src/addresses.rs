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
