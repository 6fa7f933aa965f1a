//! What can be wrong with the bytes of an event, and where.

/// A frame that is not a dnstap event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (byte {offset} of the event)")]
pub struct Error {
    /// The byte at which reading stopped, counted from the start of the event: the first of a value
    /// that is wrong, or the one behind a key that is.
    pub offset: usize,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// What is wrong with the protobuf of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// A variable-length integer does not end, or is larger than 64 bits.
    #[error("malformed varint")]
    Varint,
    /// A field's key is larger than 32 bits, or its number is 0, or its wire type does not exist.
    #[error("malformed field key {0}")]
    Key(u64),
    /// A field is longer than what is left of the message it stands in.
    #[error("field of {length} bytes where {left} are left")]
    Length {
        /// The bytes the field says it has.
        length: u64,
        /// The bytes that are left.
        left: usize,
    },
    /// A known field has another wire type than the schema says.
    #[error("field {field} with wire type {wire_type}")]
    WireType {
        /// The field's number.
        field: u32,
        /// The wire type it has.
        wire_type: u32,
    },
    /// A group ends that did not begin, or is nested more than 100 deep.
    #[error("malformed group {field}")]
    Group {
        /// The group's field number.
        field: u32,
    },
    /// A text is not UTF-8.
    #[error("text that is not UTF-8")]
    Utf8,
}
