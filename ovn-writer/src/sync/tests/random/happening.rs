//! The events of random sequences.

use proptest::prelude::*;
use proto::api::{DnsNameResolver, Family};

use super::NAMES;
use crate::testing::{object, without_addresses};

/// The statement of an object's status.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Said {
    Nothing,
    Addresses(Vec<u8>),
    NoAddress,
    RuleEnded,
}

#[derive(Clone, Debug)]
pub(super) enum Happening {
    Applied {
        object: usize,
        said: Said,
    },
    Deleted {
        object: usize,
    },
    /// The store is listed again, and objects may have been deleted unseen.
    Listed {
        without: Vec<usize>,
    },
    /// An object becomes unreadable, or readable again.
    Unreadable {
        object: usize,
        yes: bool,
    },
    OutOfSync,
    ForeignRow {
        controller: usize,
        name: usize,
        family: Family,
    },
    ForeignAddress {
        row: usize,
        address: u8,
    },
    ForeignDeletion {
        row: usize,
    },
    /// A rule refers to the sets of a name.
    Reference {
        name: usize,
        by_ovn_kubernetes: bool,
    },
    /// A rule is deleted.
    NoReference {
        rule: usize,
    },
    Wait {
        millis: u64,
    },
    Transaction,
    /// If they are of full size, one is sent before the last is answered.
    Transactions,
    /// The connection is lost during a transaction.
    Loss {
        took_effect: bool,
    },
    /// The writer ends, the store changes meanwhile, and the writer starts again.
    Restart {
        without: Vec<usize>,
    },
    /// The database is saved, or restored from the copy.
    Backup {
        restore: bool,
    },
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        1 => Just(Said::Nothing),
        6 => prop::collection::vec(0..8_u8, 1..5).prop_map(Said::Addresses),
        1 => Just(Said::NoAddress),
        1 => Just(Said::RuleEnded),
    ]
}

pub(super) fn happening() -> impl Strategy<Value = Happening> {
    let family = || prop::sample::select(Family::ALL.to_vec());
    let objects = || prop::collection::vec(0..4_usize, 0..3);
    prop_oneof![
        5 => (0..4_usize, said()).prop_map(|(object, said)| Happening::Applied { object, said }),
        2 => (0..4_usize).prop_map(|object| Happening::Deleted { object }),
        1 => objects().prop_map(|without| Happening::Listed { without }),
        1 => (0..4_usize, any::<bool>()).prop_map(|(object, yes)| Happening::Unreadable { object, yes }),
        1 => Just(Happening::OutOfSync),
        1 => (0..2_usize, 0..3_usize, family()).prop_map(|(controller, name, family)| Happening::ForeignRow { controller, name, family }),
        2 => (0..9_usize, 0..8_u8).prop_map(|(row, address)| Happening::ForeignAddress { row, address }),
        1 => (0..9_usize).prop_map(|row| Happening::ForeignDeletion { row }),
        3 => (0..3_usize, prop::bool::weighted(0.2)).prop_map(|(name, by_ovn_kubernetes)| Happening::Reference { name, by_ovn_kubernetes }),
        1 => (0..9_usize).prop_map(|rule| Happening::NoReference { rule }),
        3 => prop_oneof![1..10_000_u64, 1..700_000_u64].prop_map(|millis| Happening::Wait { millis }),
        4 => Just(Happening::Transaction),
        2 => Just(Happening::Transactions),
        1 => any::<bool>().prop_map(|took_effect| Happening::Loss { took_effect }),
        1 => objects().prop_map(|without| Happening::Restart { without }),
        1 => any::<bool>().prop_map(|restore| Happening::Backup { restore }),
    ]
}

pub(super) fn address(n: u8) -> String {
    if n.is_multiple_of(2) {
        format!("10.0.0.{n}")
    } else {
        format!("2001:db8::{n}")
    }
}

/// Object 3 has the same name as object 0.
pub(super) fn resolver(number: usize, said: &Said) -> DnsNameResolver {
    let (object_name, name) = (format!("dns-{number}"), NAMES[number % 3]);
    match said {
        Said::Nothing => object(&object_name, name, &[]),
        Said::Addresses(addresses) => {
            let texts: Vec<_> = addresses.iter().map(|n| address(*n)).collect();
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            object(&object_name, name, &[&texts])
        }
        Said::NoAddress => without_addresses(&object_name, name, "NXDOMAIN"),
        Said::RuleEnded => without_addresses(&object_name, name, "NoRule"),
    }
}
