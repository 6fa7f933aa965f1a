//! dnstap: what a DNS server tells of the messages it sends and receives, one event in each Frame Streams data frame.
//!
//! - [`ClientResponse`] is the view the hot path uses: what is wanted of a CLIENT_RESPONSE, and nothing of other events.
//! - [`Event`] is the view of everything else. Both walk the bytes of the protobuf once, allocate nothing, and borrow from
//!   the frame. They take and refuse exactly what prost does, which property tests hold them to.
//! - [`pb`] holds prost's types, which own their bytes: for tests and tools, and to encode. They are generated from
//!   `dnstap.proto` beside this file; a test fails when they are not current.

mod client_response;
mod error;
mod event;
#[cfg(test)]
mod tests;
mod usual;
mod values;
mod wire;

/// prost's types of the dnstap schema.
#[allow(missing_docs, clippy::all)]
#[rustfmt::skip]
#[path = "generated.rs"]
pub mod pb;

pub use client_response::ClientResponse;
pub use error::{Error, ErrorKind};
pub use event::{Event, Timestamp};
pub use values::{MessageKind, SocketFamily, SocketProtocol};

/// The content type of dnstap in Frame Streams.
pub const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
