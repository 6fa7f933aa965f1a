//! The rows that tell how far OVN has followed, and the operations that ask.

use std::{collections::BTreeMap, time::Duration};

use ovsdb_replica::{
    Condition, Datum, Function, Mutation, Mutator, Operation, Row, SmolStr, Until,
    transact::OperationResult,
};

use super::Evidence;

const NB_CFG: &str = "nb_cfg";
const NB_GLOBAL: &str = "NB_Global";

ovsdb_replica::table! {
    /// The only row of its table in the northbound database.
    pub(super) struct NbGlobal in "NB_Global", key nb_cfg: i64 {
        /// The number of the last bump.
        pub(super) nb_cfg: i64,
        /// The number that all chassis have reached.
        pub(super) hv_cfg: i64,
        /// Among others, what ovn-northd says of itself.
        pub(super) options: BTreeMap<SmolStr, SmolStr>,
    }
}

ovsdb_replica::table! {
    /// A chassis in the southbound database.
    pub(super) struct ChassisPrivate in "Chassis_Private", key name: String {
        /// Its name.
        pub(super) name: String,
        /// The number of the last bump whose rules it has.
        pub(super) nb_cfg: i64,
    }
}

/// The version of a running ovn-northd.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Northd {
    /// As it writes it, such as `25.03.0-20.41.0-77.6`.
    pub(super) version: String,
    /// Whether it computes only what a change of `nb_cfg` concerns, which is nothing.
    pub(super) bumps_cheaply: bool,
}

/// The first version that does.
const CHEAP_SINCE: (u32, u32) = (24, 9);

impl Northd {
    /// From the northbound database; `None` if ovn-northd never ran on it.
    pub(super) fn of(global: &NbGlobal) -> Option<Self> {
        let version = global.options.get("northd_internal_version")?;
        let mut parts = version.split(['.', '-']).map(str::parse);
        let mut number = || parts.next().and_then(Result::ok).unwrap_or(0);
        let numbers = (number(), number());
        Some(Self {
            version: version.to_string(),
            bumps_cheaply: numbers >= CHEAP_SINCE,
        })
    }
}

/// Adds one to `nb_cfg`, and reads it.
pub(super) fn bump() -> Vec<Operation> {
    vec![
        Operation::Mutate {
            table: NB_GLOBAL.into(),
            filter: Vec::new(),
            mutations: vec![Mutation(NB_CFG.into(), Mutator::Add, Datum::from(1))],
        },
        Operation::Select {
            table: NB_GLOBAL.into(),
            filter: Vec::new(),
            columns: vec![SmolStr::new_static(NB_CFG)],
        },
    ]
}

/// The number that a [`bump`] made.
pub(super) fn bumped(results: &[OperationResult]) -> Option<i64> {
    let rows = results.last()?.rows.as_ref()?;
    match rows.first()?.get(NB_CFG)? {
        Datum::Atom(ovsdb_replica::Atom::Integer(number)) => Some(*number),
        _ => None,
    }
}

/// Waits until the southbound database shows a change.
pub(super) fn shows(evidence: &Evidence, timeout: Duration) -> Vec<Operation> {
    let name = || Datum::from(evidence.set.as_str());
    let mut filter = vec![Condition("name".into(), Function::Equal, name())];
    if let Some((address, is_member)) = &evidence.member {
        let function = match is_member {
            true => Function::Includes,
            false => Function::Excludes,
        };
        let address = Datum::strings([address.clone()]);
        filter.push(Condition("addresses".into(), function, address));
    }
    vec![Operation::Wait {
        table: "Address_Set".into(),
        filter,
        columns: vec![SmolStr::new_static("name")],
        until: Until::Equal,
        rows: vec![Row::from([(SmolStr::new_static("name"), name())])],
        timeout: timeout.as_millis().try_into().unwrap_or(u64::MAX),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bump_is_cheap_from_24_09_on() {
        let northd = |version: &str| {
            let options = [("northd_internal_version".into(), version.into())];
            Northd::of(&NbGlobal {
                options: options.into(),
                ..NbGlobal::default()
            })
        };
        for (version, bumps_cheaply) in [
            ("23.03.1-20.27.0-70.6", false),
            ("24.03.90-20.33.0-72.2", false),
            ("24.09.0-20.37.0-76.7", true),
            ("25.03.0-20.41.0-77.6", true),
            ("nonsense", false),
        ] {
            let found = northd(version).map(|northd| northd.bumps_cheaply);
            assert_eq!(found, Some(bumps_cheaply), "{version}");
        }
        assert_eq!(Northd::of(&NbGlobal::default()), None);
    }

    #[test]
    fn operations_are_written_as_the_servers_read_them() {
        let written = serde_json::to_value(bump()).unwrap();
        let mutations = serde_json::json!([["nb_cfg", "+=", 1]]);
        assert_eq!(written[0]["mutations"], mutations);
        let evidence = Evidence {
            set: "a1".into(),
            member: Some(("10.0.0.1".into(), false)),
        };
        let written = serde_json::to_value(shows(&evidence, Duration::from_secs(1))).unwrap();
        let filter = serde_json::json!([
            ["name", "==", "a1"],
            ["addresses", "excludes", ["set", ["10.0.0.1"]]]
        ]);
        assert_eq!(written[0]["where"], filter);
        assert_eq!(written[0]["rows"], serde_json::json!([{"name": "a1"}]));
        assert_eq!(written[0]["timeout"], 1000);
    }
}
