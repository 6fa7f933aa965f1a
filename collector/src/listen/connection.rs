//! One dnstap stream: handshake, frames, limits.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    time::Duration,
};

use bytes::BytesMut;
use metrics::{Histogram, counter, histogram};
use proto::{
    dnstap,
    frame_stream::{Action, Limits, Phase, Step, StreamReader},
};
use runtime::reload::Reloaded;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    task::yield_now,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    flush::ProbeReports,
    listen::{
        Ingest,
        connection_table::{ConnectionPermit, Drops},
        error::Error,
        metrics::{Counts, Outcome},
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

/// The time from the connection to START, and for the peer to take an answer. A TLS handshake before it may take as long again.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// The longest time from a frame's first byte to its last.
const FRAME: Duration = Duration::from_secs(30);

/// How long an unknown peer may stay connected: as long as an EndpointSlice of a new pod may take.
const UNKNOWN: Duration = Duration::from_secs(60);

/// The size of the read buffer in bytes, more than the largest frame.
const BUFFER: usize = 128 << 10;

/// After shutdown, how long a stream with data in its socket is still read.
const DRAIN: Duration = Duration::from_secs(1);

/// How long a busy stream is read before its task yields. A new peer waits for ACCEPT meanwhile,
/// and CoreDNS sends nothing before ACCEPT. tokio's own budget would let 128 reads pass.
const MAX_BUSY: Duration = Duration::from_millis(1);

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
    let mut read_buffer = ReadBuffer::new(BUFFER);
    let mut answer = BytesMut::new();
    let mut draining = None;
    let mut busy = Duration::ZERO;
    let mut cancelled = pin!(shutdown.cancelled());
    let (mut timer, mut timer_at) = (pin!(sleep_until(reader.opened)), None);
    loop {
        if shutdown.is_cancelled() && draining.get_or_insert_with(Instant::now).elapsed() > DRAIN {
            return Ok(reader.data_frames);
        }
        let partial = !read_buffer.filled().is_empty();
        // Most reads move the deadline later. An early wake-up now and then costs less than setting
        // the timer for each read.
        if let Some(deadline) = reader.deadline(partial)
            && timer_at.is_none_or(|at| deadline < at)
        {
            timer.as_mut().reset(deadline);
            timer_at = Some(deadline);
        }
        let mut reading = pin!(stream.read(read_buffer.room()));
        let reading = poll_fn(|context| {
            let read = reading.as_mut().poll(context);
            if read.is_pending() {
                // The task yields here, so it starts anew.
                busy = Duration::ZERO;
            }
            read
        });
        let read = tokio::select! {
            biased;
            read = reading, if reader.reads() => Some(read.map_err(Error::Read)?),
            () = &mut cancelled => return Ok(reader.data_frames),
            () = reader.status.changed() => None,
            () = &mut timer, if timer_at.is_some() => {
                timer_at = None;
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
            None => match reader.read_deadline(partial) {
                Some((deadline, error)) if deadline <= Instant::now() => return Err(error),
                _ => continue,
            },
        }
        reader.last_read = Instant::now();
        let finished = reader.consume(&mut read_buffer, &mut answer, began);
        reader.hand_over();
        reader.report();
        busy += reader.last_read.elapsed();
        if began || reader.frames.offset() != offset {
            reader.frame_began = reader.last_read;
        }
        if !answer.is_empty() {
            // A control frame fits every socket buffer, so a peer that does not read it is broken.
            let sent = async {
                stream.write_all_buf(&mut answer).await?;
                stream.flush().await
            };
            timeout(HANDSHAKE, sent)
                .await
                .map_err(|elapsed| Error::Write(elapsed.into()))?
                .map_err(Error::Write)?;
        }
        if finished? {
            return Ok(reader.data_frames);
        }
        if busy > MAX_BUSY {
            busy = Duration::ZERO;
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
    /// Losses since the last report.
    lost: Drops,
    /// The data frames of earlier reports.
    reported_frames: u64,
    /// Events without a DNS message were logged.
    is_no_message_logged: bool,
    opened: Instant,
    frame_began: Instant,
    last_read: Instant,
}

/// The source of a stream's observations. Unknown peers have no number of their own: any host may
/// connect, and the numbers are few.
fn source(ingest: &Ingest, permit: &ConnectionPermit, is_known: bool) -> Provenance {
    if is_known {
        ingest.peer_ids.of(permit.peer())
    } else {
        Provenance::STREAM
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
            frames: StreamReader::new(dnstap::CONTENT_TYPE, Limits::default()),
            watched: None,
            counts: Counts::default(),
            observed: Vec::new(),
            delays: histogram!("egress_collector_observation_delay_seconds"),
            data_frames: 0,
            lost: Drops::default(),
            reported_frames: 0,
            is_no_message_logged: false,
            opened: now,
            frame_began: now,
            last_read: now,
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
        let secrets = self.ingest.peer_acl.secrets.as_ref().map(Reloaded::load);
        let context = Context {
            names: &names,
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
                        self.last_read
                    } else {
                        self.frame_began
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
            if self.ingest.captures.is_open() {
                let taken = frames.len() - rest.len();
                let frames = frames.get(..taken).unwrap_or_default();
                self.ingest.captures.offer(frames, secrets.is_some());
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
            control.encode(answer);
        }
        if self.frames.phase() == Phase::Streaming {
            if self.status.is_known() {
                self.log_opening("the dnstap stream is open");
            } else {
                // Not `info`: an unknown peer can open any number of streams.
                debug!("the dnstap stream of an unknown peer is open");
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
        if let Some(suppressed) = self.ingest.log_limits.openings.allow() {
            info!(suppressed_lines = suppressed, "{message}");
        }
    }

    /// From now on, an unexpected end of this stream counts as a loss.
    fn watch(&mut self) {
        let shows_secret = self.ingest.peer_acl.secrets.is_none() || self.counts.shows_secret();
        if self.watched.is_none() && self.status.is_known() && shows_secret {
            self.watched = Some(self.ingest.loss_tracker.open());
        }
    }

    /// Hands over all observations at once, since each call wakes the controller.
    fn hand_over(&mut self) {
        if self.observed.is_empty() {
            return;
        }
        for observation in &self.observed {
            if let Some(server_time) = observation.server_time {
                self.delays.record(observation.at.since(server_time));
            }
        }
        let observations = self.ingest.connections.observations();
        observations.send(&mut self.observed, self.permit.share(), |full, name| {
            match full {
                Full::Queue => self.lost.queue += 1,
                Full::Share => self.lost.share += 1,
            }
            self.ingest.loss_tracker.add(name);
        });
    }

    /// Checks again whether the peer is known. Returns whether it became known. The error closes a
    /// peer that was unknown for too long.
    fn refresh_status(&mut self) -> Result<bool, Error> {
        let has_changed = self.status.refresh();
        if has_changed {
            self.on_status_change();
        }
        if self
            .known_by()
            .is_none_or(|deadline| Instant::now() < deadline)
        {
            Ok(has_changed && self.status.is_known())
        } else if self.status.is_refused_on_host_network() {
            Err(Error::HostNetwork)
        } else {
            Err(Error::UnknownPeer)
        }
    }

    fn on_status_change(&mut self) {
        let is_known = self.status.is_known();
        self.permit.set_known(is_known);
        self.history.source = source(self.ingest, &self.permit, is_known);
        self.unknown_since = (!is_known).then(Instant::now);
        if is_known {
            // It could not send before.
            self.frame_began = Instant::now();
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

    /// The deadline of the next read, and the error when it passes. `partial`: a frame has begun.
    fn read_deadline(&self, partial: bool) -> Option<(Instant, Error)> {
        if self.frames.phase() != Phase::Streaming {
            let error = Error::HandshakeTimeout(HANDSHAKE);
            return Some((self.opened + HANDSHAKE, error));
        }
        let error = Error::FrameTimeout {
            offset: self.frames.offset(),
            limit: FRAME,
        };
        (partial && self.reads()).then_some((self.frame_began + FRAME, error))
    }

    /// When an unknown peer must be known.
    fn known_by(&self) -> Option<Instant> {
        Some(self.unknown_since? + UNKNOWN)
    }

    /// The earlier one of the deadlines of the next read and of an unknown peer.
    fn deadline(&self, partial: bool) -> Option<Instant> {
        let read_deadline = self.read_deadline(partial).map(|(deadline, _)| deadline);
        read_deadline.into_iter().chain(self.known_by()).min()
    }

    /// Adds the counts of a read to the metrics, and logs its bad events once for all its frames.
    fn report(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        let frames = self.data_frames - self.reported_frames;
        self.reported_frames = self.data_frames;
        self.permit.count(frames, lost);
        for (count, reason) in [(lost.queue, "queue"), (lost.share, "peer_share")] {
            if count > 0 {
                counter!("egress_collector_observations_lost_total", "reason" => reason)
                    .increment(count);
            }
        }
        let unreadable =
            self.counts.pending(Outcome::BadEvent) + self.counts.pending(Outcome::BadMessage);
        if unreadable > 0
            && let Some(suppressed) = self.ingest.log_limits.bad_events.allow()
        {
            warn!(
                events = unreadable,
                before_byte = self.frames.offset(),
                suppressed_lines = suppressed,
                "events that are no dnstap, or hold no DNS response"
            );
        }
        if !self.is_no_message_logged
            && self.counts.pending(Outcome::NoMessage) > 0
            && let Some(suppressed) = self.ingest.log_limits.no_message.allow()
        {
            self.is_no_message_logged = true;
            warn!(
                suppressed_lines = suppressed,
                "events without a DNS message: the sender's `dnstap` line lacks `full`"
            );
        }
        self.counts.flush();
    }
}

#[cfg(test)]
pub(super) mod tests;
