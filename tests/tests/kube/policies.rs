//! The policy-writer on a real API server. The tests write the statuses of names.

mod kinds;
mod rights;
mod world;
