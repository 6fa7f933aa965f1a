//! One dnstap stream: handshake, frames, limits.

mod deadlines;
mod flush;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    time::Duration,
};

use bytes::BytesMut;
use metrics::{Histogram, counter, histogram};
use proto::{
    dnstap,
    frame_stream::{self, Action, Phase, Step, StreamReader},
};
use runtime::reload::Reloaded;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    task::yield_now,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::flush::ProbeReports;
use crate::{
    listen::{
        Ingest,
        connection_limits::{ConnectionPermit, Drops},
        error::Error,
        metrics::Counts,
        peer_acl::PeerStatus,
        read_buffer::ReadBuffer,
    },
    matching::{
        loss_tracker::StreamWatch,
        pipeline::{Context, StreamHistory, observe},
        queue::Full,
    },
};
use names::{Observation, Provenance};

/// After shutdown, how long a stream with data in its socket is still read.
const DRAIN: Duration = Duration::from_secs(1);

/// How long a busy stream is read before its task yields. A new peer waits for ACCEPT meanwhile,
/// and CoreDNS sends nothing before ACCEPT. tokio's own budget would let 128 reads pass.
const TURN: Duration = Duration::from_millis(1);

/// Observations collected before the reader hands them over in the middle of a read. Each takes
/// about 200 bytes, and at most 24 kB.
const MOST_OBSERVED: usize = 64;

/// Reads a stream to its end. After `shutdown` it reads the data that has arrived already. Returns
/// the number of data frames.
///
/// An unknown peer gets its handshake, and its frames are not read until it is known: CoreDNS up to
/// 1.13.1 does not dial again after a refusal.
pub(super) async fn read(
    stream: impl AsyncRead + AsyncWrite,
    permit: ConnectionPermit,
    status: PeerStatus,
    ingest: &Ingest,
    shutdown: CancellationToken,
) -> Result<u64, Error> {
    let mut stream = pin!(stream);
    let mut reader = Reader::new(permit, status, ingest);
    let received = counter!("egress_collector_received_bytes_total");
    let mut read_buffer = ReadBuffer::new(ingest.limits.buffer);
    let mut answer = BytesMut::new();
    let mut draining = None;
    let mut worked = Duration::ZERO;
    let mut cancelled = pin!(shutdown.cancelled());
    let (mut timer, mut rings_at) = (pin!(sleep_until(reader.times.opened)), None);
    loop {
        if shutdown.is_cancelled() && draining.get_or_insert_with(Instant::now).elapsed() > DRAIN {
            return Ok(reader.data_frames);
        }
        let partial = !read_buffer.filled().is_empty();
        // Most reads move the deadline later. An early wake-up now and then costs less than setting
        // the timer for each read.
        if let Some(deadline) = reader.deadline(partial)
            && rings_at.is_none_or(|at| deadline < at)
        {
            timer.as_mut().reset(deadline);
            rings_at = Some(deadline);
        }
        let mut reading = pin!(stream.read(read_buffer.room()));
        let reading = poll_fn(|context| {
            let read = reading.as_mut().poll(context);
            if read.is_pending() {
                // The task yields here, so its turn is over.
                worked = Duration::ZERO;
            }
            read
        });
        let read = tokio::select! {
            biased;
            read = reading, if reader.reads() => Some(read.map_err(Error::Read)?),
            () = &mut cancelled => return Ok(reader.data_frames),
            () = reader.status.changed() => None,
            () = &mut timer, if rings_at.is_some() => {
                rings_at = None;
                None
            }
        };
        // Checked after every event, so that the limits bind a peer that never pauses too.
        let became_known = reader.refresh_status()?;
        let (offset, began) = (reader.frames.offset(), !partial);
        match read {
            Some(0) => {
                reader.frames.end(read_buffer.filled())?;
                return Ok(reader.data_frames);
            }
            Some(read) => {
                received.increment(read as u64);
                read_buffer.add(read);
            }
            // The frames that came with START are in the buffer.
            None if became_known && partial => {}
            None => {
                reader.check_deadline(partial)?;
                continue;
            }
        }
        reader.times.last_read = Instant::now();
        let finished = reader.consume(&mut read_buffer, &mut answer, began);
        reader.hand_over();
        reader.flush();
        worked += reader.times.last_read.elapsed();
        if began || reader.frames.offset() != offset {
            reader.times.frame_began = reader.times.last_read;
        }
        if !answer.is_empty() {
            // A control frame fits every socket buffer, so a peer that does not read it is broken.
            let sent = async {
                stream.write_all_buf(&mut answer).await?;
                stream.flush().await
            };
            timeout(ingest.limits.handshake, sent)
                .await
                .map_err(|elapsed| Error::Write(elapsed.into()))?
                .map_err(Error::Write)?;
        }
        if finished? {
            return Ok(reader.data_frames);
        }
        if worked > TURN {
            worked = Duration::ZERO;
            yield_now().await;
        }
    }
}

