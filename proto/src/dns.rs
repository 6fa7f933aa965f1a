//! DNS responses (RFC 1035), borrowed from the wire.
//!
//! Nothing here allocates except [`std::fmt`] implementations. The work is linear in the length of the message,
//! whatever its content. Compression pointers could multiply it, so [`MAX_STEPS`] limits them.

mod name;
mod qname;
mod query;
mod response;
#[cfg(test)]
mod tests;
mod wire;

pub use self::{
    name::Name,
    qname::{Hashes, Qname},
    query::Query,
    response::{Header, MAX_ALIASES, Question, Response},
    wire::{Error, MAX_HOPS, MAX_STEPS},
};

/// Type A: an IPv4 address (RFC 1035 section 3.2.2).
pub const TYPE_A: u16 = 1;
/// Type CNAME: the canonical name of an alias (RFC 1035 section 3.2.2).
pub const TYPE_CNAME: u16 = 5;
/// Type AAAA: an IPv6 address (RFC 3596 section 2.1).
pub const TYPE_AAAA: u16 = 28;
/// Class IN: the Internet (RFC 1035 section 3.2.4).
pub const CLASS_IN: u16 = 1;
/// Opcode QUERY: a standard query (RFC 1035 section 4.1.1).
pub const OPCODE_QUERY: u8 = 0;
/// No error condition; with no address it is NODATA (RFC 2308 section 2.2).
pub const RCODE_NOERROR: u8 = 0;
/// The server could not read the query.
pub const RCODE_FORMERR: u8 = 1;
/// The server could not answer.
pub const RCODE_SERVFAIL: u8 = 2;
/// The name does not exist.
pub const RCODE_NXDOMAIN: u8 = 3;
/// The server does not know this kind of query.
pub const RCODE_NOTIMP: u8 = 4;
/// The server does not want to answer.
pub const RCODE_REFUSED: u8 = 5;

/// The octets of a message after its identifier; empty for a shorter message. Equal answers to the same question are
/// equal there (RFC 1035 section 4.1.1).
pub fn without_identifier(message: &[u8]) -> &[u8] {
    message.get(2..).unwrap_or_default()
}
