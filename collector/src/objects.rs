//! The table of names, their DNSNameResolver objects, and when each object is written.
//!
//! State:
//! - `names`: the table of all names, each an `entry` with its
//!   [`NameState`](crate::state::NameState) and its objects (`stored_object`).
//! - `in_use`: the names that rules use, and `name_use`: by which sources.
//! - `namespace_caps`: the names and addresses that a namespace may have.
//! - `eviction_log`: addresses and names removed because of a limit.
//! - `leadership`: whether this collector leads, and whether it receives enough DNS servers to
//!   remove addresses.
//!
//! The store:
//! - `stored_objects`: its objects, and the writes in flight; `updates`: its watch events. `object_policy`: how the
//!   objects of each source are made.
//! - `dirty`, `writes`: which objects are written and when; [`publish`]
//!   carries a write out; `write_results`: the results.
//!
//! For the status page: `inspection`, `inspect_request`, `view`, `facts`, `listing`, `metrics` and
//! `new_addresses`.

mod dirty;
mod entry;
mod eviction_log;
mod facts;
mod in_use;
mod inspect_request;
mod inspection;
mod leadership;
mod listing;
mod metrics;
mod name_use;
mod names;
mod namespace_caps;
mod new_addresses;
mod object_policy;
pub mod publish;
mod stored_object;
mod stored_objects;
mod updates;
mod view;
mod write_results;
mod writes;

pub use self::{
    eviction_log::Evictions,
    facts::{Facts, NameFacts},
    inspect_request::InspectRequest,
    listing::{ListedName, NameListing, NameSelection, NamesQuery},
    metrics::METRICS,
    namespace_caps::{NamespaceAtCap, NamespaceCaps},
    new_addresses::NewAddresses,
    object_policy::{ManageObjects, ObjectPolicy, SourcePolicy, WRITE_BYTES},
    view::{NameView, View},
};
pub(crate) use self::{
    in_use::NamesInUse,
    inspection::Inspection,
    leadership::Leadership,
    metrics::report,
    names::{NameTable, guarded},
    namespace_caps::{NamespaceUse, counted_addresses},
    stored_objects::StoredObjects,
    updates::ObjectUpdate,
    writes::WritePlan,
};
#[cfg(test)]
pub(crate) use self::{metrics::Census, stored_objects::MAX_IN_FLIGHT};

use crate::{namespaces::Namespaces, notices::Notices, observe::answer_cache::AnswerCache};

/// State shared with other tasks.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Answers that no rule wanted when they came.
    pub remembered: AnswerCache,
    /// The numbers of namespaces.
    pub namespaces: Namespaces,
    /// Reports names that are left out to the authors of rules.
    pub notices: Notices,
    /// The latest new addresses.
    pub new_addresses: NewAddresses,
}
