//! The protobuf wire format, read in place.
//!
//! Each rule is prost's, so that a frame is an event for both or for none: where protobuf leaves room (varints longer
//! than they need to be, wire types that do not fit, groups), the comment says which way prost goes.

use super::{Error, ErrorKind};

/// How deep messages and groups may be nested (prost's `RECURSION_LIMIT`).
const NESTING: u32 = 100;

/// How a field's value is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireType(u8);

impl WireType {
    const VARINT: Self = Self(0);
    const FIXED64: Self = Self(1);
    const BYTES: Self = Self(2);
    const GROUP_START: Self = Self(3);
    const GROUP_END: Self = Self(4);
    const FIXED32: Self = Self(5);
}

/// A field's number and the layout of its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) field: u32,
    wire_type: WireType,
}

/// What is left of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    /// Where the message ends in the event. All positions follow from it, at no cost until an error asks for one.
    end: usize,
    /// How many more levels of messages and groups may follow below this one.
    nesting: u32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(event: &'a [u8]) -> Self {
        Self {
            rest: event,
            end: event.len(),
            nesting: NESTING,
        }
    }

    fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    #[cold]
    fn error(&self, kind: ErrorKind) -> Error {
        Error {
            offset: self.offset(),
            kind,
        }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Error> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    /// At most ten bytes; zeros at the end are allowed, bits beyond the 64th are not.
    fn long_varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        let mut rest = self.rest;
        for shift in (0..64).step_by(7) {
            let Some((&byte, after)) = rest.split_first() else {
                break;
            };
            rest = after;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if shift == 63 && byte > 1 {
                    break;
                }
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.error(ErrorKind::Varint))
    }

    /// The next field's key, or nothing at the end of the message.
    #[inline]
    pub(super) fn next_key(&mut self) -> Result<Option<Key>, Error> {
        if self.rest.is_empty() {
            Ok(None)
        } else {
            self.key().map(Some)
        }
    }

    #[inline]
    fn key(&mut self) -> Result<Key, Error> {
        let start = *self;
        let key = self.varint()?;
        let wire_type = WireType((key & 7) as u8);
        match u32::try_from(key >> 3) {
            Ok(field)
                if field != 0
                    && key <= u64::from(u32::MAX)
                    && wire_type.0 <= WireType::FIXED32.0 =>
            {
                Ok(Key { field, wire_type })
            }
            _ => Err(start.error(ErrorKind::Key(key))),
        }
    }

    /// A known field whose layout is not the schema's is an error for prost, not an unknown field.
    #[inline]
    fn expect(&self, key: Key, wire_type: WireType) -> Result<(), Error> {
        if key.wire_type == wire_type {
            return Ok(());
        }
        Err(self.error(ErrorKind::WireType {
            field: key.field,
            wire_type: key.wire_type.0,
        }))
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let taken = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length));
        let Some((taken, rest)) = taken else {
            return Err(self.error(ErrorKind::Length {
                length,
                left: self.rest.len(),
            }));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// A `uint64`.
    #[inline]
    pub(super) fn uint64(&mut self, key: Key) -> Result<u64, Error> {
        self.expect(key, WireType::VARINT)?;
        self.varint()
    }

    /// A `uint32` or an enumeration: the upper bits of a longer value are cut off.
    #[inline]
    pub(super) fn uint32(&mut self, key: Key) -> Result<u32, Error> {
        Ok(self.uint64(key)? as u32)
    }

    /// A `fixed32`.
    #[inline]
    pub(super) fn fixed32(&mut self, key: Key) -> Result<u32, Error> {
        self.expect(key, WireType::FIXED32)?;
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return Err(self.error(ErrorKind::Length {
                length: 4,
                left: self.rest.len(),
            }));
        };
        self.rest = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    /// A field of `bytes`.
    #[inline]
    pub(super) fn bytes(&mut self, key: Key) -> Result<&'a [u8], Error> {
        self.expect(key, WireType::BYTES)?;
        let length = self.varint()?;
        self.take(length)
    }

    /// A `string`.
    pub(super) fn string(&mut self, key: Key) -> Result<&'a str, Error> {
        let text = self.bytes(key)?;
        let offset = self.offset() - text.len();
        std::str::from_utf8(text).map_err(|_| Error {
            offset,
            kind: ErrorKind::Utf8 { field: key.field },
        })
    }

    /// A message, to be walked by a cursor of its own.
    #[inline]
    pub(super) fn message(&mut self, key: Key) -> Result<Self, Error> {
        let rest = self.bytes(key)?;
        Ok(Self {
            rest,
            end: self.offset(),
            nesting: self.nesting - 1,
        })
    }

    /// Passes over the value of an unknown field.
    #[cold]
    pub(super) fn skip(&mut self, key: Key) -> Result<(), Error> {
        let malformed = ErrorKind::Group { field: key.field };
        // Checked for fields of every layout, as prost does.
        if self.nesting == 0 {
            return Err(self.error(malformed));
        }
        match key.wire_type {
            WireType::VARINT => self.varint().map(drop),
            WireType::FIXED32 => self.take(4).map(drop),
            WireType::FIXED64 => self.take(8).map(drop),
            WireType::BYTES => self.bytes(key).map(drop),
            WireType::GROUP_START => loop {
                let inner = self.key()?;
                if inner.wire_type != WireType::GROUP_END {
                    self.nesting -= 1;
                    self.skip(inner)?;
                    self.nesting += 1;
                } else if inner.field == key.field {
                    return Ok(());
                } else {
                    return Err(self.error(malformed));
                }
            },
            _ => Err(self.error(malformed)),
        }
    }
}
