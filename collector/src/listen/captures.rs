//! Copies of the events for captures, and for windows of answers.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use metrics::counter;
use parking_lot::Mutex;
use prost::Message as _;
use proto::dnstap;
use tokio::sync::mpsc;

/// The most captures at once.
const MOST: usize = 4;

/// Reads that wait for the subscriber, each at most as large as a connection's read buffer.
const QUEUE: usize = 64;

/// The open captures. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CaptureSubscribers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The number of captures: without any, a reader pays for one atomic load only.
    open: AtomicUsize,
    senders: Mutex<Vec<Sender>>,
}

#[derive(Debug)]
struct Sender {
    frames: mpsc::Sender<Bytes>,
    lost: Arc<AtomicU64>,
}

/// An open capture. It ends when its receiver is dropped.
#[derive(Debug)]
pub struct Capture {
    /// The data frames of all streams with their lengths, in order of arrival.
    pub frames: mpsc::Receiver<Bytes>,
    /// The bytes that found the queue full.
    pub lost: Arc<AtomicU64>,
}

impl CaptureSubscribers {
    /// Begins a capture, or returns `None` if `MOST` are open.
    pub fn open(&self) -> Option<Capture> {
        let (sender, frames) = mpsc::channel(QUEUE);
        let lost = Arc::<AtomicU64>::default();
        let mut senders = self.0.senders.lock();
        senders.retain(|sender| !sender.frames.is_closed());
        let room = senders.len() < MOST;
        if room {
            senders.push(Sender {
                frames: sender,
                lost: Arc::clone(&lost),
            });
        }
        self.0.open.store(senders.len(), Ordering::Relaxed);
        room.then_some(Capture { frames, lost })
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.open.load(Ordering::Relaxed) > 0
    }

    /// Passes whole data frames with their lengths to the captures. `secret`: removes the `extra`
    /// field, which holds the shared secret. Never waits.
    pub(crate) fn offer(&self, frames: &[u8], secret: bool) {
        let frames = if secret {
            without_extra(frames)
        } else {
            Bytes::copy_from_slice(frames)
        };
        if frames.is_empty() {
            return;
        }
        let mut senders = self.0.senders.lock();
        senders.retain(|sender| {
            let sent = sender.frames.try_send(frames.clone());
            if let Err(mpsc::error::TrySendError::Full(frames)) = &sent {
                let lost = frames.len() as u64;
                sender.lost.fetch_add(lost, Ordering::Relaxed);
                counter!("egress_collector_capture_lost_bytes_total").increment(lost);
            }
            !matches!(sent, Err(mpsc::error::TrySendError::Closed(_)))
        });
        self.0.open.store(senders.len(), Ordering::Relaxed);
    }
}

/// The payloads of whole frames with their lengths.
pub(crate) fn payloads(frames: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = frames;
    iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        let length = u32::from_be_bytes(*length) as usize;
        let (payload, behind) = behind.split_at_checked(length)?;
        rest = behind;
        Some(payload)
    })
}

/// Replaces each character of `extra` with `x`. A frame that cannot be decoded may hold the secret
/// anywhere, so it is left out.
fn without_extra(frames: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(frames.len());
    for payload in payloads(frames) {
        if let Ok(mut event) = dnstap::pb::Dnstap::decode(payload) {
            if let Some(extra) = &mut event.extra {
                extra.fill(b'x');
            }
            let payload = event.encode_to_vec();
            out.extend((payload.len() as u32).to_be_bytes());
            out.extend(payload);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use proto::dnstap::pb;

    use super::*;

    fn frames(payloads: &[&[u8]]) -> Vec<u8> {
        let mut frames = Vec::new();
        for payload in payloads {
            frames.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
            frames.extend_from_slice(payload);
        }
        frames
    }

    #[test]
    fn there_are_so_many_captures_and_one_that_ends_makes_room() {
        let captures = CaptureSubscribers::default();
        assert!(!captures.is_open());
        let mut open: Vec<_> = (0..MOST).map(|_| captures.open().unwrap()).collect();
        assert!(captures.open().is_none());
        open.pop();
        assert!(captures.open().is_some());
        drop(open);
        captures.offer(&frames(&[b"x"]), false);
        assert!(!captures.is_open());
    }

    #[tokio::test]
    async fn secret_is_crossed_out_and_nothing_else() {
        let secret = b"4kq0J2sVx9dTQm7Yb1cWnA";
        let event = |extra: &[u8]| {
            let event = pb::Dnstap {
                r#type: 1,
                identity: Some(b"coredns".to_vec()),
                extra: Some(extra.to_vec()),
                message: Some(pb::Message {
                    r#type: 6,
                    response_message: Some(vec![7; 40]),
                    ..pb::Message::default()
                }),
                ..pb::Dnstap::default()
            };
            event.encode_to_vec()
        };
        let captures = CaptureSubscribers::default();
        let mut capture = captures.open().unwrap().frames;
        let unreadable = [b"\xff\xff", secret.as_slice()].concat();
        captures.offer(&frames(&[&event(secret), &unreadable, &event(b"")]), true);
        let crossed = event(&[b'x'; 22]);
        assert_eq!(
            capture.recv().await.unwrap(),
            frames(&[&crossed, &event(b"")])
        );
    }
}
