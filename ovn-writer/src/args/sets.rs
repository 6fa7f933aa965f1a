//! The contents of the address sets.

use std::time::{Duration, Instant};

use clap::Args;
use ipnet::IpNet;
use runtime::{
    UsageError,
    args::{StoreAddress, parse_duration},
    clock::Timestamp,
};

use crate::{
    desired::Filter,
    sync::{CreateSets, Policy},
};

/// The flags of the address sets, which verify has too.
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

    /// The missing address sets that the ovn-writer makes.
    ///
    /// `egress verify` reports a missing set if a rule refers to it, or if the ovn-writer would make it.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub create_sets: CreateSets,

    /// Leave address sets without a rule to ovn-kubernetes, even while the database is empty.
    ///
    /// Without this flag the ovn-writer sees in the database whether ovn-kubernetes manages it.
    #[arg(long)]
    pub managed_by_ovn_kubernetes: bool,

    /// An earlier name of the store; the ovn-writer takes over the rows that it made for that store; repeatable.
    ///
    /// A row has the name of its store in `external_ids:ovn-writer/created`, such as `kube/ovn-kubernetes`. `egress verify` prints it.
    /// Use the flag after the store or its namespace was renamed. Default: none.
    #[arg(long, value_name = "STORE", value_parser = parse_former_store)]
    pub former_store: Vec<String>,

    /// How long an address set in use keeps its addresses after its DNSNameResolver object disappeared.
    ///
    /// It keeps them for longer while too many names in use are absent. This means over half of them, or over 10 and over 5 %.
    /// `egress verify` only prints when the set would be emptied.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub absent_after: Duration,
}

/// The longest time ahead for `--allow-empty-until`.
const LONGEST_PERMISSION: Duration = Duration::from_secs(3600);

impl SetsArgs {
    /// The policy for the objects in a namespace of a store.
    pub fn policy(self, store: &StoreAddress, namespace: &str) -> Policy {
        let filter = Filter::new(self.cluster_cidr).deny(self.deny_answer);
        let mut policy = Policy::new(format!("{store}/{namespace}"), filter, self.create_sets);
        policy.is_managed = self.managed_by_ovn_kubernetes;
        policy.options.former_stores = self.former_store;
        policy.options.delays.absent = self.absent_after;
        policy
    }
}

/// The end of the permission of `--allow-empty-until`; `None` if it is over. `now` is the time of day.
///
/// # Errors
/// [`UsageError`] for a time that is too far ahead.
pub(super) fn permission_end(
    until: Timestamp,
    now: Timestamp,
) -> Result<Option<Instant>, UsageError> {
    let allowed_for = until.since(now);
    if allowed_for > LONGEST_PERMISSION {
        let words =
            "--allow-empty-until is more than an hour ahead; give a time within the next hour";
        return Err(UsageError(words.to_owned()));
    }
    let allowed_for = Some(allowed_for).filter(|it| !it.is_zero());
    Ok(allowed_for.map(|it| tokio::time::Instant::now().into_std() + it))
}

/// The address of a store and a namespace, as [`SetsArgs::policy`] joins them.
fn parse_former_store(text: &str) -> Result<String, String> {
    let words =
        "it is a store and a namespace as `egress verify` names them, such as kube/ovn-kubernetes";
    let (store, namespace) = text.rsplit_once('/').ok_or(words)?;
    if namespace.is_empty() || store.parse::<StoreAddress>().is_err() {
        return Err(words.to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use proto::api::Family;
    use runtime::args::try_parse_from;

    use super::*;
    use crate::{ADMIN, Cli, PREFIX, sync::plan::Delays};

    const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    fn policy(args: &[&str]) -> Result<Policy, String> {
        let args = [
            &["ovn-writer", "--store=kube", "--objects-namespace=ns"],
            args,
        ]
        .concat();
        match try_parse_from(PREFIX, ADMIN, args, |_| None) {
            Ok(Cli::Run(args)) => {
                let policy = args.policy(NOW);
                policy.map_err(|error| error.to_string())
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_policy_is_as_the_flags_say() {
        let plain = policy(&[]).unwrap();
        assert_eq!(plain.create, CreateSets::Auto);
        assert!(!plain.is_managed && plain.allow_empty_until.is_none());
        assert_eq!(plain.options.delays, Delays::default());
        assert!(plain.options.is_ours("kube/ns") && !plain.options.is_ours("kube/other"));
        assert!(
            Family::ALL
                .iter()
                .all(|family| plain.options.filter.is_in_use(*family))
        );
        let told = policy(&[
            "--cluster-cidr=10.128.0.0/14,10.0.0.0/24",
            "--cluster-cidr=10.1.0.0/24",
            "--create-sets=never",
            "--managed-by-ovn-kubernetes",
            "--former-store=kube/other",
            "--absent-after=1h",
            "--deny-answer=192.0.2.0/24,2001:db8::/32",
        ])
        .unwrap();
        assert_eq!(told.create, CreateSets::Never);
        assert!(told.is_managed && told.options.is_ours("kube/other"));
        assert_eq!(told.options.delays.absent, Duration::from_secs(3600));
        assert!(!told.options.filter.is_in_use(Family::V6));
        for address in [
            "10.128.0.1",
            "10.0.0.1",
            "10.1.0.1",
            "192.0.2.1",
            "2001:db8::1",
        ] {
            assert!(told.options.filter.admit(address).is_err(), "{address}");
        }
    }

    #[test]
    fn a_former_store_is_a_store_and_a_namespace() {
        for (text, is_right) in [
            ("kube/ovn-kubernetes", true),
            ("dir:/var/lib/egress/ns", true),
            ("", false),
            ("kube", false),
            ("kube/", false),
            ("garbage", false),
            ("garbage/ns", false),
        ] {
            let told = policy(&["--former-store", text]);
            assert_eq!(told.is_ok(), is_right, "{text}: {told:?}");
        }
    }

    #[test]
    fn absent_names_are_permitted_to_go_until_a_time_within_an_hour() {
        for (time, is_permitted) in [
            ("2025-12-31T23:59:59Z", false),
            ("2026-01-01T00:00:00Z", false),
            ("2026-01-01T00:00:01Z", true),
            ("2026-01-01T02:00:00+01:00", true),
        ] {
            let policy = policy(&[&format!("--allow-empty-until={time}")]).unwrap();
            assert_eq!(policy.allow_empty_until.is_some(), is_permitted, "{time}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_a_usage_error() {
        for (arg, words) in [
            ("--cluster-cidr=10.0.0.1", "--cluster-cidr"),
            ("--create-sets=some", "possible values: auto, always, never"),
            ("--allow-empty-until=true", "RFC 3339"),
            (
                "--allow-empty-until=2026-01-01T01:00:01Z",
                "more than an hour",
            ),
            ("--absent-after=10", "time unit needed"),
        ] {
            let error = policy(&[arg]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
