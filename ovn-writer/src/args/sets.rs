//! The contents of the address sets.

use clap::Args;
use ipnet::IpNet;
use runtime::args::StoreAddress;

use crate::{desired::Filter, plan::Policy};

/// The flags of the address sets.
#[derive(Args, Clone, Debug)]
pub struct SetsArgs {
    /// The networks of the cluster's pods; repeatable.
    ///
    /// No set has addresses of these networks; ovn-kubernetes leaves them out, too. If all are IPv4 networks, sets have only
    /// IPv4 addresses, and likewise for IPv6. Default: none, and both families.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub cluster_cidr: Vec<IpNet>,

    /// Networks whose addresses stand in no set, even if a status has them; repeatable.
    ///
    /// Loopback, link-local, multicast and cloud metadata addresses and the like stand in no set either. Default: none.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub deny_answer: Vec<IpNet>,

    /// Leave address sets without a rule to ovn-kubernetes, even while the database is empty.
    ///
    /// Without this flag the ovn-writer sees in the database whether ovn-kubernetes manages it.
    #[arg(long)]
    pub managed_by_ovn_kubernetes: bool,
}

impl SetsArgs {
    /// The policy for the objects in a namespace of a store.
    pub fn policy(self, store: &StoreAddress, namespace: &str) -> Policy {
        let filter = Filter::new(self.cluster_cidr).deny(self.deny_answer);
        let mut policy = Policy::new(format!("{store}/{namespace}"), filter);
        policy.is_managed = self.managed_by_ovn_kubernetes;
        policy
    }
}
