//! The errors of a stream of frames, with their positions.

use super::{ControlKind, HandshakeError};

/// A frame that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (byte {offset})")]
pub struct FrameError {
    /// The first byte of the faulty element. A [`StreamReader`](super::StreamReader) counts from the start of the stream,
    /// other functions from the start of the parsed buffer.
    pub offset: u64,
    /// The fault.
    pub kind: FrameErrorKind,
}

impl FrameError {
    pub(super) fn new(offset: usize, kind: FrameErrorKind) -> Self {
        Self {
            offset: offset as u64,
            kind,
        }
    }

    /// The same error in a stream where `base` bytes precede the parsed buffer.
    #[must_use]
    pub fn after(self, base: u64) -> Self {
        Self {
            offset: self.offset.saturating_add(base),
            ..self
        }
    }
}

/// The fault of a frame. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameErrorKind {
    /// A data frame is longer than [`Limits::data_frame`](super::Limits::data_frame).
    #[error("data frame of {length} bytes, at most {limit} are taken")]
    DataTooLong {
        /// The length the frame announces.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A control frame is longer than [`Limits::control_frame`](super::Limits::control_frame).
    #[error("control frame of {length} bytes, at most {limit} are taken")]
    ControlTooLong {
        /// The length the frame announces.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A control frame is too short to hold its type.
    #[error("control frame of {length} bytes, too short for its type")]
    ControlTooShort {
        /// The length the frame announces.
        length: usize,
    },
    /// A control frame ends within a field.
    #[error("control frame ends within a field: {needed} bytes needed, {left} left")]
    FieldTruncated {
        /// The bytes the element needs.
        needed: usize,
        /// The bytes that are left in the frame.
        left: usize,
    },
    /// A control frame holds a field other than a content type.
    #[error("control frame with a field of unknown type {0}")]
    UnknownField(u32),
    /// A content type is longer than [`Limits::content_type`](super::Limits::content_type).
    #[error("content type of {length} bytes, at most {limit} are taken")]
    ContentTypeTooLong {
        /// The length the field announces.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A control frame has more content types than its kind may have: START one, STOP and FINISH none.
    #[error("{kind} with {count} content types")]
    TooManyContentTypes {
        /// The kind of control frame.
        kind: ControlKind,
        /// How many it holds.
        count: usize,
    },
}

/// An error of a stream, from the [`StreamReader`](super::StreamReader).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A frame cannot be read.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame can be read, but is not allowed here.
    #[error("{source} (byte {offset})")]
    Handshake {
        /// The first byte of the frame, counted from the start of the stream.
        offset: u64,
        /// The fault.
        source: HandshakeError,
    },
    /// The stream ends in the middle of a frame.
    #[error(
        "the stream ends within a frame, at least {missing} bytes short (the frame began at byte {offset})"
    )]
    Truncated {
        /// The first byte of the frame, counted from the start of the stream.
        offset: u64,
        /// How many bytes are missing at least.
        missing: usize,
    },
}
