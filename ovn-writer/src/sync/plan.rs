//! What is to be different in the rows of one name: a pure decision.
//!
//! | the object | its status so far | a row under the normalised name | a row under the name as written |
//! |---|---|---|---|
//! | is there | had an address | made equal to the status | gets what is missing, loses what was seen to leave |
//! | is there | never had one | left as it is | left as it is |
//! | was seen to go | any | deleted if this program made it, else emptied | loses what was seen to leave |
//! | was never seen | | left as it is | left as it is |
//!
//! "So far" and "seen" mean: since this program started. So nothing is ever taken out on the strength of a first reading of the
//! store, which may be the wrong one, or empty, or one that the collector has not written to yet; and a status that loses its
//! last address takes it out of the row, as it was seen to have it.
//!
//! An object that is there has a row of each family: if no row of the family bears its name in any form and for any owner, one
//! is made for the default network.

use std::{collections::BTreeSet, net::IpAddr};

use proto::api::{DEFAULT_NETWORK_CONTROLLER, DnsName, Family};
use uuid::Uuid;

use crate::{
    address_set::{self, ADDRESSES, AddressSet, EXTERNAL_IDS, NameForm, TABLE, address_in},
    desired::Wanted,
    ovsdb::{Condition, Datum, Mutation, Mutator, Operation, Row, Until},
};

/// A difference of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// There is no row of this family: make one.
    Create {
        /// The family.
        family: Family,
        /// What it holds from the start.
        addresses: Vec<IpAddr>,
    },
    /// The row lacks members, or has too many.
    Mutate {
        /// Which row.
        uuid: Uuid,
        /// What it lacks.
        insert: Vec<IpAddr>,
        /// What it has too many, as it is written there.
        delete: Vec<String>,
    },
    /// The row is of no more use, and this program made it.
    Delete {
        /// Which row.
        uuid: Uuid,
        /// Its `external_ids`: it must still be the same row when it is deleted.
        external_ids: Datum,
        /// How many members go with it.
        members: usize,
    },
}

/// What must change in `rows`, which are all rows that bear `name`, for them to be as they should; nothing if the store never
/// had the name.
pub fn plan(
    name: &DnsName,
    wanted: Option<&Wanted<'_>>,
    rows: &[(Uuid, &AddressSet)],
) -> Vec<Change> {
    let Some(wanted) = wanted else {
        return Vec::new();
    };
    let mut changes = Vec::new();
    let mut missing = BTreeSet::from(Family::ALL);
    for (uuid, row) in rows {
        let Some(identity) = row.identity().filter(|identity| identity.name == *name) else {
            continue;
        };
        missing.remove(&identity.family);
        let addresses = wanted.of_family(identity.family);
        let change = match identity.form {
            NameForm::Fqdn if wanted.present && wanted.resolved => {
                difference(*uuid, row, addresses, |_| true)
            }
            NameForm::Fqdn if wanted.present => None,
            NameForm::Fqdn if identity.created_here => Some(Change::Delete {
                uuid: *uuid,
                external_ids: row.external_ids(),
                members: row.addresses().len().saturating_add(row.others().len()),
            }),
            NameForm::Fqdn => difference(*uuid, row, &[], |_| true),
            NameForm::AsWritten => {
                let left = |address: Option<&_>| address.is_some_and(|a| wanted.left.contains(a));
                difference(*uuid, row, addresses, left)
            }
        };
        changes.extend(change);
    }
    if wanted.present {
        changes.extend(missing.into_iter().map(|family| Change::Create {
            family,
            addresses: wanted.of_family(family).to_vec(),
        }));
    }
    changes
}

/// The mutation that gives the row these addresses, which are in order, and takes those others out that may go: `None` is
/// what reads as no address.
fn difference(
    uuid: Uuid,
    row: &AddressSet,
    addresses: &[IpAddr],
    may_go: impl Fn(Option<&IpAddr>) -> bool,
) -> Option<Change> {
    let there = row.addresses();
    let insert: Vec<_> = addresses
        .iter()
        .filter(|a| !there.contains(a))
        .copied()
        .collect();
    let surplus = |a: &&IpAddr| addresses.binary_search(a).is_err() && may_go(Some(a));
    let mut delete: Vec<_> = there
        .iter()
        .filter(surplus)
        .map(IpAddr::to_string)
        .collect();
    // An address in another spelling than ours goes even if it is wanted, as ours is put in.
    let others = row
        .others()
        .iter()
        .filter(|text| may_go(address_in(text).as_ref()));
    delete.extend(others.map(|text| text.to_string()));
    let nothing = insert.is_empty() && delete.is_empty();
    (!nothing).then_some(Change::Mutate {
        uuid,
        insert,
        delete,
    })
}

