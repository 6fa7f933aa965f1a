//! What holds for the sets of all names.

use std::time::Duration;

use crate::desired::Filter;

/// For how long something must be so, without a break, until something follows from it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delays {
    /// A set is emptied: its object is away and nothing refers to it, or its rule ended.
    pub away: Duration,
    /// An empty set is deleted, after [`Delays::away`].
    pub delete: Duration,
    /// A set that is in use is emptied as its object is absent.
    pub absent: Duration,
    /// The store is suspect, as too many names in use are absent.
    pub suspect: Duration,
    /// A change of another client is undone, where ovn-kubernetes writes sets from the same objects.
    pub foreign: Duration,
    /// Rows of ovn-kubernetes are back in a database that it manages, and sets that no rule refers to may be made.
    pub managed_settle: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            away: Duration::from_secs(5),
            delete: Duration::from_secs(60),
            absent: Duration::from_secs(600),
            suspect: Duration::from_secs(60),
            foreign: Duration::from_millis(500),
            managed_settle: Duration::from_secs(30),
        }
    }
}

/// What holds for the sets of all names.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// What marks the rows that this program makes.
    pub store: String,
    /// What marks rows that this program made for stores whose place this one took.
    pub former_stores: Vec<String>,
    /// Which addresses may stand in sets, and which families are in use.
    pub filter: Filter,
    /// How long things must be so.
    pub delays: Delays,
}

impl PlanOptions {
    /// The default delays, and no former stores.
    pub fn new(store: impl Into<String>, filter: Filter) -> Self {
        Self {
            store: store.into(),
            former_stores: Vec::new(),
            filter,
            delays: Delays::default(),
        }
    }

    /// Whether rows with this mark are this program's to empty and delete.
    pub fn is_ours(&self, store: &str) -> bool {
        self.store == store || self.former_stores.iter().any(|former| former == store)
    }
}
