//! The table of names, their DNSNameResolver objects, and when each object is written.
//!
//! State:
//! - `names`: the table of all names, each an `entry` with its
//!   [`NameState`](crate::state::NameState) and its objects (`stored_object`).
//! - `in_use`: the names that rules use, and `name_use`: by which sources.
//! - `namespace_limits`: the quota of each namespace.
//! - `evictions`, `eviction_log`: addresses and names removed because of a limit.
//! - `leadership`: whether this collector leads, and whether it receives enough DNS servers to
//!   remove addresses.
//!
//! The store:
//! - `stored_objects`: its objects, and the writes in flight; `updates`: its watch events. `object_policy`: how the
//!   objects of each source are made.
//! - `dirty`, `writes`: which objects are written and when; `budget`: the write rate; [`publish`]
//!   carries a write out; `write_results`: the results.
//!
//! For the status page: `inspection`, `inspect_request`, `view`, `facts`, `listing`, `metrics` and
//! `new_addresses`.

pub(crate) mod budget;
mod dirty;
mod entry;
mod eviction_log;
mod evictions;
mod facts;
mod in_use;
mod inspect_request;
mod inspection;
mod leadership;
mod listing;
mod metrics;
mod name_use;
mod names;
mod namespace_limits;
mod new_addresses;
mod object_policy;
pub mod publish;
mod stored_object;
mod stored_objects;
mod updates;
mod view;
mod write_results;
mod writes;

#[cfg(test)]
pub(crate) use self::{
    budget::WriteCost, metrics::Census, namespace_limits::Charged, stored_objects::MAX_IN_FLIGHT,
};
pub use self::{
    budget::{ETCD_QUOTA, Rates, most_stored},
    eviction_log::EvictionNotice,
    evictions::Evictions,
    facts::{Facts, NameFacts},
    inspect_request::InspectRequest,
    listing::{ListedName, NameListing, NameSelection, NamesQuery},
    metrics::METRICS,
    namespace_limits::{NamespaceLimits, NamespaceShare},
    new_addresses::NewAddresses,
    object_policy::{ManageObjects, ObjectPolicy, SourcePolicy},
    view::{NameView, View},
};
pub(crate) use self::{
    in_use::NamesInUse,
    inspection::Inspection,
    leadership::Leadership,
    metrics::report,
    names::{NameTable, guarded},
    namespace_limits::NamespaceShares,
    stored_objects::StoredObjects,
    updates::ObjectUpdate,
    writes::WritePlan,
};

use crate::{
    clients::Clients, namespaces::NamespaceQuotas, new_names::KnownNames, notices::Notices,
    observe::answer_cache::AnswerCache,
};

/// State shared with other tasks.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Answers that no rule wanted when they came.
    pub remembered: AnswerCache,
    /// The pods and namespaces of clients.
    pub clients: Clients,
    /// The names under wildcards, for the readers.
    pub known: KnownNames,
    /// The quotas of namespaces with annotations.
    pub quotas: NamespaceQuotas,
    /// Reports names that are left out to the authors of rules.
    pub notices: Notices,
    /// The latest new addresses.
    pub new_addresses: NewAddresses,
}
