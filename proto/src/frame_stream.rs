//! Frame Streams: the transport that carries dnstap events over sockets and in files.
//!
//! The format is that of the `fstrm` library (its header `fstrm/control.h` is the specification). All integers are
//! big-endian `u32`. A data frame is its length and its bytes. A length of 0 is an escape: a control frame follows,
//! again with its length, then its type and its fields.
//!
//! - [`parse()`] reads one frame from the front of a buffer, in place, and allocates nothing for a data frame.
//! - [`ReaderHandshake`] is the role of the reader in the protocol, as a state machine without IO.
//! - [`StreamReader`] joins the two for a reader that parses its own buffer, and knows the offset of each error.
//!
//! # Choices where the specification leaves room
//!
//! - A control frame of an unknown type is skipped between START and STOP, as the specification demands, and refused
//!   everywhere else.
//! - A field of an unknown type inside a control frame is an error, as in `fstrm`: nothing says how long it is.
//! - A READY, ACCEPT or START without a content type matches any content type, as in `fstrm`.
//! - START with several content types, and STOP or FINISH with any, are errors, as the specification says.

mod control;
mod error;
mod handshake;
mod parse;
mod reader;
#[cfg(test)]
mod tests;

pub use control::{Control, ControlKind};
pub use error::{Error, FrameError, FrameErrorKind};
pub use handshake::{Action, HandshakeError, Phase, ReaderHandshake};
pub use parse::{FrameRef, Parsed, parse};
pub use reader::{Step, StreamReader};

/// The largest frames that are taken or written, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The payload of a data frame, without its length field. Default: 68 KiB, which is the largest DNS message
    /// (65,535 bytes) and 4 KiB for the dnstap fields around it.
    pub data_frame: usize,
    /// The payload of a control frame, without escape and length field. Default: 512, `fstrm`'s limit.
    pub control_frame: usize,
    /// One content type. Default: 256, `fstrm`'s limit.
    pub content_type: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            data_frame: 68 * 1024,
            control_frame: 512,
            content_type: 256,
        }
    }
}