impl Change {
    /// The row; `None` for one that is yet to be made.
    pub(super) fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Create { .. } => None,
            Self::Mutate { uuid, .. } | Self::Delete { uuid, .. } => Some(*uuid),
        }
    }

    /// How many [operations](Self::operations) it takes.
    pub(super) fn operation_count(&self) -> usize {
        match self {
            Self::Create { .. } | Self::Mutate { .. } => 1,
            Self::Delete { .. } => 2,
        }
    }

    /// The operations on the wire. They can be sent again without harm: a set does not hold an address twice, the table's index
    /// keeps a second row of the same name out, and a row is deleted only while it is what it was.
    pub fn operations(&self, name: &DnsName) -> Vec<Operation> {
        let table = || TABLE.to_owned();
        match self {
            Self::Create { family, addresses } => vec![Operation::Insert {
                table: table(),
                row: address_set::new_row(DEFAULT_NETWORK_CONTROLLER, name, *family, addresses),
            }],
            Self::Mutate {
                uuid,
                insert,
                delete,
            } => {
                let insert = Datum::strings(insert.iter().map(IpAddr::to_string));
                let mutation = |mutator, set| Mutation(ADDRESSES.to_owned(), mutator, set);
                let mutations = [
                    mutation(Mutator::Insert, insert),
                    mutation(Mutator::Delete, Datum::strings(delete)),
                ];
                vec![Operation::Mutate {
                    table: table(),
                    filter: vec![Condition::uuid(*uuid)],
                    mutations: mutations.into_iter().filter(|m| m.2.len() > 0).collect(),
                }]
            }
            Self::Delete {
                uuid, external_ids, ..
            } => vec![
                Operation::Wait {
                    table: table(),
                    filter: vec![Condition::uuid(*uuid)],
                    columns: vec![EXTERNAL_IDS.to_owned()],
                    until: Until::Equal,
                    rows: vec![Row::from([(EXTERNAL_IDS.to_owned(), external_ids.clone())])],
                    timeout: 0,
                },
                Operation::Delete {
                    table: table(),
                    filter: vec![Condition::uuid(*uuid)],
                },
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ovsdb::Record, testing::dns};

    const W: &str = "www.example.com.";

    fn row(name: &str, family: Family, created_here: bool, members: &[&str]) -> AddressSet {
        let mut ids = vec![
            ("k8s.ovn.org/owner-controller", "default-network-controller"),
            ("k8s.ovn.org/owner-type", "EgressFirewallDNS"),
            ("k8s.ovn.org/name", name),
            ("ip-family", family.as_str()),
        ];
        ids.extend(created_here.then_some(("ovn-writer/created", "true")));
        let members = members.iter().copied();
        AddressSet::read(Row::from([
            (ADDRESSES.to_owned(), Datum::strings(members)),
            (EXTERNAL_IDS.to_owned(), Datum::string_map(ids)),
        ]))
        .unwrap()
    }

    /// What becomes of one IPv4 row that holds 10.0.0.1 (wanted), 10.0.0.2 (left) and 10.0.0.3 (foreign).
    fn fate(name: &str, created_here: bool, present: bool, resolved: bool) -> String {
        let members = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "x"];
        let rows = [
            (
                Uuid::from_u128(1),
                &row(name, Family::V4, created_here, &members),
            ),
            (
                Uuid::from_u128(2),
                &row(name, Family::V6, created_here, &[]),
            ),
        ];
        let wanted: &[&str] = if present && resolved {
            &["10.0.0.1", "10.0.0.4"]
        } else {
            &[]
        };
        let left = if resolved { "10.0.0.2" } else { "10.9.9.9" };
        let wanted = Wanted {
            present,
            resolved,
            addresses: wanted.iter().map(|text| text.parse().unwrap()).collect(),
            left: &[left.parse().unwrap()].into(),
        };
        match plan(&dns(W), Some(&wanted), &rows).first() {
            None => "as it is".to_owned(),
            Some(Change::Create { .. }) => "another".to_owned(),
            Some(Change::Delete { .. }) => "deleted".to_owned(),
            Some(Change::Mutate { insert, delete, .. }) => {
                let insert = insert.iter().map(|a| format!("+{a}"));
                let delete = delete.iter().map(|a| format!("-{a}"));
                insert.chain(delete).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn the_table_of_decisions_holds() {
        let foreign = |present, resolved| fate(W, false, present, resolved);
        let own = |present, resolved| fate(W, true, present, resolved);
        let as_written = |present, resolved| fate("WWW.example.com", false, present, resolved);
        let equal = "+10.0.0.4 -10.0.0.2 -10.0.0.3 -x";
        let emptied = "-10.0.0.1 -10.0.0.2 -10.0.0.3 -x";
        // The object is there, and its status had an address.
        assert_eq!(foreign(true, true), equal);
        assert_eq!(own(true, true), equal);
        assert_eq!(as_written(true, true), "+10.0.0.4 -10.0.0.2");
        // The object is there, and its status never had one.
        assert_eq!(foreign(true, false), "as it is");
        assert_eq!(own(true, false), "as it is");
        assert_eq!(as_written(true, false), "as it is");
        // The object was seen to go.
        assert_eq!(foreign(false, true), emptied);
        assert_eq!(foreign(false, false), emptied);
        assert_eq!(own(false, true), "deleted");
        assert_eq!(own(false, false), "deleted");
        assert_eq!(as_written(false, true), "-10.0.0.2");
        assert_eq!(as_written(false, false), "as it is");
    }

    #[test]
    fn a_name_that_the_store_never_had_is_left_alone() {
        let row = row(W, Family::V4, true, &["10.0.0.1"]);
        assert_eq!(plan(&dns(W), None, &[(Uuid::nil(), &row)]), []);
    }

    #[test]
    fn an_object_that_is_there_has_a_row_of_each_family() {
        let left = BTreeSet::new();
        let addresses: Vec<IpAddr> = ["10.0.0.1", "2001:db8::1"]
            .iter()
            .map(|a| a.parse().unwrap())
            .collect();
        let mut wanted = Wanted {
            present: true,
            resolved: true,
            addresses: addresses.into(),
            left: &left,
        };
        let create = |family, address: &str| Change::Create {
            family,
            addresses: vec![address.parse().unwrap()],
        };
        let both = [
            create(Family::V4, "10.0.0.1"),
            create(Family::V6, "2001:db8::1"),
        ];
        assert_eq!(plan(&dns(W), Some(&wanted), &[]), both);
        // One as somebody wrote it will do.
        let v6 = row("WWW.example.com", Family::V6, false, &["2001:db8::1"]);
        assert_eq!(
            plan(&dns(W), Some(&wanted), &[(Uuid::nil(), &v6)]),
            both[..1]
        );
        wanted.present = false;
        assert_eq!(plan(&dns(W), Some(&wanted), &[]), []);
        wanted = Wanted {
            present: true,
            resolved: false,
            addresses: vec![].into(),
            left: &left,
        };
        assert_eq!(
            plan(&dns(W), Some(&wanted), &[]).len(),
            2,
            "before the first status too"
        );
    }

    #[test]
    fn every_row_of_a_name_is_kept() {
        let left = BTreeSet::new();
        let addresses = vec!["10.0.0.1".parse().unwrap()];
        let wanted = Wanted {
            present: true,
            resolved: true,
            addresses: addresses.into(),
            left: &left,
        };
        let (one, other) = (
            row(W, Family::V4, true, &[]),
            row(W, Family::V4, false, &["10.0.0.2"]),
        );
        let v6 = row(W, Family::V6, true, &[]);
        let uuids = [1, 2, 3].map(Uuid::from_u128);
        let changes = plan(
            &dns(W),
            Some(&wanted),
            &[(uuids[0], &one), (uuids[1], &other), (uuids[2], &v6)],
        );
        let insert = vec!["10.0.0.1".parse().unwrap()];
        assert_eq!(
            changes,
            [
                Change::Mutate {
                    uuid: uuids[0],
                    insert: insert.clone(),
                    delete: vec![]
                },
                Change::Mutate {
                    uuid: uuids[1],
                    insert,
                    delete: vec!["10.0.0.2".into()]
                },
            ]
        );
    }

    #[test]
    fn a_mutation_says_only_what_changes() {
        let change = Change::Mutate {
            uuid: Uuid::nil(),
            insert: vec!["10.0.0.1".parse().unwrap()],
            delete: vec![],
        };
        let operations = serde_json::to_value(change.operations(&dns(W))).unwrap();
        let mutations = serde_json::json!([["addresses", "insert", ["set", ["10.0.0.1"]]]]);
        assert_eq!(operations[0]["mutations"], mutations);
    }
}
