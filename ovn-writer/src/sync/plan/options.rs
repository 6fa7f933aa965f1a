//! Options for the sets of all names.

use std::time::Duration;

use crate::desired::Filter;

/// How long a state must last without a break before the writer acts on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delays {
    /// Until a set is emptied: its object is absent and it is unreferenced, or its rule ended.
    pub away: Duration,
    /// Until an empty set is deleted, after [`Delays::away`].
    pub delete: Duration,
    /// Until a set in use is emptied because its object is absent.
    pub absent: Duration,
    /// Until the store is suspect, because too many names in use are absent.
    pub suspect: Duration,
    /// Until a change of another client is undone, if ovn-kubernetes writes sets from the same objects.
    pub foreign: Duration,
    /// Until unreferenced sets may be created, after rows of ovn-kubernetes are back in a database that it manages.
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

/// Options for the sets of all names.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// The mark of the rows that this program creates.
    pub store: String,
    /// The marks of rows that this program created for stores that this one replaces.
    pub former_stores: Vec<String>,
    /// The filter for addresses, and the families in use.
    pub filter: Filter,
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

    /// Whether this program may empty and delete rows with this mark.
    pub fn is_ours(&self, store: &str) -> bool {
        self.store == store || self.former_stores.iter().any(|former| former == store)
    }
}
