//! The least work of any collector for an event: type, response code, question, and whether the
//! name is wanted.
//!
//! It trusts its input, and skips times, ports and addresses, even for a wanted name. The
//! collector's cost above it is the cost of correctness.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use proto::{api::DnsName, dns};

pub(crate) struct Wanted {
    exact: HashSet<Box<[u8]>, RandomState>,
    wildcard: HashSet<Box<[u8]>, RandomState>,
}

impl Wanted {
    pub(crate) fn new(names: &[DnsName]) -> Self {
        let mut wanted = Self {
            exact: HashSet::default(),
            wildcard: HashSet::default(),
        };
        for name in names {
            let wire = dns::Name::from(name);
            match wire.parent() {
                Some(parent) if name.is_wildcard() => wanted.wildcard.insert(parent.into()),
                _ => wanted.exact.insert(wire.wire().into()),
            };
        }
        wanted
    }

    fn has(&self, name: &[u8]) -> bool {
        self.exact.contains(name) || self.wildcard.contains(&name[1 + usize::from(name[0])..])
    }
}

/// The number of matching events in a stream.
pub(crate) fn matching(stream: &[u8], wanted: &Wanted) -> u64 {
    let (mut matching, mut rest) = (0, stream);
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 {
            let control = u32::from_be_bytes(*behind.first_chunk().unwrap()) as usize;
            rest = &behind[4 + control..];
        } else {
            matching += u64::from(matches(&behind[..length], wanted));
            rest = &behind[length..];
        }
    }
    matching
}

fn matches(event: &[u8], wanted: &Wanted) -> bool {
    const MESSAGE: u64 = 14 << 3 | 2;
    const KIND: u64 = 1 << 3;
    const CLIENT_RESPONSE: u64 = 6;
    let Some(message) = field(event, MESSAGE) else {
        return false;
    };
    let mut at = 0;
    if varint(message, &mut at) != KIND || varint(message, &mut at) != CLIENT_RESPONSE {
        return false;
    }
    let Some(dns) = field(message, MESSAGE) else {
        return false;
    };
    if dns[3] & 0xf != 0 {
        return false;
    }
    let (mut name, mut length) = ([0; 256], 0);
    while dns[12 + length] != 0 {
        length += 1 + usize::from(dns[12 + length]);
    }
    length += 1;
    name[..length].copy_from_slice(&dns[12..12 + length]);
    name[..length].make_ascii_lowercase();
    let kind = u16::from_be_bytes([dns[12 + length], dns[13 + length]]);
    matches!(kind, 1 | 28) && wanted.has(&name[..length])
}

/// The bytes after the first such key.
fn field(bytes: &[u8], wanted: u64) -> Option<&[u8]> {
    let mut at = 0;
    while at < bytes.len() {
        let key = varint(bytes, &mut at);
        match key & 7 {
            0 => drop(varint(bytes, &mut at)),
            1 => at += 8,
            2 => {
                let length = varint(bytes, &mut at) as usize;
                if key == wanted {
                    return Some(&bytes[at..at + length]);
                }
                at += length;
            }
            _ => at += 4,
        }
    }
    None
}

fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}
