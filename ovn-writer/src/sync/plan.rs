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
mod tests;