struct Reader<'a> {
    ingest: &'a Ingest,
    permit: ConnectionPermit,
    status: PeerStatus,
    /// Since when the peer is unknown.
    unknown_since: Option<Instant>,
    frames: StreamReader,
    /// Set while the stream is open and its peer known: an unexpected end is then a loss.
    watched: Option<StreamWatch>,
    counts: Counts,
    history: StreamHistory,
    /// Observations of the last read, until they are handed over.
    observed: Vec<Observation>,
    delays: Histogram,
    data_frames: u64,
    /// Losses since the last flush.
    lost: Drops,
    reported: Reported,
    times: Times,
}

/// What was reported of a stream.
#[derive(Default)]
struct Reported {
    data_frames: u64,
    /// Events without a DNS message were logged.
    no_message: bool,
}

/// The times of a stream.
struct Times {
    opened: Instant,
    frame_began: Instant,
    last_read: Instant,
}

/// The source of a stream's observations. Unknown peers have no number of their own: any host may
/// connect, and the numbers are few.
fn source(ingest: &Ingest, permit: &ConnectionPermit, is_known: bool) -> Provenance {
    match is_known {
        true => ingest.peer_ids.of(permit.peer()),
        false => Provenance::STREAM,
    }
}

impl<'a> Reader<'a> {
    fn new(permit: ConnectionPermit, status: PeerStatus, ingest: &'a Ingest) -> Self {
        let now = Instant::now();
        let is_known = status.is_known();
        Self {
            ingest,
            history: StreamHistory::of_stream(source(ingest, &permit, is_known)),
            permit,
            unknown_since: (!is_known).then_some(now),
            status,
            frames: StreamReader::new(dnstap::CONTENT_TYPE, ingest.limits.frames),
            watched: None,
            counts: Counts::default(),
            observed: Vec::new(),
            delays: histogram!("egress_collector_observation_delay_seconds"),
            data_frames: 0,
            lost: Drops::default(),
            reported: Reported::default(),
            times: Times {
                opened: now,
                frame_began: now,
                last_read: now,
            },
        }
    }

    /// Whether the peer may send now: its frames, or the handshake.
    fn reads(&self) -> bool {
        self.status.is_known() || self.frames.phase() != Phase::Streaming
    }

