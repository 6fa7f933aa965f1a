//! Absent objects: the content that stays in used sets, and the content that is removed.

mod ended_rules;
pub(crate) mod fixture;
mod installations;
mod returning;
mod rules;
mod statuses;
mod unreadable;
