//! Deadlines of a stream.

use proto::frame_stream::Phase;
use tokio::time::Instant;

use crate::listen::connection::Reader;
use crate::listen::error::Error;

impl Reader<'_> {
    /// The deadline of the next read. `partial`: a frame has begun.
    fn read_deadline(&self, partial: bool) -> Option<Instant> {
        let limits = &self.ingest.limits;
        if self.frames.phase() != Phase::Streaming {
            Some(self.times.opened + limits.handshake)
        } else if partial && self.reads() {
            Some(self.times.frame_began + limits.frame)
        } else {
            None
        }
    }

    /// When an unknown peer must be known.
    pub(super) fn known_by(&self) -> Option<Instant> {
        let since = self.unknown_since?;
        Some(since + self.ingest.limits.unknown)
    }

    /// The earlier one of the deadlines of the next read and of an unknown peer.
    pub(super) fn deadline(&self, partial: bool) -> Option<Instant> {
        let due = self.read_deadline(partial).into_iter();
        due.chain(self.known_by()).min()
    }

    /// Checks the deadline of a read that brought nothing.
    pub(super) fn check_deadline(&self, partial: bool) -> Result<(), Error> {
        let limits = &self.ingest.limits;
        if self
            .read_deadline(partial)
            .is_none_or(|deadline| Instant::now() < deadline)
        {
            return Ok(());
        }
        Err(if self.frames.phase() != Phase::Streaming {
            Error::HandshakeTimeout(limits.handshake)
        } else {
            Error::FrameTimeout {
                offset: self.frames.offset(),
                limit: limits.frame,
            }
        })
    }
}
