//! One dnstap stream: handshake, frames, limits.

mod deadlines;
mod flush;
mod unknown;

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

use self::unknown::Unknown;
use super::{
    Ingest,
    connection_limits::{ConnectionPermit, Drops},
    error::Error,
    loss_tracker::StreamWatch,
    metrics::{Counts, Outcome},
    peer_acl::PeerStatus,
    pipeline::{Context, StreamHistory, observe},
    queue::Full,
    read_buffer::ReadBuffer,
};
use crate::{
    flush::streams::Stream,
    new_names::NewNames,
    observation::{Observation, Provenance},
    observe::answer_cache::AnswerCache,
};

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
pub(super) async fn read(
    stream: impl AsyncRead + AsyncWrite,
    permit: ConnectionPermit,
    standing: PeerStatus,
    ingest: &Ingest,
    shutdown: CancellationToken,
) -> Result<u64, Error> {
    let mut stream = pin!(stream);
    let mut reader = Reader::new(permit, standing, ingest);
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
            read = reading => Some(read.map_err(Error::Read)?),
            () = &mut cancelled => return Ok(reader.data_frames),
            () = reader.standing.changed() => None,
            () = &mut timer, if rings_at.is_some() => {
                rings_at = None;
                None
            }
        };
        // Checked after every event, so that the limits bind a peer that never pauses too.
        reader.look_at_standing()?;
        let Some(read) = read else {
            reader.look_at_time(partial)?;
            continue;
        };
        if read == 0 {
            reader.frames.end(read_buffer.filled())?;
            return Ok(reader.data_frames);
        }
        received.increment(read as u64);
        let (offset, began) = (reader.frames.offset(), read_buffer.filled().is_empty());
        read_buffer.add(read);
        let frames = reader.data_frames;
        reader.times.last_read = Instant::now();
        let finished = reader.consume(&mut read_buffer, &mut answer, began);
        if reader.standing.may_prove_itself() {
            reader.look_for_secret();
        }
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
        if let Some(pause) = reader.pause(frames) {
            let rested = shutdown.run_until_cancelled(reader.rest(pause)).await;
            rested.unwrap_or(Ok(()))?;
        }
    }
}

struct Reader<'a> {
    ingest: &'a Ingest,
    permit: ConnectionPermit,
    standing: PeerStatus,
    /// The stream in the view of the flush task. Streams of unknown peers are hidden from it.
    probed: Stream,
    unknown: Unknown,
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

/// The stream for the flush task, and the source of its observations. Unknown peers have no number
/// of their own: any host may connect, and the numbers are few.
fn known(ingest: &Ingest, permit: &ConnectionPermit, is_known: bool) -> (Stream, Provenance) {
    match is_known {
        true => {
            let probed = ingest.probed.open(permit.address());
            (probed, ingest.peer_ids.of(permit.peer()))
        }
        false => (Stream::default(), Provenance::STREAM),
    }
}

