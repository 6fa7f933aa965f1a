//! CLIENT_RESPONSE events in CoreDNS's layout, recognised by a few comparisons of eight bytes each.
//!
//! prost walks from field to field and looks up each one. CoreDNS always writes the same fields in the order of their
//! numbers, so a pattern can describe the layout. An event that fits the pattern to the last byte gives the values that
//! prost would read. Every other event is left to prost.

use super::{ClientResponse, pb};

/// Reads an event of CoreDNS's layout. An event of another kind than CLIENT_RESPONSE is read only up to its type.
/// `None` if it has another layout, or is malformed.
#[inline(always)]
pub(super) fn read(event: &[u8]) -> Option<Option<ClientResponse<'_>>> {
    const CLIENT_RESPONSE: u64 = pb::message::Type::ClientResponse as u64;
    const HEAD: Pattern = Pattern::new([
        exactly(varint_key(1)), // type
        LAST,
        exactly(varint_key(2)), // socket_family
        LAST,
        exactly(varint_key(3)), // socket_protocol
        LAST,
        exactly(bytes_key(4)), // query_address
        LAST,
    ]);
    const TIMES: [Pattern; 3] = [
        Pattern::new([
            exactly(varint_key(8)), // query_time_sec, as it is from 1978 to 3058
            MORE,
            MORE,
            MORE,
            MORE,
            LAST,
            exactly(fixed32_key(9)), // query_time_nsec
            ANY,
        ]),
        Pattern::new([
            ANY,
            ANY,
            ANY,
            exactly(varint_key(12)), // response_time_sec
            MORE,
            MORE,
            MORE,
            MORE,
        ]),
        Pattern::new([
            LAST,
            exactly(fixed32_key(13)), // response_time_nsec
            ANY,
            ANY,
            ANY,
            ANY,
            exactly(bytes_key(14)), // response_message
            ANY,
        ]),
    ];

    let (_identity, rest) = short_text(bytes_key(1), event)?;
    let (_version, rest) = short_text(bytes_key(2), rest)?;
    let (extra, rest) = short_text(bytes_key(3), rest)?;
    let (key, rest) = rest.split_first()?;
    let (length, rest) = length(rest)?;
    let (message, last) = rest.split_at_checked(length)?;
    if u32::from(*key) != bytes_key(14) {
        return None;
    }

    let (head, rest) = message.split_first_chunk::<8>()?;
    let head = u64::from_le_bytes(*head);
    if !HEAD.fits(head) {
        return None;
    }
    let (kind, address) = (head >> 8 & 0xff, head >> 56);
    if kind != CLIENT_RESPONSE {
        return Some(None);
    }
    let (client, rest) = rest.split_at_checked(address as usize)?;
    let (port, rest) = port(rest)?;
    let (times, rest) = rest.split_first_chunk::<24>()?;
    let (words, _) = times.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    if !words.zip(TIMES).all(|(word, times)| times.fits(word)) {
        return None;
    }
    let [.., a, b, c, d, e, _, f, g, h, i, _, first] = *times;
    let seconds = [a, b, c, d, e]
        .iter()
        .rev()
        .fold(0, |seconds, byte| seconds << 7 | u64::from(byte & 0x7f));
    let (length, rest) = match first {
        0..0x80 => (first.into(), rest),
        _ => {
            let (second, rest) = rest.split_first()?;
            (two_bytes(first, *second)?, rest)
        }
    };
    // Only the event's type may follow the message, and nothing may follow the response.
    let is_whole = rest.len() == length && last == [varint_key(15) as u8, 1];
    is_whole.then_some(Some(ClientResponse {
        extra,
        message: Some(rest),
        client,
        port: Some(port),
        seconds: Some(seconds),
        nanoseconds: u32::from_le_bytes([f, g, h, i]),
    }))
}

/// The key of an integer or an enumeration: its field number and wire type, as on the wire.
const fn varint_key(field: u32) -> u32 {
    field << 3
}

/// The key of bytes, a text or a message.
const fn bytes_key(field: u32) -> u32 {
    field << 3 | 2
}

/// The key of a `fixed32`.
const fn fixed32_key(field: u32) -> u32 {
    field << 3 | 5
}

/// A mask of the fixed bits of a byte, and their values.
type Byte = (u8, u8);

const ANY: Byte = (0, 0);
/// A byte of a varint that is not the last.
const MORE: Byte = (0x80, 0x80);
/// The last byte of a varint.
const LAST: Byte = (0x80, 0);

const fn exactly(key: u32) -> Byte {
    (0xff, key as u8)
}

/// Eight bytes, some of whose bits are fixed.
#[derive(Clone, Copy)]
struct Pattern {
    given: u64,
    bits: u64,
}

impl Pattern {
    const fn new(bytes: [Byte; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            given: u64::from_le_bytes([a.0, b.0, c.0, d.0, e.0, f.0, g.0, h.0]),
            bits: u64::from_le_bytes([a.1, b.1, c.1, d.1, e.1, f.1, g.1, h.1]),
        }
    }

    #[inline(always)]
    fn fits(self, bytes: u64) -> bool {
        bytes & self.given == self.bits
    }
}

/// The field with this key at the front of `bytes`, and the rest. `None` if the field is longer than 127 bytes.
#[inline(always)]
fn short_text(key: u32, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match bytes {
        [first, length @ ..0x80, rest @ ..] if u32::from(*first) == key => {
            rest.split_at_checked((*length).into())
        }
        [first, ..] if u32::from(*first) == key => None,
        _ => Some((&[], bytes)),
    }
}

/// The length before a field, and the field with the rest.
#[inline(always)]
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [length @ ..0x80, rest @ ..] => Some(((*length).into(), rest)),
        [first, second, rest @ ..] => Some((two_bytes(*first, *second)?, rest)),
        _ => None,
    }
}

/// A varint of two bytes.
#[inline(always)]
fn two_bytes(first: u8, second: u8) -> Option<usize> {
    (second < 0x80).then_some(usize::from(first & 0x7f) | usize::from(second) << 7)
}

/// query_port, and the rest.
#[inline(always)]
fn port(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (&[key, first, second, third], rest) = bytes.split_first_chunk()?;
    let behind = |length: usize| bytes.get(1 + length..);
    let port = u32::from(first & 0x7f) | u32::from(second & 0x7f) << 7;
    let read = match (first, second, third) {
        (0x80.., 0x80.., ..0x80) => (port | u32::from(third) << 14, rest),
        (0x80.., ..0x80, _) => (port, behind(2)?),
        (..0x80, ..) => (first.into(), behind(1)?),
        _ => return None,
    };
    (u32::from(key) == varint_key(6)).then_some(read)
}