    /// Consumes every whole frame of the buffer, in place, as far as the peer may send them. Returns
    /// whether the stream is over. `begins`: the first frame began with the last read.
    fn consume(
        &mut self,
        read_buffer: &mut ReadBuffer,
        answer: &mut BytesMut,
        begins: bool,
    ) -> Result<bool, Error> {
        let names = self.ingest.names.load();
        let guards = self.ingest.guards.load();
        let secrets = self.ingest.peer_acl.secrets.as_ref().map(Reloaded::load);
        let context = Context {
            names: &names,
            guards: &guards,
            clock: &self.ingest.clock,
            remembered: &self.ingest.remembered,
            own: &self.ingest.own,
            secrets: secrets.as_deref(),
        };
        let is_known = self.status.is_known();
        let filled = read_buffer.filled();
        let mut rest = filled;
        let finished = loop {
            let frames = rest;
            while is_known && let Some((payload, behind)) = self.frames.data(rest) {
                if ProbeReports::may_be_probe(payload.len()) {
                    let began = if begins || rest.len() < filled.len() {
                        self.times.last_read
                    } else {
                        self.times.frame_began
                    };
                    let secrets = secrets.as_deref();
                    self.ingest.probes.report(payload, began, |extra| {
                        secrets.is_none_or(|secrets| secrets.admit(extra))
                    });
                }
                rest = behind;
                self.data_frames += 1;
                let (history, counts) = (&mut self.history, &mut self.counts);
                if let Some(observation) = observe(payload, context, history, counts) {
                    self.observed.push(observation);
                    if self.observed.len() >= MOST_OBSERVED {
                        self.hand_over();
                    }
                }
            }
            if self.ingest.taps.is_open() {
                let taken = frames.len() - rest.len();
                let frames = frames.get(..taken).unwrap_or_default();
                self.ingest.taps.offer(frames, secrets.is_some());
            }
            match self.control(rest, answer)? {
                Some((consumed, finished)) => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    if finished {
                        break true;
                    }
                }
                None => break false,
            }
        };
        if self.watched.is_none() && self.frames.phase() == Phase::Streaming {
            self.watch();
        }
        let consumed = filled.len() - rest.len();
        read_buffer.consume(consumed);
        Ok(finished)
    }

    /// Consumes the control frame at the front. Returns its length and whether the stream is over,
    /// or `None` if the frame is incomplete.
    #[cold]
    fn control(
        &mut self,
        rest: &[u8],
        answer: &mut BytesMut,
    ) -> Result<Option<(usize, bool)>, Error> {
        let (action, consumed) = match self.frames.step(rest)? {
            Step::Incomplete { .. } | Step::Data { .. } => return Ok(None),
            Step::Control { action, consumed } => (action, consumed),
        };
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
            match self.status.is_known() {
                true => self.log_opening("the dnstap stream is open"),
                // Not `info`: an unknown peer can open any number of streams.
                false => debug!("the dnstap stream of an unknown peer is open"),
            }
            self.watch();
        }
        if finished && let Some(watched) = self.watched.take() {
            watched.ended();
        }
        Ok(Some((consumed, finished)))
    }

    /// Peers may connect hundreds of times a second, so these lines are limited.
    fn log_opening(&self, message: &str) {
        if let Some(left_out) = self.ingest.log_limits.openings.allow() {
            info!(suppressed_lines = left_out, "{message}");
        }
    }

    /// From now on, an unexpected end of this stream counts as a loss.
    fn watch(&mut self) {
        let may_speak = self.ingest.peer_acl.secrets.is_none() || self.counts.shows_secret();
        if self.watched.is_none() && self.status.is_known() && may_speak {
            self.watched = Some(self.ingest.loss_tracker.open());
        }
    }

    /// Hands over all observations at once, since each call wakes the controller.
    fn hand_over(&mut self) {
        if self.observed.is_empty() {
            return;
        }
        for observation in &self.observed {
            if let Some(answered_at) = observation.answered_at {
                self.delays.record(observation.at.since(answered_at));
            }
        }
        let observations = self.ingest.connections.observations();
        observations.send(&mut self.observed, self.permit.share(), |full, name| {
            match full {
                Full::Queue => self.lost.queue += 1,
                Full::Share => self.lost.share += 1,
            }
            self.ingest.loss_tracker.keep(name);
        });
    }

    /// Checks again whether the peer is known. Returns whether it became known. The error closes a
    /// peer that was unknown for too long.
    fn refresh_status(&mut self) -> Result<bool, Error> {
        let has_changed = self.status.refresh();
        if has_changed {
            self.on_status_change();
        }
        match self.known_by() {
            Some(known_by) if known_by <= Instant::now() => {
                Err(match self.status.is_refused_on_host_network() {
                    true => Error::HostNetwork,
                    false => Error::UnknownPeer,
                })
            }
            _ => Ok(has_changed && self.status.is_known()),
        }
    }

    fn on_status_change(&mut self) {
        let is_known = self.status.is_known();
        self.permit.set_known(is_known);
        self.history.source = source(self.ingest, &self.permit, is_known);
        self.unknown_since = (!is_known).then(Instant::now);
        if is_known {
            // It could not send before.
            self.times.frame_began = Instant::now();
            if self.frames.phase() == Phase::Streaming {
                self.watch();
            }
            self.log_opening("the peer may stream now: the collector reads its events");
        } else {
            if let Some(watched) = self.watched.take() {
                watched.ended();
            }
            self.log_opening(
                "the peer may not stream any more: the collector reads no more of its events, and closes its stream in a minute"
            );
        }
    }
}

#[cfg(test)]
mod tests;
