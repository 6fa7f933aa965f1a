//! Objects that are away: what stays in sets that rules use, and what goes.

pub(crate) mod fixture;
mod installations;
mod returning;
mod rules;
mod statuses;
mod unreadable;
mod words;
