//! What the writer does and does not.

use super::{BatchLimits, plan::Terms};
use crate::desired;

/// Which sets are made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum CreateSets {
    /// All that the store wants; but where ovn-kubernetes manages address sets, only those that it forgot
    #[default]
    Auto,
    /// All that the store wants
    Always,
    /// None
    Never,
}

/// What the writer does and does not.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Which sets are made.
    pub create: CreateSets,
    /// What holds for the sets of all names.
    pub terms: Terms,
    /// What is made of the store.
    pub desired: desired::Options,
    /// How much goes into a transaction.
    pub limits: BatchLimits,
}

impl Policy {
    /// For the store of this name.
    pub fn new(store: impl Into<String>, desired: desired::Options, create: CreateSets) -> Self {
        Self {
            create,
            terms: Terms::new(store, desired.filter.clone()),
            desired,
            limits: BatchLimits::default(),
        }
    }
}
