//! The names of rules, their addresses, and when each is looked up again. No IO: time is a parameter.
//!
//! - [`NameState`] takes in [`Observation`]s, failed look-ups and the statuses of other writers, and removes addresses.
//! - [`StatusUpdate::new`] renders the status that the store should have, if it differs from the stored one.
//! - [`LookupScheduler`] says which name is looked up next.

mod address_stats;
mod caps;
mod changes;
mod clients_of_name;
mod condition;
mod entry;
mod evict;
mod eviction_order;
mod failing_names;
pub mod failure;
mod gap_backfill;
mod limits;
mod looked_up;
pub mod lookup;
mod name;
mod name_list;
mod name_state;
mod names;
pub mod namespaces;
pub mod observation;
mod removal;
mod render;
mod rule_use;
pub mod schedule;
mod stored;
#[cfg(test)]
mod tests;
mod wakes;
mod without_addresses;

use std::net::IpAddr;

pub use self::{
    address_stats::{AddressFacts, address_stats},
    caps::{NamespaceAtCap, NamespaceCaps},
    changes::{Changes, Counts},
    entry::{Entry, Evictions, UNUSED_FOR},
    evict::{Eviction, ObjectSize},
    failing_names::{FailureView, failing_names},
    failure::Failure,
    gap_backfill::GapBackfill,
    limits::{Limits, MAX_TTL},
    looked_up::{FamilyResult, LookupSummary},
    lookup::{FamilyOutcome, LookupResult, Request},
    name_list::{NameList, NameSnapshot},
    name_state::{NameState, UpdateEffect},
    names::{Added, Names},
    namespaces::{Namespace, Namespaces},
    observation::{Addresses, Observation, Provenance},
    render::StatusUpdate,
    rule_use::RuleUse,
    schedule::{LookupScheduler, NextLookup},
    stored::Stored,
    wakes::Wakes,
};

/// An address in canonical form, or why it is refused, as a metric label.
pub type Admitted = Result<IpAddr, &'static str>;

/// Reserves room for one more element and a quarter: most lists keep one element for ever.
pub fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(1 + list.len() / 4);
    }
}
