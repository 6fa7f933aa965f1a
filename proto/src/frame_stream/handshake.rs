//! The order of control and data frames, for both roles and both kinds of stream, without IO.
//!
//! ```text
//! bidirectional    writer: READY          START data… STOP
//!                  reader:        ACCEPT                    FINISH
//! unidirectional   writer: START data… STOP
//! ```

use std::fmt;

use bytes::Bytes;

use super::{Control, ControlKind};

/// The phases of a stream, for both roles; each role uses some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was sent or received.
    Opening,
    /// Writer: READY is sent, ACCEPT is due.
    AwaitingAccept,
    /// Reader: ACCEPT is sent, START is due.
    AwaitingStart,
    /// Between START and STOP: data.
    Streaming,
    /// Writer: STOP is sent, FINISH is due.
    AwaitingFinish,
    /// The stream is over.
    Finished,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "at the start of the stream",
            Self::AwaitingAccept => "where ACCEPT is due",
            Self::AwaitingStart => "where START is due",
            Self::Streaming => "in the middle of data",
            Self::AwaitingFinish => "where FINISH is due",
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
    /// A data frame came before START or after STOP, or to a writer.
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
        /// The content type that this side reads or writes.
        wanted: Bytes,
    },
    /// The caller begins or ends a stream that is not in the phase for it.
    #[error("{kind} cannot be sent {phase}")]
    OutOfTurn {
        /// The frame to send.
        kind: ControlKind,
        /// The phase of the stream.
        phase: Phase,
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

/// The side that sends data.
#[derive(Debug)]
pub struct WriterHandshake {
    content_type: Bytes,
    phase: Phase,
    bidirectional: bool,
}

impl WriterHandshake {
    /// A writer that waits for the reader's answers, for sockets.
    #[must_use]
    pub fn bidirectional(content_type: impl Into<Bytes>) -> Self {
        Self {
            content_type: content_type.into(),
            phase: Phase::Opening,
            bidirectional: true,
        }
    }

    /// A writer that expects no answers, for files and pipes.
    #[must_use]
    pub fn unidirectional(content_type: impl Into<Bytes>) -> Self {
        Self {
            bidirectional: false,
            ..Self::bidirectional(content_type)
        }
    }

    /// How far the stream has come. Data may be sent in [`Phase::Streaming`].
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins the stream and returns the control frame to send: READY, or START for a unidirectional stream.
    ///
    /// # Errors
    ///
    /// If the stream has already begun.
    pub fn begin(&mut self) -> Result<Control, HandshakeError> {
        let (kind, next) = if self.bidirectional {
            (ControlKind::Ready, Phase::AwaitingAccept)
        } else {
            (ControlKind::Start, Phase::Streaming)
        };
        if self.phase != Phase::Opening {
            return Err(HandshakeError::OutOfTurn {
                kind,
                phase: self.phase,
            });
        }
        self.phase = next;
        Ok(Control::with_content_type(kind, self.content_type.clone()))
    }

    /// Takes a control frame from the reader.
    ///
    /// # Errors
    ///
    /// If it comes out of order or accepts only other content types.
    pub fn on_control(&mut self, control: &Control) -> Result<Action, HandshakeError> {
        match (self.phase, control.kind) {
            (Phase::AwaitingAccept, ControlKind::Accept) => {
                check_content_type(control, &self.content_type)?;
                self.phase = Phase::Streaming;
                let start =
                    Control::with_content_type(ControlKind::Start, self.content_type.clone());
                Ok(Action::Send(start))
            }
            (Phase::AwaitingFinish, ControlKind::Finish) => {
                self.phase = Phase::Finished;
                Ok(Action::Finish(None))
            }
            (phase, kind) => Err(HandshakeError::UnexpectedControl { kind, phase }),
        }
    }

    /// Ends the stream and returns the STOP to send. A bidirectional stream ends with FINISH, a unidirectional one at
    /// once.
    ///
    /// # Errors
    ///
    /// If the stream is not in its data phase.
    pub fn stop(&mut self) -> Result<Control, HandshakeError> {
        if self.phase != Phase::Streaming {
            return Err(HandshakeError::OutOfTurn {
                kind: ControlKind::Stop,
                phase: self.phase,
            });
        }
        self.phase = if self.bidirectional {
            Phase::AwaitingFinish
        } else {
            Phase::Finished
        };
        Ok(Control::new(ControlKind::Stop))
    }
}
