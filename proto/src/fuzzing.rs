//! What the fuzz targets do with their bytes, so that the tests on a stable toolchain do the same.
//!
//! Each takes any bytes and panics if something holds that must not. They are compiled for tests and for `cargo fuzz`, which
//! sets `cfg(fuzzing)`.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a target tells what it found"
)]

pub(crate) mod dns;
pub(crate) mod dnstap;
mod frame_stream;
#[cfg(test)]
mod tests;

pub use self::frame_stream::frame_stream;

/// The payload of a data frame: our reader of the usual layout and prost take it with the same values, or ours leaves it.
pub fn dnstap(data: &[u8]) {
    dnstap::check(data);
}

/// A DNS response: what we and hickory-proto both accept, both understand in the same way.
pub fn dns(data: &[u8]) {
    dns::check(data);
}
