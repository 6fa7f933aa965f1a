//! One frame from the front of a buffer, in place.

use super::{Control, FrameError, FrameErrorKind, Limits};

/// The length field of a data frame, and the escape of a control frame.
const LENGTH: usize = size_of::<u32>();

/// The content of the front of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The buffer ends within a frame.
    Incomplete {
        /// How many more bytes parsing needs to continue, at least one. Bounded by the limits.
        needed: usize,
    },
    /// A whole frame.
    Frame {
        /// The frame.
        frame: FrameRef<'a>,
        /// How many bytes of the buffer it takes.
        consumed: usize,
    },
}

/// A frame that borrows the buffer it was read from.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameRef<'a> {
    /// The payload of a data frame, never empty.
    Data(&'a [u8]),
    /// A control frame.
    Control(Control),
}

/// Reads the frame at the front of `buf`. A frame over its limit is refused by its length alone, before its payload
/// arrives. A data frame costs a few instructions and no allocation.
///
/// # Errors
///
/// If the frame breaks a limit or is a malformed control frame. The offset counts from the start of `buf`. The next
/// frame cannot be found after an error.
#[inline]
pub fn parse<'a>(buf: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, FrameError> {
    let Some((length, rest)) = buf.split_first_chunk::<LENGTH>() else {
        return Ok(Parsed::Incomplete {
            needed: LENGTH - buf.len(),
        });
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length == 0 {
        return parse_control(rest, limits);
    }
    if length > limits.data_frame {
        return Err(FrameError::new(
            0,
            FrameErrorKind::DataTooLong {
                length,
                limit: limits.data_frame,
            },
        ));
    }
    Ok(match rest.get(..length) {
        Some(data) => Parsed::Frame {
            frame: FrameRef::Data(data),
            consumed: LENGTH + length,
        },
        None => Parsed::Incomplete {
            needed: length - rest.len(),
        },
    })
}

/// Reads the control frame after an escape. Out of line: a stream has three or four of these, the rest is data.
#[cold]
fn parse_control<'a>(buf: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, FrameError> {
    let Some((length, rest)) = buf.split_first_chunk::<LENGTH>() else {
        return Ok(Parsed::Incomplete {
            needed: LENGTH - buf.len(),
        });
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length < size_of::<u32>() {
        return Err(FrameError::new(
            LENGTH,
            FrameErrorKind::ControlTooShort { length },
        ));
    }
    if length > limits.control_frame {
        let kind = FrameErrorKind::ControlTooLong {
            length,
            limit: limits.control_frame,
        };
        return Err(FrameError::new(LENGTH, kind));
    }
    let Some(payload) = rest.get(..length) else {
        return Ok(Parsed::Incomplete {
            needed: length - rest.len(),
        });
    };
    let header = 2 * LENGTH;
    let control = Control::parse(payload, limits).map_err(|error| error.after(header as u64))?;
    Ok(Parsed::Frame {
        frame: FrameRef::Control(control),
        consumed: header + length,
    })
}
