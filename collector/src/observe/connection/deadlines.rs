//! Deadlines of a stream, and pauses in reading it.

use std::time::Duration;

use metrics::counter;
use proto::frame_stream::Phase;
use tokio::time::{Instant, timeout_at};

use super::Reader;
use crate::observe::error::Error;

impl Reader<'_> {
    /// The deadline of the next read. `partial`: a frame has begun.
    fn read_deadline(&self, partial: bool) -> Option<Instant> {
        let limits = &self.ingest.limits;
        if self.frames.phase() != Phase::Streaming {
            Some(self.times.opened + limits.handshake)
        } else if partial {
            Some(self.times.frame_began + limits.frame)
        } else {
            None
        }
    }

    /// When an unknown peer must be known. A peer that only has to show the secret may be silent.
    pub(super) fn known_by(&self) -> Option<Instant> {
        if !self.unknown.lacks_secret && self.standing.awaits_secret() {
            return None;
        }
        self.unknown
            .since
            .map(|since| since + self.ingest.limits.unknown)
    }

    /// The earlier one of the deadlines of the next read and of an unknown peer.
    pub(super) fn deadline(&self, partial: bool) -> Option<Instant> {
        let due = self.read_deadline(partial).into_iter();
        due.chain(self.known_by()).min()
    }

    /// Checks the deadline of a read that brought nothing.
    pub(super) fn look_at_time(&self, partial: bool) -> Result<(), Error> {
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

    /// Pauses reading. The peer may become known meanwhile, or be closed.
    pub(super) async fn rest(&mut self, pause: Duration) -> Result<(), Error> {
        let end = Instant::now() + pause;
        while Instant::now() < end {
            let wake = self.known_by().map_or(end, |known_by| known_by.min(end));
            let _time_is_over = timeout_at(wake, self.standing.changed()).await.is_err();
            self.look_at_standing()?;
        }
        Ok(())
    }

    /// How long to pause. `before`: the number of frames before the last read.
    pub(super) fn pause(&self, before: u64) -> Option<Duration> {
        let frames = u32::try_from(self.data_frames - before).unwrap_or(u32::MAX);
        let pause = self.permit.pause(frames)?;
        counter!("egress_collector_read_pauses_total").increment(1);
        Some(pause)
    }
}
