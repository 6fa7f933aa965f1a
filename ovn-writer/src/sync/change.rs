//! A change of one row, and the operations that make it.

use std::net::IpAddr;

use proto::api::{DnsName, Family};
use uuid::Uuid;

use super::plan::SetOf;
use crate::{
    address_set::{self, ADDRESSES, TABLE},
    ovsdb::{Condition, Datum, Mutation, Mutator, Operation},
};

/// A change of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// There is no such row: make one.
    Create {
        /// Which set.
        set: SetOf,
        /// What it holds from the start.
        addresses: Vec<IpAddr>,
        /// What marks it.
        store: String,
    },
    /// The row lacks members, or has too many.
    Mutate {
        /// Which row.
        uuid: Uuid,
        /// Its family.
        family: Family,
        /// What it lacks.
        insert: Vec<IpAddr>,
        /// What it has too many, as it is written there.
        delete: Vec<String>,
    },
    /// The row is of no more use, and this program made it.
    Delete {
        /// Which row.
        uuid: Uuid,
        /// Its family.
        family: Family,
        /// What marks it.
        store: String,
        /// How many members go with it.
        members: usize,
    },
}

impl Change {
    /// The family of the row.
    pub fn family(&self) -> Family {
        match self {
            Self::Create { set, .. } => set.family,
            Self::Mutate { family, .. } | Self::Delete { family, .. } => *family,
        }
    }

    /// Whether it makes a row.
    pub fn is_creation(&self) -> bool {
        matches!(self, Self::Create { .. })
    }

    /// Whether something is missing until it is made.
    pub fn is_addition(&self) -> bool {
        match self {
            Self::Create { .. } => true,
            Self::Mutate { insert, .. } => !insert.is_empty(),
            Self::Delete { .. } => false,
        }
    }

    /// The operation on the wire. It can be sent again without harm: a set does not hold an address twice, the table's index
    /// keeps a second row of the same name out, and a row is deleted only while it bears our mark.
    pub fn operation(&self, name: &DnsName) -> Operation {
        let table = TABLE.to_owned();
        match self {
            Self::Create {
                set,
                addresses,
                store,
            } => Operation::Insert {
                table,
                row: address_set::new_row(store, &set.controller, name, set.family, addresses),
            },
            Self::Mutate {
                uuid,
                insert,
                delete,
                ..
            } => {
                let insert = Datum::strings(insert.iter().map(IpAddr::to_string));
                let mutation = |mutator, set| Mutation(ADDRESSES.to_owned(), mutator, set);
                let mutations = [
                    mutation(Mutator::Insert, insert),
                    mutation(Mutator::Delete, Datum::strings(delete)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutation_says_only_what_changes() {
        let change = Change::Mutate {
            uuid: Uuid::nil(),
            family: Family::V4,
            insert: vec!["10.0.0.1".parse().unwrap()],
            delete: vec![],
        };
        let name = DnsName::parse("www.example.com.").unwrap();
        let operation = serde_json::to_value(change.operation(&name)).unwrap();
        let mutations = serde_json::json!([["addresses", "insert", ["set", ["10.0.0.1"]]]]);
        assert_eq!(operation["mutations"], mutations);
        assert!(change.is_addition());
    }
}
