//! The order of control and data frames for a reader, of both kinds of stream, without IO.
//!
//! ```text
//! bidirectional    writer: READY          START data… STOP
//!                  reader:        ACCEPT                    FINISH
//! unidirectional   writer: START data… STOP
//! ```

use std::fmt;

use bytes::Bytes;

use super::{Control, ControlKind};

/// How far a stream has come.
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

/// What to do after a control frame was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Go on reading.
    None,
    /// Send this control frame, then go on.
    Send(Control),
    /// The stream is over: send this control frame, if there is one, and close.
    Finish(Option<Control>),
}

/// A frame that may not come where it came. The stream cannot go on: close it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// A control frame came out of turn.
    #[error("{kind} {phase}")]
    UnexpectedControl {
        /// The kind that came.
        kind: ControlKind,
        /// Where it came.
        phase: Phase,
    },
    /// A data frame came before START or after STOP.
    #[error("data frame {phase}")]
    UnexpectedData {
        /// Where it came.
        phase: Phase,
    },
    /// No content type in common.
    #[error("{kind} names content type {}, not {}", Listed(offered), wanted.escape_ascii())]
    ContentType {
        /// The control frame that named the content types.
        kind: ControlKind,
        /// Those it named, at least one.
        offered: Vec<Bytes>,
        /// The one that this side takes.
        wanted: Bytes,
    },
}

/// Content types as a peer sent them, made safe to show.
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

/// The side that receives data. It finds out by the first frame whether the writer wants answers: READY begins a
/// bidirectional stream, START a unidirectional one.
#[derive(Debug)]
pub struct ReaderHandshake {
    content_type: Bytes,
    phase: Phase,
    bidirectional: bool,
}

impl ReaderHandshake {
    /// A reader that takes data of this content type alone.
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
    /// If it comes out of turn or names another content type: the reader closes, without an answer.
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
            // Room that the specification keeps for kinds to come.
            (Streaming, Unknown(_)) => Ok(Action::None),
            (phase, kind) => Err(HandshakeError::UnexpectedControl { kind, phase }),
        }
    }

    /// Whether a data frame may come now. Cheap enough to ask for each.
    ///
    /// # Errors
    ///
    /// If START has not come yet, or STOP has.
    #[inline]
    pub fn on_data(&self) -> Result<(), HandshakeError> {
        match self.phase {
            Phase::Streaming => Ok(()),
            phase => Err(HandshakeError::UnexpectedData { phase }),
        }
    }
}
