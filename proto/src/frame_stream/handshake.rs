//! The order of control and data frames that a reader takes, of both kinds of stream, without IO.
//!
//! ```text
//! bidirectional    writer: READY          START data… STOP
//!                  reader:        ACCEPT                    FINISH
//! unidirectional   writer: START data… STOP
//! ```

use std::fmt;

use bytes::Bytes;

use super::{Control, ControlKind};

/// The phases of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was sent or received.
    Opening,
    /// ACCEPT is sent, START is due.
    AwaitingStart,
    /// Between START and STOP: data.
    Streaming,
    /// The stream is over.
    Finished,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "at the start of the stream",
            Self::AwaitingStart => "where START is due",
            Self::Streaming => "in the middle of data",
            Self::Finished => "after the end of the stream",
        })
    }
}

/// The next step after a control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Continue to read.
    None,
    /// Send this control frame, then continue.
    Send(Control),
    /// The stream is over: send this control frame, if any, and close.
    Finish(Option<Control>),
}

/// A frame in the wrong place. The stream cannot continue: close it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// A control frame came out of order.
    #[error("{kind} {phase}")]
    UnexpectedControl {
        /// The kind of the frame.
        kind: ControlKind,
        /// The phase in which it came.
        phase: Phase,
    },
    /// A data frame came before START or after STOP.
    #[error("data frame {phase}")]
    UnexpectedData {
        /// The phase in which it came.
        phase: Phase,
    },
    /// No content type in common.
    #[error("{kind} names content type {}, not {}", Listed(offered), wanted.escape_ascii())]
    ContentType {
        /// The control frame that named the content types.
        kind: ControlKind,
        /// The content types that it named, at least one.
        offered: Vec<Bytes>,
        /// The content type that this side reads.
        wanted: Bytes,
    },
}

/// Content types from a peer, escaped for display.
struct Listed<'a>(&'a [Bytes]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, content_type) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{}", content_type.escape_ascii())?;
        }
        Ok(())
    }
}

fn check_content_type(control: &Control, wanted: &Bytes) -> Result<(), HandshakeError> {
    if control.matches(wanted) {
        return Ok(());
    }
    let offered = control.content_types.clone();
    Err(HandshakeError::ContentType {
        kind: control.kind,
        offered,
        wanted: wanted.clone(),
    })
}

/// The side that receives data. The first frame tells whether the writer expects answers: READY begins a bidirectional
/// stream, START a unidirectional one.
#[derive(Debug)]
pub struct ReaderHandshake {
    content_type: Bytes,
    phase: Phase,
    bidirectional: bool,
}

impl ReaderHandshake {
    /// A reader of this content type only.
    #[must_use]
    pub fn new(content_type: impl Into<Bytes>) -> Self {
        Self {
            content_type: content_type.into(),
            phase: Phase::Opening,
            bidirectional: false,
        }
    }

    /// How far the stream has come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Takes a control frame from the writer.
    ///
    /// # Errors
    ///
    /// If it comes out of order or names another content type. The reader then closes without an answer.
    pub fn on_control(&mut self, control: &Control) -> Result<Action, HandshakeError> {
        use ControlKind::{Ready, Start, Stop, Unknown};
        use Phase::{AwaitingStart, Finished, Opening, Streaming};
        match (self.phase, control.kind) {
            (Opening, Ready) => {
                check_content_type(control, &self.content_type)?;
                self.phase = AwaitingStart;
                self.bidirectional = true;
                let accept =
                    Control::with_content_type(ControlKind::Accept, self.content_type.clone());
                Ok(Action::Send(accept))
            }
            (Opening | AwaitingStart, Start) => {
                check_content_type(control, &self.content_type)?;
                self.phase = Streaming;
                Ok(Action::None)
            }
            (Streaming, Stop) => {
                self.phase = Finished;
                Ok(Action::Finish(
                    self.bidirectional
                        .then(|| Control::new(ControlKind::Finish)),
                ))
            }
            // The specification reserves these kinds for extensions.
            (Streaming, Unknown(_)) => Ok(Action::None),
            (phase, kind) => Err(HandshakeError::UnexpectedControl { kind, phase }),
        }
    }

    /// Checks whether a data frame is allowed now. Cheap enough to call for each frame.
    ///
    /// # Errors
    ///
    /// Before START and after STOP.
    #[inline]
    pub fn on_data(&self) -> Result<(), HandshakeError> {
        match self.phase {
            Phase::Streaming => Ok(()),
            phase => Err(HandshakeError::UnexpectedData { phase }),
        }
    }
}
