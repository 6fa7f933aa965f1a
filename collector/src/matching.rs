//! From a frame to an observation: the answers for names in rules, against an immutable index.
//!
//! `pipeline` classifies a frame, by the [`index`] of names and the collectors' own queries
//! ([`query_origin`]). The [`queue`] has the observations for the publisher, and the loss tracker those that did not fit. The
//! [`answer_cache`] has the answers that no rule wants yet.

pub mod answer_cache;
pub mod index;
pub(crate) mod loss_tracker;
pub mod pipeline;
pub mod query_origin;
pub mod queue;

pub use self::loss_tracker::{Backfill, LossTracker};
