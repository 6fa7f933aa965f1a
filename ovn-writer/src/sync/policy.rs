//! The policy of the writer.

use std::time::Instant;

use super::{BatchLimits, plan::PlanOptions};
use crate::desired::Filter;

/// Which sets are made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum CreateSets {
    /// All; where ovn-kubernetes manages address sets, only those that a rule refers to
    #[default]
    Auto,
    /// All
    Always,
    /// None
    Never,
}

/// The writer's policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Which sets are made.
    pub create: CreateSets,
    /// Whether ovn-kubernetes manages the database, even if its content does not show that.
    pub is_managed: bool,
    /// Until when the names that are absent at the start may be closed.
    pub allow_empty_until: Option<Instant>,
    /// The options for the sets of all names.
    pub options: PlanOptions,
    pub limits: BatchLimits,
}

impl Policy {
    /// For the store of this name.
    pub fn new(store: impl Into<String>, filter: Filter, create: CreateSets) -> Self {
        Self {
            create,
            is_managed: false,
            allow_empty_until: None,
            options: PlanOptions::new(store, filter),
            limits: BatchLimits::default(),
        }
    }
}
