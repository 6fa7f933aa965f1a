//! Tests with a long version.

mod failover;
mod hold;
