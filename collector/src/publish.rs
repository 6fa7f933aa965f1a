//! The names and their DNSNameResolver objects: created, written by compare-and-swap, deleted.
//!
//! - [`publisher`]: the struct that owns all of it. `rule_uses`: the names in rules. `updates`: events of the objects.
//! - `plan`: which objects are written now. [`write`](mod@write): one attempt. `results`: what follows from it.
//! - `objects`, `name_objects` and `stored_object`: what the store has. `queue`: names to check. `held`: answers
//!   that wait for a status. `policy`: the configuration.
//! - [`guards`]: the addresses that are refused.
//! - [`task`]: runs the publisher: events in, writes out.
//! - For the status page: `view`, `facts`, `listing`, `metrics`, `recent` and `evictions`.

mod evictions;
mod facts;
pub mod guards;
mod held;
mod listing;
mod metrics;
mod name_objects;
mod object_watch;
mod objects;
mod plan;
mod policy;
pub mod publisher;
mod queue;
mod recent;
mod results;
mod rule_uses;
mod stored_object;
pub mod task;
mod updates;
mod view;
pub mod write;

#[cfg(test)]
pub(crate) use self::objects::MAX_IN_FLIGHT;
pub use self::{
    held::{HeldAnswer, Settled},
    metrics::METRICS,
    policy::{Config, ManageObjects, ObjectPolicy, Shared, SourcePolicy},
    publisher::Publisher,
    recent::NewAddresses,
    view::{InspectRequest, NamesStatus},
};
