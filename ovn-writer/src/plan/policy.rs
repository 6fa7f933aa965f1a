//! The policy of the writer.

use std::time::Duration;

use super::BatchLimits;
use crate::desired::Filter;

/// The writer's policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The mark of the rows that this program creates.
    pub store: String,
    /// Whether ovn-kubernetes manages the database, even if its content does not show that.
    pub is_managed: bool,
    /// The filter for addresses, and the families in use.
    pub filter: Filter,
    pub delays: Delays,
    pub limits: BatchLimits,
}

/// How long a state must last without a break before the writer acts on it. Tests shorten them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delays {
    /// Until a row of ours with neither an object nor a rule is deleted.
    pub delete: Duration,
    /// Until a change of another client is undone, if ovn-kubernetes writes sets from the same objects.
    pub foreign: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            delete: Duration::from_secs(60),
            foreign: Duration::from_millis(500),
        }
    }
}

impl Policy {
    /// For the store of this name, with the default delays and limits.
    pub fn new(store: impl Into<String>, filter: Filter) -> Self {
        Self {
            store: store.into(),
            is_managed: false,
            filter,
            delays: Delays::default(),
            limits: BatchLimits::default(),
        }
    }
}
