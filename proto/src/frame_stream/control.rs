//! Control frames: their types, their fields, and their wire form.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::{FrameError, FrameErrorKind, Limits};

/// The only type of field that is defined (`FSTRM_CONTROL_FIELD_CONTENT_TYPE`).
const CONTENT_TYPE_FIELD: u32 = 1;
/// The type of a control frame, and each integer in it.
const INTEGER: usize = size_of::<u32>();

/// The type of a control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlKind {
    /// The reader names the content types it takes, in answer to READY.
    Accept,
    /// The writer begins the data.
    Start,
    /// The writer ends the data.
    Stop,
    /// The writer offers content types.
    Ready,
    /// The reader has everything, in answer to STOP.
    Finish,
    /// A type the specification does not define (yet).
    Unknown(u32),
}

impl ControlKind {
    /// The number that stands for this kind on the wire.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::Accept => 1,
            Self::Start => 2,
            Self::Stop => 3,
            Self::Ready => 4,
            Self::Finish => 5,
            Self::Unknown(code) => code,
        }
    }

    /// How many content types such a frame may have.
    fn content_types(self) -> usize {
        match self {
            Self::Accept | Self::Ready => usize::MAX,
            Self::Start => 1,
            Self::Stop | Self::Finish | Self::Unknown(_) => 0,
        }
    }
}

impl From<u32> for ControlKind {
    fn from(code: u32) -> Self {
        match code {
            1 => Self::Accept,
            2 => Self::Start,
            3 => Self::Stop,
            4 => Self::Ready,
            5 => Self::Finish,
            _ => Self::Unknown(code),
        }
    }
}

impl fmt::Display for ControlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accept => "ACCEPT",
            Self::Start => "START",
            Self::Stop => "STOP",
            Self::Ready => "READY",
            Self::Finish => "FINISH",
            Self::Unknown(code) => return write!(f, "control frame of unknown type {code}"),
        })
    }
}

/// A control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Its type.
    pub kind: ControlKind,
    /// The encodings of data frames it names, in the order of the frame. Any number in READY and ACCEPT, at most one
    /// in START, none in STOP and FINISH. The fields of an unknown kind are not read.
    pub content_types: Vec<Bytes>,
}

impl Control {
    /// A control frame without a content type.
    #[must_use]
    pub fn new(kind: ControlKind) -> Self {
        Self {
            kind,
            content_types: Vec::new(),
        }
    }

    /// A control frame with one content type.
    #[must_use]
    pub fn with_content_type(kind: ControlKind, content_type: Bytes) -> Self {
        Self {
            kind,
            content_types: vec![content_type],
        }
    }

    /// Whether a stream of `content_type` fits what this frame names: it names that type, or none at all.
    #[must_use]
    pub fn matches(&self, content_type: &[u8]) -> bool {
        self.content_types.is_empty()
            || self
                .content_types
                .iter()
                .any(|offered| offered == content_type)
    }

    /// Reads the payload of a control frame: what follows its length field. Offsets of errors count from there.
    pub(super) fn parse(payload: &[u8], limits: &Limits) -> Result<Self, FrameError> {
        let mut rest = payload;
        let offset = |rest: &[u8]| payload.len() - rest.len();
        let Some(code) = take_u32(&mut rest) else {
            return Err(FrameError::new(
                0,
                FrameErrorKind::ControlTooShort {
                    length: payload.len(),
                },
            ));
        };
        let mut control = Self::new(ControlKind::from(code));
        if let ControlKind::Unknown(_) = control.kind {
            return Ok(control);
        }
        while !rest.is_empty() {
            let field = offset(rest);
            let truncated = |needed, left| {
                FrameError::new(field, FrameErrorKind::FieldTruncated { needed, left })
            };
            let left = rest.len();
            match take_u32(&mut rest) {
                Some(CONTENT_TYPE_FIELD) => {}
                Some(unknown) => {
                    return Err(FrameError::new(
                        field,
                        FrameErrorKind::UnknownField(unknown),
                    ));
                }
                None => return Err(truncated(INTEGER, left)),
            }
            let left = rest.len();
            let length = take_u32(&mut rest).ok_or_else(|| truncated(INTEGER, left))? as usize;
            if length > limits.content_type {
                let kind = FrameErrorKind::ContentTypeTooLong {
                    length,
                    limit: limits.content_type,
                };
                return Err(FrameError::new(field, kind));
            }
            let (content_type, after) = rest
                .split_at_checked(length)
                .ok_or_else(|| truncated(length, rest.len()))?;
            control
                .content_types
                .push(Bytes::copy_from_slice(content_type));
            rest = after;
        }
        let (kind, count) = (control.kind, control.content_types.len());
        if count > kind.content_types() {
            let kind = FrameErrorKind::TooManyContentTypes { kind, count };
            return Err(FrameError::new(0, kind));
        }
        Ok(control)
    }

    /// Appends this control frame to `dst`, with its escape and its length. A reader refuses a longer frame than its limits.
    pub fn encode(&self, dst: &mut BytesMut) {
        let lengths = self.content_types.iter().map(|it| 2 * INTEGER + it.len());
        let length = INTEGER + lengths.sum::<usize>();
        dst.reserve(2 * INTEGER + length);
        dst.put_u32(0);
        dst.put_u32(length as u32);
        dst.put_u32(self.kind.code());
        for content_type in &self.content_types {
            dst.put_u32(CONTENT_TYPE_FIELD);
            dst.put_u32(content_type.len() as u32);
            dst.put_slice(content_type);
        }
    }
}

fn take_u32(buf: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = buf.split_first_chunk()?;
    *buf = rest;
    Some(u32::from_be_bytes(*bytes))
}
