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

#[cfg(test)]
mod tests {
    use proto::api::Family;
    use runtime::args::try_parse_from;

    use super::*;
    use crate::{ADMIN, Args, PREFIX};

    fn policy(args: &[&str]) -> Result<Policy, String> {
        let args = [
            &["ovn-writer", "--store=kube", "--objects-namespace=ns"],
            args,
        ]
        .concat();
        let parsed = try_parse_from::<Args, _>(PREFIX, ADMIN, args, |_| None);
        parsed
            .map(|args| args.policy())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_policy_is_as_the_flags_say() {
        let plain = policy(&[]).unwrap();
        assert!(!plain.is_managed);
        assert_eq!(plain.store, "kube/ns");
        assert!(
            Family::ALL
                .iter()
                .all(|family| plain.filter.is_in_use(*family))
        );
        let told = policy(&[
            "--cluster-cidr=10.128.0.0/14,10.0.0.0/24",
            "--cluster-cidr=10.1.0.0/24",
            "--managed-by-ovn-kubernetes",
            "--deny-answer=192.0.2.0/24,2001:db8::/32",
        ])
        .unwrap();
        assert!(told.is_managed);
        assert!(!told.filter.is_in_use(Family::V6));
        for address in [
            "10.128.0.1",
            "10.0.0.1",
            "10.1.0.1",
            "192.0.2.1",
            "2001:db8::1",
        ] {
            assert!(told.filter.admit(address).is_err(), "{address}");
        }
        let error = policy(&["--cluster-cidr=10.0.0.1"]).unwrap_err();
        assert!(error.contains("--cluster-cidr"), "{error}");
    }
}
