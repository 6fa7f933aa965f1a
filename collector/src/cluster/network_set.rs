//! A set of many networks with fast search.

use std::net::IpAddr;

use ipnet::IpNet;

/// A set of networks. Overlapping and adjacent networks are merged.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct NetworkSet(
    /// Disjoint, sorted by first address.
    Box<[IpNet]>,
);

impl NetworkSet {
    /// Whether one of the networks contains an address.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let behind = self.0.partition_point(|net| net.network() <= address);
        let before = behind.checked_sub(1).and_then(|i| self.0.get(i));
        before.is_some_and(|net| net.contains(&address))
    }

    /// The number of networks after merging.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<IpNet> for NetworkSet {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        let networks: Vec<IpNet> = networks.into_iter().collect();
        let mut networks = IpNet::aggregate(&networks);
        networks.sort_unstable_by_key(IpNet::network);
        Self(networks.into())
    }
}
