//! One dnstap stream: handshake, frames, limits.

use std::{io, pin::pin, time::Duration};

use bytes::{Buf, BytesMut};
use metrics::{counter, histogram};
use proto::{
    dnstap,
    frame_stream::{self, Action, Phase, Step, StreamReader},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Ingest,
    metrics::{Counts, Outcome},
    pipeline::{self, Context},
};
use crate::{guards::Guards, names::NameIndex, observation::Observation};

/// One read takes what is there, up to this.
const READ: usize = 64 * 1024;

/// For how long a stream is read on at the end while something is there to read.
const DRAIN: Duration = Duration::from_secs(1);

/// Why a stream was closed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    #[error("cannot answer: {0}")]
    Write(#[source] io::Error),
    #[error(transparent)]
    Stream(#[from] frame_stream::Error),
    #[error("no START within {0:?}")]
    HandshakeTimeout(Duration),
    #[error("the frame that begins at byte {offset} was not complete within {limit:?}")]
    FrameTimeout { offset: u64, limit: Duration },
}

impl Error {
    /// A word for metric labels.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Stream(frame_stream::Error::Handshake { .. }) => "handshake",
            Self::Stream(frame_stream::Error::Truncated { .. }) => "truncated",
            Self::Stream(_) => "frame",
            Self::HandshakeTimeout(_) => "handshake_timeout",
            Self::FrameTimeout { .. } => "frame_timeout",
        }
    }
}

/// Reads a stream to its end, or to `shutdown` and then what is there already. Returns the number of data frames.
pub(super) async fn read(
    stream: impl AsyncRead + AsyncWrite,
    ingest: &Ingest,
    shutdown: CancellationToken,
) -> Result<u64, Error> {
    let mut stream = pin!(stream);
    let mut reader = Reader {
        ingest,
        frames: StreamReader::new(dnstap::CONTENT_TYPE, ingest.limits.frames),
        counts: Counts::default(),
        data_frames: 0,
        lost: 0,
        warned_no_message: false,
    };
    let received = counter!("collector_received_bytes_total");
    let mut buffer = BytesMut::with_capacity(READ);
    let mut answer = BytesMut::new();
    let opened = Instant::now();
    let mut frame_began = opened;
    let mut draining = None;
    loop {
        if shutdown.is_cancelled() && draining.get_or_insert_with(Instant::now).elapsed() > DRAIN {
            return Ok(reader.data_frames);
        }
        buffer.reserve(READ);
        let deadline = reader.deadline(opened, frame_began, !buffer.is_empty());
        let read = tokio::select! {
            biased;
            read = stream.read_buf(&mut buffer) => read.map_err(Error::Read)?,
            () = shutdown.cancelled() => return Ok(reader.data_frames),
            () = sleep_until(deadline.unwrap_or(opened)), if deadline.is_some() => {
                return Err(reader.timed_out());
            }
        };
        if read == 0 {
            reader.frames.end(&buffer)?;
            return Ok(reader.data_frames);
        }
        received.increment(read as u64);
        let (offset, began) = (reader.frames.offset(), buffer.len() == read);
        let finished = reader.consume(&mut buffer, &mut answer);
        reader.flush();
        if began || reader.frames.offset() != offset {
            frame_began = Instant::now();
        }
        if !answer.is_empty() {
            // A control frame fits any socket's buffer: a peer that does not take it is not one to wait for.
            timeout(ingest.limits.handshake, stream.write_all_buf(&mut answer))
                .await
                .map_err(|elapsed| Error::Write(elapsed.into()))?
                .map_err(Error::Write)?;
        }
        if finished? {
            return Ok(reader.data_frames);
        }
    }
}

struct Reader<'a> {
    ingest: &'a Ingest,
    frames: StreamReader,
    counts: Counts,
    data_frames: u64,
    lost: u64,
    warned_no_message: bool,
}

impl Reader<'_> {
    /// Takes every whole frame from the buffer, in place. Returns whether the stream is over.
    fn consume(&mut self, buffer: &mut BytesMut, answer: &mut BytesMut) -> Result<bool, Error> {
        let names = self.ingest.names.load();
        let guards = self.ingest.guards.load();
        let mut rest: &[u8] = buffer;
        let finished = loop {
            match self.step(rest, &names, &guards, answer)? {
                Some((consumed, finished)) => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    if finished {
                        break true;
                    }
                }
                None => break false,
            }
        };
        let consumed = buffer.len() - rest.len();
        buffer.advance(consumed);
        Ok(finished)
    }

    /// Takes the frame at the front; nothing if it is not whole.
    fn step(
        &mut self,
        rest: &[u8],
        names: &NameIndex,
        guards: &Guards,
        answer: &mut BytesMut,
    ) -> Result<Option<(usize, bool)>, Error> {
        match self.frames.step(rest)? {
            Step::Incomplete { .. } => Ok(None),
            Step::Data { payload, consumed } => {
                self.data_frames += 1;
                let context = Context {
                    names,
                    guards,
                    clock: &self.ingest.clock,
                    remembered: &self.ingest.remembered,
                    own: &self.ingest.own,
                };
                let observed = pipeline::observe(payload, context, &mut self.counts);
                if let Some(observation) = observed {
                    self.hand_over(observation);
                }
                Ok(Some((consumed, false)))
            }
            Step::Control { action, consumed } => {
                let (reply, finished) = match action {
                    Action::None => (None, false),
                    Action::Send(control) => (Some(control), false),
                    Action::Finish(control) => (control, true),
                };
                if let Some(control) = reply {
                    control
                        .encode(&self.ingest.limits.frames, answer)
                        .map_err(frame_stream::Error::from)?;
                }
                if self.frames.phase() == Phase::Streaming {
                    info!("stream open");
                }
                Ok(Some((consumed, finished)))
            }
        }
    }

    fn hand_over(&mut self, observation: Observation) {
        if let Some(answered_at) = observation.answered_at {
            histogram!("collector_observation_delay_seconds")
                .record(observation.at.since(answered_at));
        }
        if self.ingest.observations.try_send(observation).is_err() {
            self.lost += 1;
        }
    }

    /// Gives the counts over, once a read.
    fn flush(&mut self) {
        if self.lost > 0 {
            counter!("collector_observations_lost_total").increment(std::mem::take(&mut self.lost));
        }
        let unreadable =
            self.counts.pending(Outcome::BadEvent) + self.counts.pending(Outcome::BadMessage);
        if unreadable > 0
            && let Some(left_out) = self.ingest.bad_events.pass()
        {
            let offset = self.frames.offset();
            warn!(
                events = unreadable,
                before_byte = offset,
                left_out,
                "events that are no dnstap, or hold no DNS response"
            );
        }
        if !self.warned_no_message && self.counts.pending(Outcome::NoMessage) > 0 {
            self.warned_no_message = true;
            warn!("events without a DNS message: the sender's `dnstap` line lacks `full`");
        }
        self.counts.flush();
    }

    fn deadline(&self, opened: Instant, frame_began: Instant, partial: bool) -> Option<Instant> {
        let limits = &self.ingest.limits;
        if self.frames.phase() != Phase::Streaming {
            Some(opened + limits.handshake)
        } else {
            partial.then(|| frame_began + limits.frame)
        }
    }

    fn timed_out(&self) -> Error {
        let limits = &self.ingest.limits;
        if self.frames.phase() == Phase::Streaming {
            Error::FrameTimeout {
                offset: self.frames.offset(),
                limit: limits.frame,
            }
        } else {
            Error::HandshakeTimeout(limits.handshake)
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
