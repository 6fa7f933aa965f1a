//! The protobuf wire format, read in place.
//!
//! Each rule is prost's, so that a frame is an event for both or for none: where protobuf leaves
//! room (varints longer than they need to be, wire types that do not fit, groups), the comment
//! says which way prost goes.

use super::{Error, ErrorKind};

/// How deep messages and groups may be nested (prost's `RECURSION_LIMIT`).
const NESTING: u32 = 100;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const GROUP_START: u32 = 3;
const GROUP_END: u32 = 4;
const FIXED32: u32 = 5;

/// The bit of each of eight bytes that says that a varint goes on.
const CONTINUES: u64 = 0x8080_8080_8080_8080;

/// The key of an integer or an enumeration: its field number and wire type, as on the wire.
pub(super) const fn varint_key(field: u32) -> u32 {
    field << 3 | VARINT
}

/// The key of bytes, a text or a message.
pub(super) const fn bytes_key(field: u32) -> u32 {
    field << 3 | BYTES
}

/// The key of a `fixed32`.
pub(super) const fn fixed32_key(field: u32) -> u32 {
    field << 3 | FIXED32
}

/// What is left of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    /// Where the message ends in the event. All positions follow from it, at no cost until an
    /// error asks for one.
    end: usize,
    /// How many more levels of messages and groups may follow below this one.
    nesting: u32,
}

impl<'a> Cursor<'a> {
    /// The message in `bytes`, which end `end` bytes into the event, with `depth` messages around it.
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8], end: usize, depth: u32) -> Self {
        Self {
            rest: bytes,
            end,
            nesting: NESTING - depth,
        }
    }

    /// How far into the event reading has come.
    #[inline(always)]
    pub(super) fn offset(self) -> usize {
        self.end - self.rest.len()
    }

    // What the walk calls out of line takes the cursor by value, so that its own stays in registers.

    #[cold]
    #[inline(never)]
    fn error(self, kind: ErrorKind) -> Error {
        Error {
            offset: self.offset(),
            kind,
        }
    }

    /// The byte at the front, if it is a whole varint: most are.
    #[inline(always)]
    fn short_varint(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        if byte >= 0x80 {
            return None;
        }
        self.rest = rest;
        Some(byte)
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Error> {
        if let Some(byte) = self.short_varint() {
            return Ok(byte.into());
        }
        let (value, length) = long_varint(self.rest);
        match self.rest.get(length..) {
            Some(rest) if length > 0 => self.rest = rest,
            _ => return Err(self.error(ErrorKind::Varint)),
        }
        Ok(value)
    }

    /// The next field's key, or nothing at the end of the message. It may be one that cannot be:
    /// [`other`](Self::other) finds that out.
    #[inline(always)]
    pub(super) fn next_key(&mut self) -> Result<Option<u32>, Error> {
        if self.rest.is_empty() {
            Ok(None)
        } else {
            self.key().map(Some)
        }
    }

    #[inline(always)]
    fn key(&mut self) -> Result<u32, Error> {
        if let Some(byte) = self.short_varint() {
            return Ok(byte.into());
        }
        let key = self.varint()?;
        u32::try_from(key).map_err(|_| self.error(ErrorKind::Key(key)))
    }

    #[inline(always)]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let taken = usize::try_from(length).ok();
        let Some((taken, rest)) = taken.and_then(|length| self.rest.split_at_checked(length))
        else {
            return Err(self.error(ErrorKind::Length {
                length,
                left: self.rest.len(),
            }));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Passes over an integer. The usual case is in line, since each event has several.
    #[inline(always)]
    pub(super) fn skip_varint(&mut self) -> Result<(), Error> {
        if self.short_varint().is_some() {
            return Ok(());
        }
        let word = self.rest.first_chunk().copied().map(u64::from_le_bytes);
        let last = !word.unwrap_or(u64::MAX) & CONTINUES;
        match self.rest.get(last.trailing_zeros() as usize / 8 + 1..) {
            Some(rest) if last != 0 => self.rest = rest,
            _ => drop(self.varint()?),
        }
        Ok(())
    }

    /// A `uint64`.
    #[inline(always)]
    pub(super) fn uint64(&mut self) -> Result<u64, Error> {
        self.varint()
    }

    /// A `uint32` or an enumeration: the upper bits of a longer value are cut off.
    #[inline(always)]
    pub(super) fn uint32(&mut self) -> Result<u32, Error> {
        Ok(self.varint()? as u32)
    }

    /// A `fixed32`.
    #[inline(always)]
    pub(super) fn fixed32(&mut self) -> Result<u32, Error> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return Err(self.error(ErrorKind::Length {
                length: 4,
                left: self.rest.len(),
            }));
        };
        self.rest = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    /// A field of `bytes`, or a message.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = self.varint()?;
        self.take(length)
    }

    /// A `string`.
    pub(super) fn string(&mut self) -> Result<&'a str, Error> {
        let text = self.bytes()?;
        let offset = self.offset() - text.len();
        std::str::from_utf8(text).map_err(|_| Error {
            offset,
            kind: ErrorKind::Utf8,
        })
    }

    /// Passes over a field whose key is none of those the schema has for this message, of which
    /// `known` are the field numbers. A known field with another wire type is an error for prost,
    /// not an unknown field.
    #[inline(always)]
    pub(super) fn other(&mut self, key: u32, known: &[u32]) -> Result<(), Error> {
        self.rest = self.after_other(key, known)?;
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn after_other(mut self, key: u32, known: &[u32]) -> Result<&'a [u8], Error> {
        let (field, wire_type) = (key >> 3, key & 7);
        if known.contains(&field) && wire_type <= FIXED32 {
            return Err(self.error(ErrorKind::WireType { field, wire_type }));
        }
        self.skip(key)?;
        Ok(self.rest)
    }

    fn skip(&mut self, key: u32) -> Result<(), Error> {
        let field = key >> 3;
        if field == 0 {
            return Err(self.error(ErrorKind::Key(key.into())));
        }
        // Checked for fields of every layout, as prost does.
        if self.nesting == 0 {
            return Err(self.error(ErrorKind::Group { field }));
        }
        match key & 7 {
            VARINT => self.varint().map(drop),
            FIXED32 => self.take(4).map(drop),
            FIXED64 => self.take(8).map(drop),
            BYTES => self.bytes().map(drop),
            GROUP_START => loop {
                let inner = self.key()?;
                if inner & 7 != GROUP_END {
                    self.nesting -= 1;
                    self.skip(inner)?;
                    self.nesting += 1;
                } else if inner >> 3 == field {
                    return Ok(());
                } else {
                    return Err(self.error(ErrorKind::Group { field }));
                }
            },
            GROUP_END => Err(self.error(ErrorKind::Group { field })),
            _ => Err(self.error(ErrorKind::Key(key.into()))),
        }
    }
}

