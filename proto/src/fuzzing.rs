//! The bodies of the fuzz targets. The tests on a stable toolchain run them too.
//!
//! Each takes any bytes and panics if an invariant does not hold. They are compiled for tests and for `cargo fuzz`,
//! which sets `cfg(fuzzing)`.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a target tells what it found"
)]

pub(crate) mod dns;
mod dnstap;
mod frame_stream;
#[cfg(test)]
mod tests;

pub use self::frame_stream::frame_stream;

/// The payload of a data frame: the reader of CoreDNS's layout has the values of prost, or rejects the layout.
pub fn dnstap(data: &[u8]) {
    dnstap::check(data);
}

/// A DNS response: if our parser and hickory-proto accept it, they give the same result.
pub fn dns(data: &[u8]) {
    dns::check(data);
}
