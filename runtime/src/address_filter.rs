//! The filter for addresses of statuses, for the programs that write them into rules.

use std::net::IpAddr;

use ipnet::IpNet;
use proto::{
    address::{self, Forbidden},
    api::Family,
};

/// Why an address of a status is not in the sets.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Skip {
    /// It is not an address.
    Unparsable,
    /// The guards forbid it.
    Forbidden(Forbidden),
    /// The administrator denies it.
    Denied,
    /// It belongs to the cluster. ovn-kubernetes leaves it out as well; a writer that added it would fight with it for
    /// ever.
    Cluster,
    /// The cluster has no networks of its family.
    Family,
}

impl Skip {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Unparsable,
        Self::Forbidden(Forbidden::Unspecified),
        Self::Forbidden(Forbidden::Loopback),
        Self::Forbidden(Forbidden::LinkLocal),
        Self::Forbidden(Forbidden::Multicast),
        Self::Forbidden(Forbidden::Broadcast),
        Self::Forbidden(Forbidden::CloudMetadata),
        Self::Denied,
        Self::Cluster,
        Self::Family,
    ];

    /// Every value of [`Skip::as_str`].
    pub const WORDS: &[&str] =
        proto::forbidden_and!["unparsable", "deny-answer", "cluster", "family-not-in-use"];

    /// The value for metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unparsable => "unparsable",
            Self::Forbidden(reason) => reason.as_str(),
            Self::Denied => "deny-answer",
            Self::Cluster => "cluster",
            Self::Family => "family-not-in-use",
        }
    }
}

/// The cluster's networks, and the networks that its administrator denies.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    cluster: Vec<IpNet>,
    denied: Vec<IpNet>,
}

impl Filter {
    /// For a cluster with these pod networks. Without any, the networks are unknown, and both families are in use.
    pub fn new(cluster: Vec<IpNet>) -> Self {
        let denied = Vec::new();
        Self { cluster, denied }
    }

    /// Also denies these networks, and IPv6 addresses that embed an address of theirs ([`address::embedded`]).
    #[must_use]
    pub fn deny(self, denied: Vec<IpNet>) -> Self {
        Self { denied, ..self }
    }

    /// Whether sets may have addresses of this family.
    pub fn is_in_use(&self, family: Family) -> bool {
        let is_of = |network: &IpNet| family_of(network.addr()) == family;
        self.cluster.is_empty() || self.cluster.iter().any(is_of)
    }

    /// The address in the form of the sets.
    ///
    /// # Errors
    /// Why no set may have it.
    pub fn admit(&self, text: &str) -> Result<IpAddr, Skip> {
        let address = text.parse().map_err(|_| Skip::Unparsable)?;
        let address = address::canonical(address);
        address::check(address).map_err(Skip::Forbidden)?;
        let is_in =
            |networks: &[IpNet], address: IpAddr| networks.iter().any(|n| n.contains(&address));
        let mut inner = address::embedded(address).map(IpAddr::V4);
        if is_in(&self.denied, address) || inner.any(|inner| is_in(&self.denied, inner)) {
            return Err(Skip::Denied);
        }
        // Embedded addresses are not checked, since ovn-kubernetes does not check them either.
        if is_in(&self.cluster, address) {
            return Err(Skip::Cluster);
        }
        if !self.is_in_use(family_of(address)) {
            return Err(Skip::Family);
        }
        Ok(address)
    }
}

fn family_of(address: IpAddr) -> Family {
    match address {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(networks: &[&str], text: &str) -> String {
        let networks = networks.iter().map(|n| n.parse().unwrap()).collect();
        match Filter::new(networks).admit(text) {
            Ok(address) => address.to_string(),
            Err(skip) => skip.as_str().to_owned(),
        }
    }

    #[test]
    fn an_address_passes_the_guards_the_clusters_networks_and_the_families() {
        let v4 = &["10.128.0.0/14"][..];
        let both = &["10.128.0.0/14", "fd01::/48"][..];
        for (networks, text, expected) in [
            (&[][..], "10.128.0.1", "10.128.0.1"),
            (&[], "2001:DB8::1", "2001:db8::1"),
            (&[], "::ffff:10.128.0.1", "10.128.0.1"),
            (&[], "10.0.0.256", "unparsable"),
            (&[], "10.0.0.0/8", "unparsable"),
            (&[], "127.0.0.1", "loopback"),
            (v4, "10.127.255.255", "10.127.255.255"),
            (v4, "10.128.0.0", "cluster"),
            (v4, "::ffff:10.131.255.255", "cluster"),
            (v4, "10.132.0.0", "10.132.0.0"),
            (v4, "2001:db8::1", "family-not-in-use"),
            (v4, "::1", "loopback"),
            (both, "2001:db8::1", "2001:db8::1"),
            (both, "fd01:0:0:ffff::1", "cluster"),
            (both, "fd01:0:1::1", "fd01:0:1::1"),
            (&["fd01::/48"], "192.0.2.1", "family-not-in-use"),
        ] {
            assert_eq!(verdict(networks, text), expected, "{networks:?} {text}");
        }
    }
}
