//! A query that is forwarded: the octets of query and reply pass through but for the identifier (RFC 1035 section 4.1.1).

use std::ops::Range;

use super::{
    RCODE_NOERROR, RCODE_NXDOMAIN,
    response::{Header, Response},
    wire::HEADER,
};

/// Where the number of questions stands.
const QDCOUNT: Range<usize> = 4..6;

/// The octets of QTYPE and QCLASS.
const TYPE_AND_CLASS: usize = 4;

/// A query of a client.
#[derive(Clone, Debug)]
pub struct Query {
    message: Box<[u8]>,
    /// The end of its question; that of the header if the question cannot be read.
    question_end: usize,
}

impl Query {
    /// `None` for a message that no server answers: one without a whole header, and a response.
    pub fn new(message: &[u8]) -> Option<Self> {
        let header = Header::parse(message).ok()?;
        if header.is_response() {
            return None;
        }
        // Its question has the form of a response's.
        let question = Response::parse(message).ok();
        let length = question.map_or(0, |it| it.question().name.wire().len() + TYPE_AND_CLASS);
        Some(Self {
            message: message.into(),
            question_end: HEADER + length,
        })
    }

    /// Its octets with another identifier.
    pub fn with_id(&self, id: u16) -> Vec<u8> {
        let mut message = self.message.to_vec();
        set_id(&mut message, id);
        message
    }

    /// Whether a message replies to the query with this identifier. It repeats the question, or has none and an error code, as
    /// servers answer what they cannot read. Of a query whose question cannot be read, the identifiers alone are compared.
    pub fn is_answered_by(&self, id: u16, message: &[u8]) -> bool {
        let Ok(header) = Header::parse(message) else {
            return false;
        };
        if !header.is_response() || header.id() != id {
            return false;
        }
        let is_repeated = [QDCOUNT, HEADER..self.question_end]
            .into_iter()
            .all(|range| message.get(range.clone()) == self.message.get(range));
        let is_error = !matches!(header.rcode(), RCODE_NOERROR | RCODE_NXDOMAIN);
        is_repeated || (is_error && message.get(QDCOUNT) == Some(&[0, 0]))
    }

    /// The reply with the client's identifier.
    pub fn restore_id(&self, reply: &mut [u8]) {
        if let Ok(header) = Header::parse(&self.message) {
            set_id(reply, header.id());
        }
    }
}

fn set_id(message: &mut [u8], id: u16) {
    if let Some(octets) = message.first_chunk_mut() {
        *octets = id.to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
