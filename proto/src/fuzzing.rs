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
use crate::dns::{Query, Response};

/// The payload of a data frame: the reader of CoreDNS's layout has the values of prost, or rejects the layout.
pub fn dnstap(data: &[u8]) {
    dnstap::check(data);
}

/// A query and a message: the forwarder changes the identifier alone, and takes no message with another question for the reply.
///
/// The first two octets are the identifier, and the next one is the length of the query.
pub fn query(data: &[u8]) {
    let Some(([high, low, length], rest)) = data.split_first_chunk() else {
        return;
    };
    let id = u16::from_be_bytes([*high, *low]);
    let (octets, message) = rest.split_at(rest.len().min(usize::from(*length)));
    let Some(query) = Query::new(octets) else {
        return;
    };
    let mut echo = query.with_id(id);
    assert_eq!(echo[2..], octets[2..]);
    echo[2] |= 0x80;
    assert!(query.is_answered_by(id, &echo));
    assert!(!query.is_answered_by(id.wrapping_add(1), &echo));
    query.restore_id(&mut echo);
    assert_eq!(echo[..2], octets[..2]);
    if let (true, Ok(asked)) = (query.is_answered_by(id, message), Response::parse(octets))
        && let Ok(answered) = Response::parse(message)
    {
        assert_eq!(answered.id(), id);
        assert!(answered.is_response());
        let [asked, answered] = [asked.question(), answered.question()];
        assert_eq!(asked.name.lower(), answered.name.lower());
        assert_eq!(
            (asked.qtype, asked.qclass),
            (answered.qtype, answered.qclass)
        );
    }
}

/// A DNS response: if our parser and hickory-proto accept it, they give the same result.
pub fn dns(data: &[u8]) {
    dns::check(data);
}
