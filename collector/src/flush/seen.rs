//! Reports of the readers to the flush task: the probes that came back in streams.

use metrics::counter;
use tokio::{sync::mpsc, time::Instant};

use super::probe::{LONGEST_OTHER, Nonce, ProbeEvent};

/// The most probes waiting for the task; further ones are dropped and counted.
const QUEUE: usize = 4_096;

/// A probe that was seen in a stream. Any client of the DNS server can make one up.
#[derive(Clone, Copy, Debug)]
pub struct SeenProbe {
    pub nonce: Nonce,
    /// The server forwarded it.
    pub is_forwarded: bool,
    /// When its first octet came: all events that the server had buffered came before it.
    pub at: Instant,
}

/// The readers' end. Clones share it. By default nothing is reported.
#[derive(Clone, Debug, Default)]
pub struct ProbeReports(Option<mpsc::Sender<SeenProbe>>);

impl ProbeReports {
    pub fn new() -> (Self, mpsc::Receiver<SeenProbe>) {
        let (reports, seen) = mpsc::channel(QUEUE);
        (Self(Some(reports)), seen)
    }

    /// Whether a frame of this length may hold a probe: a cheap check that most frames fail.
    #[inline]
    pub fn may_be_probe(length: usize) -> bool {
        length > LONGEST_OTHER
    }

    /// Reports the probe in a long frame, if there is one. The frame's first octet came at `began`.
    /// `admits`: whether its `extra` has the secret.
    #[cold]
    pub fn report(&self, frame: &[u8], began: Instant, admits: impl FnOnce(&[u8]) -> bool) {
        let Some(reports) = &self.0 else {
            return;
        };
        let Some(event) = ProbeEvent::read(frame).filter(|event| admits(&event.extra)) else {
            return;
        };
        let seen = SeenProbe {
            nonce: event.nonce,
            is_forwarded: event.is_forwarded,
            at: began,
        };
        if reports.try_send(seen).is_err() {
            counter!("egress_collector_flush_reports_lost_total").increment(1);
        }
    }
}
