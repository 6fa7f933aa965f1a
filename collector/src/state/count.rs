//! Counts addresses, also as they would be under the retention of each namespace.

use std::{net::IpAddr, sync::Arc};

use runtime::clock::Timestamp;

use super::{
    Limits, NameList,
    evict::{ADDRESS_V6_BYTES, bytes_of, name_bytes},
    name::Name,
};
use crate::clients::Namespace;

/// The most retentions of a name that are counted apart. A further namespace is charged as if it
/// had the longest.
pub const MAX_OWN_RETENTION: usize = 8;

/// A number of addresses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Count {
    pub all: usize,
    /// What they take in a stored object, with the name if a wildcard found it.
    pub bytes: usize,
    /// Those that remain under each of the shorter retentions, in the order of [`Kept::own`].
    on_own: [usize; MAX_OWN_RETENTION],
}

impl From<usize> for Count {
    /// A count under the longest retention, of IPv6 addresses: the most bytes. The counts under
    /// shorter retentions are unknown.
    fn from(all: usize) -> Self {
        Self {
            all,
            bytes: all * ADDRESS_V6_BYTES,
            on_own: Default::default(),
        }
    }
}

impl Count {
    /// Those that remain under the retention of this namespace.
    pub fn of(&self, namespace: Namespace, own: &[OwnLimits]) -> usize {
        let mut counts = own.iter().zip(self.on_own);
        let own = counts.find(|(own, _)| own.namespaces.binary_search(&namespace).is_ok());
        own.map_or(self.all, |(_, count)| count)
    }

    /// The bytes of those, in proportion.
    pub fn bytes_of(&self, namespace: Namespace, own: &[OwnLimits]) -> usize {
        let bytes = self.bytes * self.of(namespace, own);
        bytes.checked_div(self.all).unwrap_or(self.bytes)
    }
}

/// The limits that some namespaces would have for a name if no other asked for longer retention.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct OwnLimits {
    pub limits: Arc<Limits>,
    /// Sorted.
    pub namespaces: Box<[Namespace]>,
}

/// The limits under which addresses are kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The longest, which apply.
    pub limits: &'a Limits,
    /// The shorter ones of some namespaces.
    pub own: &'a [OwnLimits],
    pub now: Timestamp,
}

impl Kept<'_> {
    /// The addresses of the object's own name, without names that a wildcard found.
    pub fn own(&self, list: &NameList) -> Count {
        let Some(own) = list.name(&list.spec) else {
            return Count::default();
        };
        Count {
            bytes: bytes_of(own) - name_bytes(&own.dns_name),
            ..self.count(own)
        }
    }

    /// The clients and the number of addresses of each name that the wildcard found.
    pub fn found<'a>(&self, list: &'a NameList) -> impl Iterator<Item = (&'a [IpAddr], Count)> {
        let found = list.names.iter().filter(|it| list.is_found(it));
        found.map(|name| (&*name.askers.0, self.count(name)))
    }

    pub(super) fn count(&self, name: &Name) -> Count {
        let mut count: Count = name.addresses.len().into();
        count.bytes = bytes_of(name);
        for (on_own, own) in count.on_own.iter_mut().zip(self.own) {
            let addresses = name.addresses.iter();
            let removals = addresses.map(|it| it.earliest_removal_on(&own.limits, self.limits));
            *on_own = removals.filter(|at| *at > self.now).count();
        }
        count
    }
}
