//! The names of rules, their addresses, and when each is looked up again. No IO: time is a parameter.
//!
//! - [`Names`] is the table: rules, answers, look-ups and stored statuses go in, and due look-ups and statuses come out.
//! - [`NameState`] takes in [`Observation`]s, failed look-ups and the statuses of other writers, and removes addresses.
//! - [`StatusUpdate::new`] renders the status that the store should have, if it differs from the stored one.
//! - [`LookupScheduler`] says which name is looked up next.

mod caps;
mod changes;
mod condition;
mod entry;
mod evict;
mod eviction_order;
mod facts;
pub mod failure;
mod limits;
pub mod lookup;
mod name;
mod name_list;
mod name_state;
mod names;
pub mod namespaces;
pub mod observation;
mod removal;
mod render;
pub mod schedule;
mod stored;
#[cfg(test)]
mod tests;
mod wakes;
mod without_addresses;

use std::net::IpAddr;

pub use self::{
    caps::{NamespaceAtCap, NamespaceCaps},
    changes::{Changes, Counts},
    entry::{Entry, Evictions, RuleUse, UNUSED_FOR},
    evict::{Eviction, ObjectSize},
    facts::{address_facts, failing_names},
    failure::Failure,
    limits::{Limits, MAX_TTL, MIN_GRACE},
    lookup::{FamilyOutcome, FamilyResult, LookupResult, LookupSummary, NoAddress, Request},
    name_list::{NameList, NameSnapshot},
    name_state::{NameState, UpdateEffect},
    names::{Added, Names},
    namespaces::{Namespace, Namespaces},
    observation::{Addresses, Observation, Provenance},
    render::StatusUpdate,
    schedule::{GapBackfill, LookupScheduler, NextLookup},
    stored::Stored,
};

/// An address in canonical form, or why it is refused, as a metric label.
pub type Admitted = Result<IpAddr, &'static str>;

/// Reserves room for one more element and a quarter: most lists keep one element for ever.
pub fn reserve_one<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(1 + list.len() / 4);
    }
}
