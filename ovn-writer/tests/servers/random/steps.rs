//! The steps of a random sequence.

use proptest::prelude::*;
use proto::api::Family;

/// How many names there are.
pub(super) const COUNT: usize = 7;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The collector writes a status.
    Status {
        name: usize,
        addresses: Vec<u8>,
    },
    /// An object is created, or created again, without a status.
    Silent {
        name: usize,
    },
    /// The collector writes that the name has no address.
    NoAddress {
        name: usize,
    },
    /// The collector writes that the rule ended, and deletes the object.
    RuleEnded {
        name: usize,
    },
    /// Objects are deleted without a last status.
    Deleted {
        names: Vec<usize>,
    },
    /// A file becomes unreadable.
    Garbage {
        name: usize,
    },
    /// A file that was never readable is added or removed.
    Stranger {
        is_there: bool,
    },
    /// The folder of the objects vanishes.
    FolderGoes,
    /// It returns without these objects.
    FolderReturns {
        lost: Vec<usize>,
    },
    /// A rule refers to the sets of a name, or no rule does any more.
    Rule {
        name: usize,
    },
    NoRule {
        name: usize,
    },
    NoRules,
    /// Another client creates a row of another network.
    ForeignRow {
        name: usize,
        family: Family,
    },
    /// It replaces all addresses of a row, or deletes the row.
    Replaced {
        row: usize,
        addresses: Vec<u8>,
    },
    Destroyed {
        row: usize,
    },
    /// It adds an address to a row, or removes one.
    Added {
        row: usize,
        address: u8,
    },
    Removed {
        row: usize,
        address: u8,
    },
    /// It creates a row without a purpose, with the name of one of our sets.
    NameConflict {
        name: usize,
    },
    /// The server is killed and starts again.
    ServerRestarts,
    /// The server hangs for a moment.
    ServerHangs,
    /// The database is saved, replaced by the copy, or replaced by an empty one.
    Saved,
    Restored,
    Wiped,
    /// The connection ends.
    Cut,
    /// The writer is killed at any point of its work.
    WriterKilled,
    /// The writer starts again.
    WriterStarts,
    /// The delay after which unused names are removed passes.
    Delay,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let name = || 0..COUNT;
    let names = || prop::collection::vec(0..COUNT, 0..COUNT);
    let addresses = || prop::collection::vec(0..8_u8, 1..5);
    let family = prop::sample::select(Family::ALL.to_vec());
    let store = prop_oneof![
        8 => (name(), addresses()).prop_map(|(name, addresses)| Step::Status { name, addresses }),
        2 => name().prop_map(|name| Step::Silent { name }),
        1 => name().prop_map(|name| Step::NoAddress { name }),
        2 => name().prop_map(|name| Step::RuleEnded { name }),
        3 => names().prop_map(|names| Step::Deleted { names }),
        1 => name().prop_map(|name| Step::Garbage { name }),
        1 => any::<bool>().prop_map(|is_there| Step::Stranger { is_there }),
        1 => Just(Step::FolderGoes),
        2 => names().prop_map(|lost| Step::FolderReturns { lost }),
    ];
    let database = prop_oneof![
        4 => name().prop_map(|name| Step::Rule { name }),
        3 => name().prop_map(|name| Step::NoRule { name }),
        1 => Just(Step::NoRules),
        1 => (name(), family).prop_map(|(name, family)| Step::ForeignRow { name, family }),
        2 => (0..16_usize, addresses()).prop_map(|(row, addresses)| Step::Replaced { row, addresses }),
        1 => (0..16_usize).prop_map(|row| Step::Destroyed { row }),
        2 => (0..16_usize, 0..8_u8).prop_map(|(row, address)| Step::Added { row, address }),
        2 => (0..16_usize, 0..8_u8).prop_map(|(row, address)| Step::Removed { row, address }),
        1 => name().prop_map(|name| Step::NameConflict { name }),
    ];
    let servers = prop_oneof![
        2 => Just(Step::ServerRestarts),
        1 => Just(Step::ServerHangs),
        2 => Just(Step::Saved),
        2 => Just(Step::Restored),
        1 => Just(Step::Wiped),
        2 => Just(Step::Cut),
        2 => Just(Step::WriterKilled),
        4 => Just(Step::WriterStarts),
    ];
    prop_oneof![8 => store, 5 => database, 4 => servers, 4 => Just(Step::Delay)]
}

/// One address of each family.
pub(super) fn address(n: u8) -> String {
    if n.is_multiple_of(2) {
        format!("10.0.0.{n}")
    } else {
        format!("2001:db8::{n}")
    }
}

pub(super) fn addresses(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|n| address(*n)).collect()
}
