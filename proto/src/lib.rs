//! Wire formats and names, with no IO: bytes in, types out.
//!
//! - [`frame_stream`]: the Frame Streams transport of dnstap.
//! - [`dnstap`]: dnstap events, borrowed from a frame.
//! - [`dns`]: DNS responses, borrowed from an event.
//! - [`address`]: canonical addresses, and those that are never programmed.
//! - [`api`]: the Kubernetes objects and the names that OVN rows bear.

pub mod address;
pub mod api;
pub mod dns;
pub mod dnstap;
pub mod frame_stream;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
