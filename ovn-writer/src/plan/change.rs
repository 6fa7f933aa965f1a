//! A change of one row, and its operations.

use std::{fmt, net::IpAddr};

use proto::api::{DnsName, Family};
use smol_str::{SmolStr, ToSmolStr};
use uuid::Uuid;

use super::{set_of::SetOf, set_plan::Finding};
use ovsdb_replica::{Condition, Datum, Mutation, Mutator, Operation};

use crate::address_set::{self, ADDRESSES, TABLE};

/// How many addresses of a change a log line names.
const NAMED: usize = 10;

/// A change of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The row is missing: create it.
    Create {
        set: SetOf,
        /// Its initial addresses.
        addresses: Vec<IpAddr>,
        /// Its mark.
        store: String,
        /// Whether ovn-kubernetes manages the database; the row records it.
        is_managed: bool,
    },
    /// The row lacks members, or has surplus ones.
    Mutate {
        uuid: Uuid,
        family: Family,
        /// The missing addresses.
        insert: Vec<IpAddr>,
        /// The surplus members, as written in the row.
        delete: Vec<SmolStr>,
    },
    /// The row is no longer needed, and this program created it.
    Delete {
        uuid: Uuid,
        family: Family,
        /// Its mark.
        store: String,
        /// The number of its members.
        members: usize,
    },
}

impl Change {
    pub fn family(&self) -> Family {
        match self {
            Self::Create { set, .. } => set.family,
            Self::Mutate { family, .. } | Self::Delete { family, .. } => *family,
        }
    }

    /// The changed row; `None` for a new one.
    pub fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Create { .. } => None,
            Self::Mutate { uuid, .. } | Self::Delete { uuid, .. } => Some(*uuid),
        }
    }

    pub fn is_creation(&self) -> bool {
        matches!(self, Self::Create { .. })
    }

    pub fn is_deletion(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }

    /// Its length on the wire in bytes, roughly.
    pub(super) fn estimated_wire_len(&self) -> usize {
        const ROW: usize = 500;
        let member = match self.family() {
            Family::V4 => 16,
            Family::V6 => 30,
        };
        ROW + match self {
            Self::Create { addresses, .. } => addresses.len() * member,
            Self::Mutate { insert, delete, .. } => {
                let deleted: usize = delete.iter().map(|text| text.len() + 3).sum();
                insert.len() * member + deleted
            }
            Self::Delete { .. } => 0,
        }
    }

    /// The operation on the wire. Sending it twice is harmless: a set cannot hold an address twice, the table's index
    /// refuses a second row of the same name, and a row is deleted only while it has our mark.
    pub fn operation(&self, name: &DnsName) -> Operation {
        let table = TABLE.into();
        match self {
            Self::Create {
                set,
                addresses,
                store,
                is_managed,
            } => {
                let mark = (store.as_str(), *is_managed);
                let row = address_set::new_row(mark, &set.controller, name, set.family, addresses);
                Operation::insert(table, row)
            }
            Self::Mutate {
                uuid,
                insert,
                delete,
                ..
            } => {
                let insert = Datum::strings(insert.iter().map(IpAddr::to_smolstr));
                let mutation = |mutator, set| Mutation(ADDRESSES.into(), mutator, set);
                let mutations = [
                    mutation(Mutator::Insert, insert),
                    mutation(Mutator::Delete, Datum::strings(delete.iter().cloned())),
                ];
                Operation::Mutate {
                    table,
                    filter: vec![Condition::uuid(*uuid)],
                    mutations: mutations.into_iter().filter(|m| m.2.len() > 0).collect(),
                }
            }
            Self::Delete { uuid, store, .. } => Operation::Delete {
                table,
                filter: address_set::made_for(store, *uuid),
            },
        }
    }
}

impl fmt::Display for Change {
    /// On one line, with only the first addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = self.family();
        match self {
            Self::Create { set, addresses, .. } => {
                write!(f, "create {family} of {}", set.controller)?;
                named(f, '+', addresses)
            }
            Self::Mutate { insert, delete, .. } => {
                write!(f, "mutate {family}")?;
                named(f, '+', insert)?;
                named(f, '-', delete)
            }
            Self::Delete { members, .. } => write!(f, "delete {family} with {members} members"),
        }
    }
}

fn named(f: &mut fmt::Formatter<'_>, sign: char, addresses: &[impl fmt::Display]) -> fmt::Result {
    for address in addresses.iter().take(NAMED) {
        write!(f, " {sign}{address}")?;
    }
    match addresses.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => write!(f, " {sign}({more} more)"),
    }
}

/// The changes of findings, for a log line.
pub(super) struct ChangesText<'a>(pub(super) &'a [Finding]);

impl fmt::Display for ChangesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        self.0.iter().try_for_each(|finding| {
            let separator = std::mem::replace(&mut separator, "; ");
            write!(f, "{separator}{}", finding.change)
        })
    }
}
