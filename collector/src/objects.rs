//! DNSNameResolver objects: what is known of the names in use, which objects bear them, and what is written of that when.
//!
//! What is known:
//! - `names`: the table of all names, each an `entry` with its [`NameState`](crate::state::NameState) and its objects (`stored_object`).
//! - `in_use`: the names that EgressFirewalls use; `absence`: those that no EgressFirewall has any more, and when that is believed.
//! - `newly_wanted`: what is known already of a name that is wanted from now on.
//! - `namespace_limits`: what each namespace may have.
//! - `evictions`, `eviction_log`: what went because a limit was reached.
//! - `leadership`: whether this collector leads, and hears what it needs to remove addresses.
//!
//! The store:
//! - `stored_objects`: the objects that it has, and what is under way to it; `updates`: what its watch says.
//! - `dirty`, `writes`: what is written when; `budget`: how much in a time; [`publish`] carries it out; `write_results`: what came of it.
//! - `standby`, `additions`, `standby_writes`: what a collector writes that does not lead.
//!
//! For people: `inspection`, `inspect_request`, `view`, `facts` and `metrics`.

mod absence;
mod additions;
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
mod metrics;
mod names;
mod namespace_limits;
mod newly_wanted;
pub mod publish;
pub(crate) mod standby;
mod standby_writes;
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
    metrics::METRICS,
    namespace_limits::{NamespaceLimits, NamespaceShare},
    stored_objects::{ManageObjects, ObjectPolicy},
    view::{FailureView, NameView, View},
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
    clients::Clients, event_history::EventHistory, namespaces::NamespaceQuotas,
    new_names::KnownNames, notices::Notices, observe::answer_cache::AnswerCache,
};

/// What is shared with other tasks.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Answers that nobody wanted when they came.
    pub remembered: AnswerCache,
    /// What happened to addresses, for people.
    pub recent: EventHistory,
    /// Whose pods clients are.
    pub clients: Clients,
    /// The names under wildcards, for the readers.
    pub known: KnownNames,
    /// How much namespaces may have that have annotations.
    pub quotas: NamespaceQuotas,
    /// Who tells the authors of rules what is left out.
    pub notices: Notices,
}