impl<'a> Reader<'a> {
    fn new(permit: ConnectionPermit, standing: PeerStatus, ingest: &'a Ingest) -> Self {
        let now = Instant::now();
        let is_known = standing.is_known();
        let (probed, source) = known(ingest, &permit, is_known);
        Self {
            ingest,
            probed,
            history: StreamHistory::of_stream(source),
            permit,
            unknown: Unknown::since((!is_known).then_some(now)),
            standing,
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

    /// Consumes every whole frame of the buffer, in place. Returns whether the stream is over.
    /// `begins`: the first frame began with the last read.
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
            remembered: if self.standing.is_known() {
                &self.ingest.remembered
            } else {
                &AnswerCache::default()
            },
            own: &self.ingest.own,
            secrets: secrets.as_deref(),
            // An unknown peer could spend the budgets of clients.
            new_names: if self.standing.is_known() {
                &self.ingest.new_names
            } else {
                &NewNames::default()
            },
        };
        let filled = read_buffer.filled();
        let mut rest = filled;
        // A frame that may be a probe began with this read, so the probe caused the read.
        let mut is_pushed = false;
        let finished = loop {
            let frames = rest;
            while let Some((payload, behind)) = self.frames.data(rest) {
                if Stream::may_be_probe(payload.len()) {
                    let begins = begins || rest.len() < filled.len();
                    is_pushed |= begins;
                    let began = if begins {
                        self.times.last_read
                    } else {
                        self.times.frame_began
                    };
                    let secrets = secrets.as_deref();
                    self.probed.look(payload, began, |extra| {
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
            if self.ingest.taps.is_open() && self.standing.is_known() {
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
        is_pushed |= (begins || rest.len() < filled.len()) && Stream::begins_probe(rest);
        self.probed.has_moved(self.times.last_read, !is_pushed);
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
            match self.standing.is_known() {
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
        if self.watched.is_none() && self.standing.is_known() && may_speak {
            self.watched = Some(self.ingest.loss_tracker.open(self.permit.peer()));
        }
    }

    /// Hands over all observations at once, since each call wakes the controller.
    fn hand_over(&mut self) {
        if self.observed.is_empty() {
            return;
        }
        if !self.standing.is_known() {
            let most = self.ingest.limits.held;
            self.lost.unknown += self.unknown.hold(&mut self.observed, most);
            return;
        }
        for observation in &self.observed {
            if let Some(answered_at) = observation.answered_at {
                let delay = observation.at.since(answered_at);
                self.delays.record(delay);
                self.permit.tell_lag(delay);
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

    /// Checks again whether the peer is known, and if so hands over the observations that were
    /// held. The error closes a peer that was unknown for too long.
    fn look_at_standing(&mut self) -> Result<(), Error> {
        let was_awaited = self.standing.awaits_secret();
        if self.standing.refresh() {
            self.standing_changed();
        } else if was_awaited && !self.standing.awaits_secret() {
            self.unknown.since = Some(Instant::now());
        }
        match self.known_by() {
            Some(known_by) if known_by <= Instant::now() => {
                if !self.standing.is_refused_on_host_network() {
                    return Err(Error::UnknownPeer);
                }
                self.standing.refuse();
                Err(Error::HostNetwork)
            }
            _ => Ok(()),
        }
    }

    /// Checks whether the last read showed the required secret.
    #[cold]
    fn look_for_secret(&mut self) {
        if self.counts.shows_secret() {
            if self.standing.show_secret() {
                self.standing_changed();
            }
        } else if !self.unknown.lacks_secret && self.counts.pending(Outcome::WrongSecret) > 0 {
            // The deadline starts here: a DNS server without clients sends no event, so it cannot
            // show the secret earlier.
            self.unknown.lacks_secret = true;
            self.unknown.since = Some(Instant::now());
        }
    }

    fn standing_changed(&mut self) {
        let is_known = self.standing.is_known();
        self.permit.set_known(is_known);
        (self.probed, self.history.source) = known(self.ingest, &self.permit, is_known);
        self.unknown.since = (!is_known).then(Instant::now);
        if is_known {
            self.unknown.release(&mut self.observed);
            // The observations were made while the source was unknown.
            for observation in &mut self.observed {
                observation.source = self.history.source;
            }
            self.hand_over();
            // Watched before the flush, which reports the frames: these must count as those of a
            // known peer.
            if self.frames.phase() == Phase::Streaming {
                self.watch();
            }
            self.flush();
            if std::mem::take(&mut self.unknown.has_lost) {
                self.ingest.loss_tracker.gap("unknown_peer");
            }
            self.log_opening(
                "an EndpointSlice lists the peer now: its events count, also those held",
            );
        } else {
            if let Some(watched) = self.watched.take() {
                watched.ended();
            }
            self.log_opening(
                "no EndpointSlice lists the peer any more: the collector closes its stream, unless one lists it within --unknown-peer-wait"
            );
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if self.unknown.has_any() {
            self.ingest.loss_tracker.unjudged(self.permit.peer());
        }
    }
}

#[cfg(test)]
mod tests;
