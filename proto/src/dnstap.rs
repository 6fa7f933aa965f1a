//! dnstap: a DNS server reports the messages that it sends and receives, one event in each Frame Streams data frame.
//!
//! - [`pb`] has prost's types, which own their bytes: to read any event, and to encode. They are generated from
//!   `dnstap.proto` beside this file; a test fails when they are not current.
//! - [`ClientResponse`] is the part of a CLIENT_RESPONSE that the collector needs, borrowed from the frame or from
//!   prost's types. An event in CoreDNS's layout is read without prost and without an allocation, with the same result.

mod client_response;
#[cfg(test)]
mod tests;
mod usual;

/// prost's types of the dnstap schema.
#[allow(missing_docs, clippy::all)]
#[rustfmt::skip]
#[path = "dnstap/generated.rs"]
pub mod pb;

pub use client_response::{ClientResponse, Timestamp};

/// The content type of dnstap in Frame Streams.
pub const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
