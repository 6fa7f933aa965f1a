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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn network() -> impl Strategy<Value = IpNet> {
        // Few bits, so that networks overlap.
        let v4 = (0_u8..4, 0_u8..4, 0_u8..=32).prop_map(|(a, b, prefix)| {
            IpNet::new(IpAddr::from([10, a, b, a ^ b]), prefix).unwrap()
        });
        let v6 = (0_u16..4, 0_u16..4, 0_u8..=128).prop_map(|(a, b, prefix)| {
            IpNet::new(IpAddr::from([0xfd00, a, b, 0, 0, 0, 0, a]), prefix).unwrap()
        });
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn a_set_contains_what_one_of_its_networks_does(
            networks in prop::collection::vec(network(), 0..20),
            addresses in prop::collection::vec(network(), 20),
        ) {
            let set: NetworkSet = networks.iter().copied().collect();
            prop_assert!(set.len() <= networks.len());
            for net in addresses.iter().chain(&networks) {
                for address in [net.addr(), net.network(), net.broadcast()] {
                    let expected = networks.iter().any(|net| net.contains(&address));
                    prop_assert_eq!(set.contains(address), expected, "{}", address);
                }
            }
        }
    }
}
