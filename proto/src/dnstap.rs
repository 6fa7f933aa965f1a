//! dnstap: what a DNS server tells of the messages it sends and receives, one event in each Frame Streams data frame.
//!
//! - [`ClientResponse`] is what is wanted of a CLIENT_RESPONSE, and nothing of other events. It walks the bytes of the protobuf once,
//!   allocates nothing, and borrows from the frame. It takes and refuses what prost does, which property tests hold it to.
//! - [`pb`] holds prost's types, which own their bytes: for all events that are rare, and to encode. They are generated from
//!   `dnstap.proto` beside this file; a test fails when they are not current.

mod client_response;
mod error;
#[cfg(test)]
mod tests;
mod usual;
mod wire;

/// prost's types of the dnstap schema.
#[allow(missing_docs, clippy::all)]
#[rustfmt::skip]
#[path = "dnstap/generated.rs"]
pub mod pb;

pub use client_response::{ClientResponse, Timestamp, address};
pub use error::{Error, ErrorKind};

/// The content type of dnstap in Frame Streams.
pub const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
