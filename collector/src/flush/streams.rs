//! Reports of the readers to the flush task: the open streams, their last traffic, and the probes
//! in them.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use metrics::{Counter, counter};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::probe::{LONGEST_OTHER, ProbeMark, Sight, Template};

/// The most probes waiting for the task; further ones are dropped and counted.
const QUEUE: usize = 4_096;

/// The number of a stream in this process.
pub type StreamId = u64;

pub type Open = Arc<BTreeMap<StreamId, Opened>>;

#[derive(Clone, Debug)]
pub struct Opened {
    /// The sender's address; `None` for a unix socket.
    pub peer: Option<IpAddr>,
    /// Its last traffic.
    pub flow: Flow,
}

/// The times of a stream's last traffic.
#[derive(Clone, Debug)]
pub struct Flow(Arc<FlowInner>);

#[derive(Debug)]
struct FlowInner {
    start: Instant,
    /// Microseconds since the start; 0: none yet.
    flowed: AtomicU64,
    moved: AtomicU64,
}

/// For a stream that opens now.
impl Default for Flow {
    fn default() -> Self {
        Self(Arc::new(FlowInner {
            start: Instant::now(),
            flowed: AtomicU64::new(0),
            moved: AtomicU64::new(0),
        }))
    }
}

impl Flow {
    /// Records traffic. `by_itself`: no probe caused it.
    pub fn has_moved(&self, now: Instant, by_itself: bool) {
        let since = now.duration_since(self.0.start).as_micros();
        let since = u64::try_from(since).unwrap_or(u64::MAX).max(1);
        self.0.moved.store(since, Relaxed);
        if by_itself {
            self.0.flowed.store(since, Relaxed);
        }
    }

    /// The last traffic that no probe caused.
    pub fn flowed(&self) -> Option<Instant> {
        self.at(&self.0.flowed)
    }

    /// The last traffic.
    pub fn moved(&self) -> Option<Instant> {
        self.at(&self.0.moved)
    }

    fn at(&self, since: &AtomicU64) -> Option<Instant> {
        let since = Some(since.load(Relaxed)).filter(|since| *since > 0)?;
        Some(self.0.start + Duration::from_micros(since))
    }
}

/// A probe that was seen in a stream.
#[derive(Clone, Copy, Debug)]
pub struct SeenProbe {
    pub stream: StreamId,
    /// The mark in its padding.
    pub mark: ProbeMark,
    /// The index of its name.
    pub name: usize,
    /// The server forwarded it.
    pub is_forwarded: bool,
    /// The source address of the query.
    pub source: Option<IpAddr>,
    /// When its first octet came: all events that the server had buffered came before it.
    pub at: Instant,
}

/// The readers' end. Clones share it. Without probes there is no reporting.
#[derive(Clone, Debug, Default)]
pub struct Streams(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    names: Arc<[Template]>,
    open: watch::Sender<Open>,
    next: AtomicU64,
    seen: mpsc::Sender<SeenProbe>,
    lost: Counter,
}

/// The task's end.
#[derive(Debug)]
pub struct Told {
    pub open: watch::Receiver<Open>,
    pub seen: mpsc::Receiver<SeenProbe>,
}

impl Streams {
    /// Reports probes for these names.
    pub fn new(names: Arc<[Template]>) -> (Self, Told) {
        let (seen, receiver) = mpsc::channel(QUEUE);
        let open = watch::Sender::new(Open::default());
        let told = Told {
            open: open.subscribe(),
            seen: receiver,
        };
        let shared = Shared {
            names,
            open,
            next: AtomicU64::new(0),
            seen,
            lost: counter!("egress_collector_flush_reports_lost_total"),
        };
        (Self(Some(Arc::new(shared))), told)
    }

    /// Registers the stream of a known peer with this address, or over a unix socket. It is open
    /// until the value is dropped.
    pub fn open(&self, peer: Option<IpAddr>) -> Stream {
        let flow = Flow::default();
        let Some(shared) = self.0.clone() else {
            return Stream(None);
        };
        let id = shared.next.fetch_add(1, Relaxed);
        let opened = Opened {
            peer,
            flow: flow.clone(),
        };
        shared.open.send_modify(|open| {
            Arc::make_mut(open).insert(id, opened);
        });
        Stream(Some(OpenStream { shared, id, flow }))
    }
}

/// A stream, as its reader has it.
#[derive(Debug, Default)]
pub struct Stream(Option<OpenStream>);

#[derive(Debug)]
struct OpenStream {
    shared: Arc<Shared>,
    id: StreamId,
    flow: Flow,
}

impl Stream {
    /// Whether a frame of this length may hold a probe: a cheap check that most frames fail.
    #[inline]
    pub fn may_be_probe(length: usize) -> bool {
        length > LONGEST_OTHER
    }

    /// Whether an incomplete frame may be a probe.
    pub fn begins_probe(frame: &[u8]) -> bool {
        let length = frame.first_chunk().copied().map(u32::from_be_bytes);
        length.is_some_and(|length| Self::may_be_probe(length as usize))
    }

    /// Looks for a probe in a long frame, whose first octet came at `began`. `admits`: whether its
    /// `extra` has the secret.
    #[cold]
    pub fn look(&self, frame: &[u8], began: Instant, admits: impl FnOnce(&[u8]) -> bool) {
        let Some(OpenStream { shared, id, .. }) = &self.0 else {
            return;
        };
        let Some(sight) = Sight::read(frame).filter(|sight| admits(&sight.extra)) else {
            return;
        };
        let Some(name) = shared.names.iter().position(|name| name.is_of(&sight)) else {
            return;
        };
        let seen = SeenProbe {
            stream: *id,
            mark: sight.mark,
            name,
            is_forwarded: sight.is_forwarded,
            source: sight.source,
            at: began,
        };
        if shared.seen.try_send(seen).is_err() {
            shared.lost.increment(1);
        }
    }

    /// Records traffic. `by_itself`: no probe caused it.
    pub fn has_moved(&self, now: Instant, by_itself: bool) {
        if let Some(watched) = &self.0 {
            watched.flow.has_moved(now, by_itself);
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.shared.open.send_modify(|open| {
            Arc::make_mut(open).remove(&self.id);
        });
    }
}
