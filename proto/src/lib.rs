//! Wire formats and names, with no IO: bytes in, types out.
//!
//! - [`frame_stream`]: the Frame Streams transport of dnstap.
//! - [`dnstap`]: dnstap events, borrowed from a frame.
//! - [`dns`]: DNS responses, borrowed from an event.
//! - [`address`]: canonical addresses, and addresses that never go into OVN.
//! - [`api`]: the Kubernetes objects and the names of OVN rows.
//! - [`facts`]: what the programs serve as JSON.
//! - [`text`]: foreign texts, safe for a terminal and for JSON.
//! - [`timestamp`]: the time of day.

#![deny(missing_docs)]

pub mod address;
pub mod api;
pub mod dns;
pub mod dnstap;
pub mod facts;
pub mod frame_stream;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod text;
pub mod timestamp;
