//! The queue between the readers and the publisher, bounded in bytes. No peer may fill more than a
//! share of it.

use std::{mem::size_of, net::IpAddr, sync::Arc, vec};

use proto::api::DnsName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use names::Observation;

/// One peer may fill the queue's size divided by this.
const PEER_SHARE: usize = 4;

#[derive(Debug)]
struct QueuedObservations {
    observations: Vec<Observation>,
    _permits: [OwnedSemaphorePermit; 2],
}

/// Why an observation is dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Full {
    Queue,
    /// The peer's share of the queue.
    Share,
}

/// The readers' end. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Sender {
    waiting: mpsc::UnboundedSender<QueuedObservations>,
    /// One permit for each free byte.
    free: Arc<Semaphore>,
    share: usize,
}

/// One peer's share of the queue. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    free: Arc<Semaphore>,
    size: usize,
}

impl Share {
    /// Whether none of the peer's observations wait.
    pub(crate) fn is_unused(&self) -> bool {
        self.free.available_permits() == self.size
    }
}

/// The publisher's end.
#[derive(Debug)]
pub struct Receiver {
    waiting: mpsc::UnboundedReceiver<QueuedObservations>,
    /// The rest of the last batch.
    rest: vec::IntoIter<Observation>,
}

/// A queue for so many bytes of observations. A typical observation with a few addresses takes
/// about 200 bytes, the largest 24 kB.
pub fn channel(bytes: usize) -> (Sender, Receiver) {
    // The semaphores bound it.
    let (sender, receiver) = mpsc::unbounded_channel();
    let sender = Sender {
        waiting: sender,
        free: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))),
        share: bytes / PEER_SHARE,
    };
    let receiver = Receiver {
        waiting: receiver,
        rest: Vec::new().into_iter(),
    };
    (sender, receiver)
}

/// The approximate memory of an observation in bytes.
pub(crate) fn size(observation: &Observation) -> usize {
    let addresses = &observation.addresses;
    let spilled = if addresses.spilled() {
        addresses.capacity() * size_of::<(IpAddr, u32)>()
    } else {
        0
    };
    size_of::<QueuedObservations>()
        + size_of::<Observation>()
        + spilled
        + observation.name.as_str().len()
}

impl Sender {
    /// A new peer's share.
    pub(crate) fn share(&self) -> Share {
        Share {
            free: Arc::new(Semaphore::new(self.share)),
            size: self.share,
        }
    }

    /// Queues the observations: all together if they fit, otherwise those that fit. `lost` gets the
    /// names of the others. Never waits. Empties `observations`.
    pub(crate) fn send(
        &self,
        observations: &mut Vec<Observation>,
        share: &Share,
        mut lost: impl FnMut(Full, DnsName),
    ) {
        if let Ok(permits) = self.permits(observations.iter().map(size).sum(), share) {
            self.enqueue(std::mem::take(observations), permits);
            return;
        }
        for observation in observations.drain(..) {
            match self.permits(size(&observation), share) {
                Ok(permits) => self.enqueue(vec![observation], permits),
                Err(full) => lost(full, observation.name),
            }
        }
    }

    fn permits(&self, bytes: usize, share: &Share) -> Result<[OwnedSemaphorePermit; 2], Full> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let take = |free: &Arc<Semaphore>| Arc::clone(free).try_acquire_many_owned(bytes);
        let of_share = take(&share.free).map_err(|_| Full::Share)?;
        let of_queue = take(&self.free).map_err(|_| Full::Queue)?;
        Ok([of_share, of_queue])
    }

    fn enqueue(&self, observations: Vec<Observation>, permits: [OwnedSemaphorePermit; 2]) {
        // It fails if the publisher has ended, which reports the reason itself.
        let _ = self.waiting.send(QueuedObservations {
            observations,
            _permits: permits,
        });
    }
}

impl Receiver {
    /// Waits for observations and appends at most `limit` of them to `batch`. Returns how many; 0
    /// if every sender is gone. Cancel safe.
    pub async fn recv_many(&mut self, batch: &mut Vec<Observation>, limit: usize) -> usize {
        if self.rest.as_slice().is_empty() {
            let Some(first) = self.waiting.recv().await else {
                return 0;
            };
            self.rest = first.observations.into_iter();
        }
        let before = batch.len();
        let full = before + limit;
        batch.extend(self.rest.by_ref().take(limit));
        while batch.len() < full
            && let Ok(next) = self.waiting.try_recv()
        {
            self.rest = next.observations.into_iter();
            batch.extend(self.rest.by_ref().take(full - batch.len()));
        }
        batch.len() - before
    }

    /// The next observation, or `None` if every sender is gone.
    #[cfg(test)]
    pub(crate) async fn recv(&mut self) -> Option<Observation> {
        let mut batch = Vec::new();
        self.recv_many(&mut batch, 1).await;
        batch.pop()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proto::api::Family;
    use runtime::clock::Timestamp;

    use super::*;

    pub(crate) fn observation(addresses: u32) -> Observation {
        let ip = |i: u32| std::net::Ipv4Addr::from(0xcb00_7100 + i).into();
        Observation {
            name: DnsName::parse("www.example.com").unwrap(),
            family: Family::V4,
            addresses: (0..addresses).map(|i| (ip(i), 300)).collect(),
            at: Timestamp::from_millis(0),
            server_time: None,
            answered_at: Timestamp::from_millis(0),
            client: None,
            truncated: false,
            source: names::Provenance::STREAM,
        }
    }

    pub(crate) fn send(
        sender: &Sender,
        observation: Observation,
        share: &Share,
    ) -> Result<(), Full> {
        let mut lost = None;
        sender.send(&mut vec![observation], share, |full, _| lost = Some(full));
        lost.map_or(Ok(()), Err)
    }

    #[tokio::test]
    async fn one_peer_fills_its_share_and_others_still_find_room() {
        let (sender, mut receiver) = channel(64 << 10);
        let (flooding, quiet) = (sender.share(), sender.share());
        let flood = |i| {
            (0..i).find_map(|_| {
                let sent = send(&sender, observation(1), &flooding);
                sent.err()
            })
        };
        assert_eq!(flood(10_000), Some(Full::Share));
        for _ in 0..10 {
            send(&sender, observation(1), &quiet).unwrap();
        }
        let mut batch = Vec::new();
        let taken = receiver.recv_many(&mut batch, 10_000).await;
        let share = (16 << 10) / size(&observation(1));
        assert_eq!(taken, share + 10);
        assert_eq!(batch.len(), taken);
        // Taken observations have freed their room.
        assert_eq!(flood(share), None);
    }

    #[test]
    fn long_answers_take_the_room_of_many() {
        let bytes = 1 << 20;
        let (sender, _receiver) = channel(bytes);
        let shares: Vec<_> = (0..PEER_SHARE + 1).map(|_| sender.share()).collect();
        let mut sent = 0;
        for share in &shares {
            while send(&sender, observation(1000), share).is_ok() {
                sent += 1;
            }
        }
        let held = sent * 1000 * size_of::<(IpAddr, u32)>();
        assert!((bytes / 2..=bytes).contains(&held), "{held}");
        let refused = send(&sender, observation(1000), &sender.share());
        assert_eq!(refused.unwrap_err(), Full::Queue);
    }
}
