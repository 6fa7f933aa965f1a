//! What the address sets are to be.

use clap::Args;
use ipnet::IpNet;
use runtime::args::StoreAddress;

use crate::{
    desired::{Filter, Options},
    sync::{CreateSets, Policy},
};

/// What the program is told of the address sets.
#[derive(Args, Clone, Debug)]
pub struct SetsArgs {
    /// The networks of the cluster's pods. Addresses in them stand in no set, as ovn-kubernetes leaves them out too, and only the
    /// families that they have are in use; may be given several times
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub cluster_cidr: Vec<IpNet>,

    /// Networks whose addresses stand in no set, whatever a status says, as with the collector's flag of this name; may be given
    /// several times
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub deny_answer: Vec<IpNet>,

    /// Which address sets are made that are not there
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub create_sets: CreateSets,

    /// Believe a store that has none of the objects that were known, or, at the start, few of the names whose address sets here are in use
    #[arg(long)]
    pub allow_empty: bool,
}

impl SetsArgs {
    /// The policy for the objects in a namespace of a store.
    pub fn policy(self, store: &StoreAddress, namespace: &str) -> Policy {
        let Self {
            cluster_cidr,
            deny_answer,
            create_sets,
            allow_empty,
        } = self;
        let desired = Options {
            filter: Filter::new(cluster_cidr).deny(deny_answer),
            allow_empty,
            ..Options::default()
        };
        Policy::new(format!("{store}/{namespace}"), desired, create_sets)
    }
}

#[cfg(test)]
mod tests {
    use proto::api::Family;
    use runtime::args::try_parse_from;

    use super::*;
    use crate::{ADMIN, Cli, PREFIX};

    fn policy(args: &[&str]) -> Result<Policy, String> {
        let args = [&["ovn-writer", "--store", "kube"], args].concat();
        match try_parse_from(PREFIX, ADMIN, args, |_| None) {
            Ok(Cli::Run(args)) => Ok(args.sets.policy(&args.common.store, "ns")),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_policy_is_as_the_flags_say() {
        let plain = policy(&[]).unwrap();
        assert_eq!(
            (plain.create, plain.desired.allow_empty),
            (CreateSets::Auto, false)
        );
        assert_eq!(plain.terms.store, "kube/ns");
        assert!(
            Family::ALL
                .iter()
                .all(|family| plain.terms.filter.is_in_use(*family))
        );
        let cluster = [
            "--cluster-cidr=10.128.0.0/14,10.0.0.0/24",
            "--cluster-cidr=10.1.0.0/24",
        ];
        let told = policy(
            &[
                &cluster[..],
                &[
                    "--create-sets=never",
                    "--allow-empty",
                    "--deny-answer=192.0.2.0/24,2001:db8::/32",
                ],
            ]
            .concat(),
        )
        .unwrap();
        assert_eq!(
            (told.create, told.desired.allow_empty),
            (CreateSets::Never, true)
        );
        assert!(!told.terms.filter.is_in_use(Family::V6));
        for address in [
            "10.128.0.1",
            "10.0.0.1",
            "10.1.0.1",
            "192.0.2.1",
            "2001:db8::1",
        ] {
            assert!(told.desired.filter.admit(address).is_err(), "{address}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_a_usage_error() {
        for (arg, words) in [
            ("--cluster-cidr=10.0.0.1", "--cluster-cidr"),
            ("--create-sets=some", "possible values: auto, always, never"),
        ] {
            let error = policy(&[arg]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
