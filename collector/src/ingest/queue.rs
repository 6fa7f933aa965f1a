//! The queue between the readers and the owner of the statuses, bounded in bytes; no peer may fill more than a part of it.

use std::{mem::size_of, net::IpAddr, sync::Arc};

use proto::api::DnsName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::observation::Observation;

/// The part of the queue that one peer may fill is this fraction of it.
const PEER_SHARE: usize = 4;

/// An observation that waits, and the room it takes.
#[derive(Debug)]
struct Waiting {
    observation: Observation,
    _room: [OwnedSemaphorePermit; 2],
}

/// Why an observation is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Full {
    /// The queue.
    Queue,
    /// The part of it that is the peer's.
    Share,
}

/// The readers' end. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Sender {
    waiting: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    share: usize,
}

/// What one peer may fill of the queue. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Share {
    room: Arc<Semaphore>,
    size: usize,
}

impl Share {
    /// Whether nothing of the peer's waits.
    pub(super) fn is_unused(&self) -> bool {
        self.room.available_permits() == self.size
    }
}

/// The owner's end.
#[derive(Debug)]
pub struct Receiver {
    waiting: mpsc::Receiver<Waiting>,
    batch: Vec<Waiting>,
}

/// A queue for so many bytes of observations. One of an answer with a few addresses takes about 200 bytes, and one with the most
/// there can be 24 kB.
pub fn channel(bytes: usize) -> (Sender, Receiver) {
    let smallest = size_of::<Waiting>();
    let bytes = bytes.clamp(smallest, Semaphore::MAX_PERMITS);
    let (sender, receiver) = mpsc::channel(bytes.div_ceil(smallest));
    let sender = Sender {
        waiting: sender,
        room: Arc::new(Semaphore::new(bytes)),
        share: (bytes / PEER_SHARE).max(smallest),
    };
    let receiver = Receiver {
        waiting: receiver,
        batch: Vec::new(),
    };
    (sender, receiver)
}

/// About how much memory it takes, in bytes.
pub(super) fn size(observation: &Observation) -> usize {
    let addresses = &observation.addresses;
    let spilled = if addresses.spilled() {
        addresses.capacity() * size_of::<(IpAddr, u32)>()
    } else {
        0
    };
    size_of::<Waiting>() + spilled + observation.name.as_str().len()
}

impl Sender {
    /// What a peer may fill.
    pub(super) fn share(&self) -> Share {
        Share {
            room: Arc::new(Semaphore::new(self.share)),
            size: self.share,
        }
    }

    /// Hands an observation over, unless there is no room: then its name comes back. Never waits.
    pub(super) fn try_send(
        &self,
        observation: Observation,
        share: &Share,
    ) -> Result<(), (Full, DnsName)> {
        let size = u32::try_from(size(&observation)).unwrap_or(u32::MAX);
        let take = |room: &Arc<Semaphore>| Arc::clone(room).try_acquire_many_owned(size);
        let Ok(of_share) = take(&share.room) else {
            return Err((Full::Share, observation.name));
        };
        let Ok(of_queue) = take(&self.room) else {
            return Err((Full::Queue, observation.name));
        };
        let waiting = Waiting {
            observation,
            _room: [of_share, of_queue],
        };
        self.waiting.try_send(waiting).map_err(|error| {
            let waiting = error.into_inner();
            (Full::Queue, waiting.observation.name)
        })
    }
}

impl Receiver {
    /// Waits for observations and appends at most `limit` of them to `batch`. Returns how many; 0 if no reader is left. May be
    /// cancelled.
    pub async fn recv_many(&mut self, batch: &mut Vec<Observation>, limit: usize) -> usize {
        let taken = self.waiting.recv_many(&mut self.batch, limit).await;
        batch.extend(self.batch.drain(..).map(|waiting| waiting.observation));
        taken
    }

    /// The next observation; nothing if no reader is left.
    #[cfg(test)]
    pub(super) async fn recv(&mut self) -> Option<Observation> {
        self.waiting.recv().await.map(|waiting| waiting.observation)
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proto::api::Family;
    use runtime::clock::Timestamp;

    use super::*;

    pub(in crate::ingest) fn observation(addresses: u32) -> Observation {
        let ip = |i: u32| std::net::Ipv4Addr::from(0xcb00_7100 + i).into();
        Observation {
            name: DnsName::parse("www.example.com").unwrap(),
            family: Family::V4,
            addresses: (0..addresses).map(|i| (ip(i), 300)).collect(),
            at: Timestamp::from_millis(0),
            answered_at: None,
            client: None,
            by_leader: false,
            truncated: false,
            source: crate::observation::Source::STREAM,
        }
    }

    #[tokio::test]
    async fn one_peer_fills_its_share_and_others_still_find_room() {
        let (sender, mut receiver) = channel(64 << 10);
        let (flooding, quiet) = (sender.share(), sender.share());
        let flood = |i| {
            (0..i).find_map(|_| {
                let sent = sender.try_send(observation(1), &flooding);
                sent.err().map(|(full, _)| full)
            })
        };
        assert_eq!(flood(10_000), Some(Full::Share));
        for _ in 0..10 {
            sender.try_send(observation(1), &quiet).unwrap();
        }
        let mut batch = Vec::new();
        let taken = receiver.recv_many(&mut batch, 10_000).await;
        let share = (16 << 10) / size(&observation(1));
        assert_eq!(taken, share + 10);
        assert_eq!(batch.len(), taken);
        // What was taken has left its room.
        assert_eq!(flood(share), None);
    }

    #[test]
    fn long_answers_take_the_room_of_many() {
        let bytes = 1 << 20;
        let (sender, _receiver) = channel(bytes);
        let shares: Vec<_> = (0..PEER_SHARE + 1).map(|_| sender.share()).collect();
        let mut sent = 0;
        for share in &shares {
            while sender.try_send(observation(1000), share).is_ok() {
                sent += 1;
            }
        }
        let held = sent * 1000 * size_of::<(IpAddr, u32)>();
        assert!((bytes / 2..=bytes).contains(&held), "{held}");
        let refused = sender.try_send(observation(1000), &sender.share());
        assert_eq!(refused.unwrap_err().0, Full::Queue);
    }
}
