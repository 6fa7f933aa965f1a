//! Frames over any `AsyncRead` and `AsyncWrite`, through `tokio_util`.

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use super::{Control, Error, FrameRef, Limits, Parsed, encode_data, parse};

/// A frame that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The payload of a data frame, never empty when it was read.
    Data(Bytes),
    /// A control frame.
    Control(Control),
}

/// Frames to and from bytes, with limits. It does not check the order of frames: the handshake does.
#[derive(Debug, Default)]
pub struct Codec {
    limits: Limits,
    offset: u64,
}

impl Codec {
    /// A codec with these limits, in both directions.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, offset: 0 }
    }

    /// How many bytes the frames decoded so far take up: the offset of the next frame in the stream.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// A frame, or the number of missing bytes.
    fn take(&mut self, src: &mut BytesMut) -> Result<Result<Frame, usize>, Error> {
        let (control, consumed) =
            match parse(src, &self.limits).map_err(|error| error.after(self.offset))? {
                Parsed::Incomplete { needed } => return Ok(Err(needed)),
                Parsed::Frame {
                    frame: FrameRef::Data(data),
                    consumed,
                } => {
                    // Keep the buffer's own bytes: the payload is its tail, behind the length field.
                    let header = consumed - data.len();
                    let mut frame = src.split_to(consumed);
                    frame.advance(header);
                    self.offset += consumed as u64;
                    return Ok(Ok(Frame::Data(frame.freeze())));
                }
                Parsed::Frame {
                    frame: FrameRef::Control(control),
                    consumed,
                } => (control, consumed),
            };
        src.advance(consumed);
        self.offset += consumed as u64;
        Ok(Ok(Frame::Control(control)))
    }
}

impl Decoder for Codec {
    type Item = Frame;
    type Error = Error;

    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Frame>, Error> {
        Ok(match self.take(src)? {
            Ok(frame) => Some(frame),
            Err(needed) => {
                src.reserve(needed);
                None
            }
        })
    }

    fn decode_eof(&mut self, src: &mut BytesMut) -> Result<Option<Frame>, Error> {
        if src.is_empty() {
            return Ok(None);
        }
        match self.take(src)? {
            Ok(frame) => Ok(Some(frame)),
            Err(missing) => Err(Error::Truncated {
                offset: self.offset,
                missing,
            }),
        }
    }
}

impl Encoder<Frame> for Codec {
    type Error = Error;

    fn encode(&mut self, frame: Frame, dst: &mut BytesMut) -> Result<(), Error> {
        match frame {
            Frame::Data(data) => encode_data(&data, &self.limits, dst)?,
            Frame::Control(control) => control.encode(&self.limits, dst)?,
        }
        Ok(())
    }
}
