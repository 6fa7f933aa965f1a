//! The reading side of a stream: frames, their order and their offsets, over a buffer that the caller owns.

use bytes::Bytes;

use super::{Action, Error, FrameRef, Limits, Parsed, Phase, ReaderHandshake, parse};

/// The content of the front of a reader's buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The buffer ends within a frame.
    Incomplete {
        /// How many more bytes are needed, at least one. Bounded by the limits.
        needed: usize,
    },
    /// A data frame.
    Data {
        /// Its payload, never empty.
        payload: &'a [u8],
        /// How many bytes of the buffer the frame takes.
        consumed: usize,
    },
    /// A control frame.
    Control {
        /// The next step.
        action: Action,
        /// How many bytes of the buffer the frame takes.
        consumed: usize,
    },
}

/// The reading end of a stream. The caller owns the buffer and the transport:
///
/// ```
/// use proto::frame_stream::{Action, Limits, Step, StreamReader};
///
/// # fn main() -> Result<(), proto::frame_stream::Error> {
/// let mut reader = StreamReader::new("protobuf:dnstap.Dnstap", Limits::default());
/// // START without a content type, one data frame, STOP.
/// let mut buf: &[u8] = b"\0\0\0\0\0\0\0\x04\0\0\0\x02\0\0\0\x05hello\0\0\0\0\0\0\0\x04\0\0\0\x03";
/// loop {
///     let consumed = match reader.step(buf)? {
///         Step::Incomplete { needed } => break, // Read at least `needed` bytes more.
///         Step::Data { payload, consumed } => {
///             assert_eq!(payload, b"hello");
///             consumed
///         }
///         Step::Control { action: Action::Finish(_), .. } => break, // Send what it holds, and close.
///         Step::Control { action, consumed } => consumed,           // Send what it holds.
///     };
///     buf = buf.get(consumed..).unwrap_or_default();
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StreamReader {
    handshake: ReaderHandshake,
    limits: Limits,
    offset: u64,
}

impl StreamReader {
    /// A reader of this content type only.
    #[must_use]
    pub fn new(content_type: impl Into<Bytes>, limits: Limits) -> Self {
        Self {
            handshake: ReaderHandshake::new(content_type),
            limits,
            offset: 0,
        }
    }

    /// How far the stream has come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.handshake.phase()
    }

    /// How many bytes the frames so far took: the offset of the next frame in the stream.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The fast path for data frames: returns the payload of the frame at the front of `buf`, and the rest of `buf`.
    /// `None`, without an effect, if there is no complete data frame that is allowed here; [`step`](Self::step) tells
    /// why.
    #[inline]
    pub fn data<'a>(&mut self, buf: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (length, rest) = buf.split_first_chunk()?;
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 || length > self.limits.data_frame || self.phase() != Phase::Streaming {
            return None;
        }
        let (payload, rest) = rest.split_at_checked(length)?;
        self.offset += (size_of::<u32>() + length) as u64;
        Some((payload, rest))
    }

    /// Takes the frame at the front of `buf`, which must begin where the last frame ended. Allocates nothing for a data
    /// frame.
    ///
    /// # Errors
    ///
    /// If the frame cannot be read or is not allowed here, with its offset in the stream. The stream cannot continue.
    #[inline]
    pub fn step<'a>(&mut self, buf: &'a [u8]) -> Result<Step<'a>, Error> {
        if let Some((payload, rest)) = self.data(buf) {
            let consumed = buf.len() - rest.len();
            return Ok(Step::Data { payload, consumed });
        }
        let step = match parse(buf, &self.limits).map_err(|error| error.after(self.offset))? {
            Parsed::Incomplete { needed } => return Ok(Step::Incomplete { needed }),
            Parsed::Frame {
                frame: FrameRef::Data(payload),
                consumed,
            } => match self.handshake.on_data() {
                Ok(()) => Step::Data { payload, consumed },
                Err(source) => {
                    return Err(Error::Handshake {
                        offset: self.offset,
                        source,
                    });
                }
            },
            Parsed::Frame {
                frame: FrameRef::Control(control),
                consumed,
            } => match self.handshake.on_control(&control) {
                Ok(action) => Step::Control { action, consumed },
                Err(source) => {
                    return Err(Error::Handshake {
                        offset: self.offset,
                        source,
                    });
                }
            },
        };
        if let Step::Data { consumed, .. } | Step::Control { consumed, .. } = &step {
            self.offset += *consumed as u64;
        }
        Ok(step)
    }

    /// Checks the end of the transport, with `buf` left over. An end between two frames is correct.
    ///
    /// # Errors
    ///
    /// If the stream ends within a frame.
    pub fn end(&self, buf: &[u8]) -> Result<(), Error> {
        match parse(buf, &self.limits).map_err(|error| error.after(self.offset))? {
            Parsed::Incomplete { needed } if !buf.is_empty() => Err(Error::Truncated {
                offset: self.offset,
                missing: needed,
            }),
            Parsed::Incomplete { .. } | Parsed::Frame { .. } => Ok(()),
        }
    }
}