/// The varint at the front of `bytes` and its length, 0 if it is malformed. Up to eight bytes are read
/// at once: each event has ports and times, of three and five.
#[inline(never)]
fn long_varint(bytes: &[u8]) -> (u64, usize) {
    let word = bytes
        .first_chunk()
        .map_or(u64::MAX, |word| u64::from_le_bytes(*word));
    let last = !word & CONTINUES;
    if last == 0 {
        return longest_varint(bytes);
    }
    // All bits up to that of the last byte which says so; of each byte the lower seven.
    let bits = word & (last ^ (last - 1)) & !CONTINUES;
    // Then each pair of groups moves together: of 7, of 14, of 28 bits.
    let bits = (bits & 0x007f_007f_007f_007f) | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let bits = (bits & 0x0000_3fff_0000_3fff) | (bits & 0x3fff_0000_3fff_0000) >> 2;
    let bits = (bits & 0x0fff_ffff) | (bits & 0x0fff_ffff_0000_0000) >> 4;
    (bits, last.trailing_zeros() as usize / 8 + 1)
}

/// At most ten bytes; zeros at the end are allowed, bits beyond the 64th are not.
#[cold]
fn longest_varint(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    for (position, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte < 0x80 {
            let overflows = position == 9 && byte > 1;
            return (value, if overflows { 0 } else { position + 1 });
        }
    }
    (0, 0)
}
