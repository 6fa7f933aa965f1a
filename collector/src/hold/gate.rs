//! Which answers are held, and for how long.

use std::{hash::BuildHasher, num::NonZeroUsize, time::Duration};

use foldhash::fast::RandomState;
use lru::LruCache;
use metrics::histogram;
use names::Observation;
use parking_lot::Mutex;
use runtime::clock::Clock;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::{Instant, sleep_until, timeout_at},
};

use super::HoldState;
use crate::{
    matching::{index::SharedIndex, pipeline::observe_reply, query_origin::OwnQueries},
    publish::{HeldAnswer, Settled},
};

/// The most answers held at once.
pub const MOST_HELD: usize = 512;

/// The longest time from the upstream's reply to the answer.
const LONGEST: Duration = Duration::from_millis(150);

/// The time from the status to the answer: the ovn-writer and OVN need it until packets pass.
const SLACK: Duration = Duration::from_millis(40);

/// For how long the publisher is not asked again about an address that needs no holding. An address in a status stays for its TTL
/// and its grace, which is longer.
const SETTLED_FOR: Duration = Duration::from_secs(5);

/// The most addresses with such a time: 4 MB.
const MOST_SETTLED: NonZeroUsize = NonZeroUsize::MIN.saturating_add((1 << 16) - 1);

/// Holds answers.
#[derive(Debug)]
pub struct Gate {
    index: SharedIndex,
    clock: Clock,
    /// None: the pods' queries alone come here.
    own: OwnQueries,
    /// The publisher's queue.
    held: mpsc::Sender<HeldAnswer>,
    state: HoldState,
    free: Semaphore,
    /// Hashes of a name and an address, and until when the publisher is not asked.
    settled: Mutex<LruCache<u64, Instant, RandomState>>,
    hasher: RandomState,
}

impl Gate {
    pub fn new(
        index: SharedIndex,
        clock: Clock,
        held: mpsc::Sender<HeldAnswer>,
        state: HoldState,
    ) -> Self {
        let settled = LruCache::with_hasher(MOST_SETTLED, RandomState::default());
        Self {
            index,
            clock,
            own: OwnQueries::default(),
            held,
            state,
            free: Semaphore::new(MOST_HELD),
            settled: Mutex::new(settled),
            hasher: RandomState::default(),
        }
    }

    pub(super) fn state(&self) -> &HoldState {
        &self.state
    }

    /// Returns when the reply may go to its client: at once, unless it has an address of a wanted name that the status lacks.
    pub(super) async fn pass(&self, reply: &[u8]) {
        if self.state.passes() {
            return;
        }
        let observed = observe_reply(reply, &self.index.load(), &self.clock, &self.own);
        if let Some(observation) = observed {
            self.state.count_answer(self.hold(observation).await);
        }
    }

    /// Returns the outcome, as a metric label.
    async fn hold(&self, observation: Observation) -> &'static str {
        let began = Instant::now();
        let keys = self.keys(&observation);
        if self.are_settled(&keys, began) {
            return "known";
        }
        let Ok(_place) = self.free.try_acquire() else {
            return "full";
        };
        let (settled, is_settled) = oneshot::channel();
        let answer = HeldAnswer {
            observation,
            settled,
        };
        if self.held.try_send(answer).is_err() {
            return "full";
        }
        let end = began + LONGEST;
        let outcome = match timeout_at(end, is_settled).await {
            Ok(Ok(Settled::Known)) => {
                self.settle(keys);
                return "known";
            }
            Ok(Ok(Settled::Written)) => {
                self.settle(keys);
                sleep_until(end.min(Instant::now() + SLACK)).await;
                "written"
            }
            Ok(Err(_)) => "unled",
            Err(_) => "late",
        };
        histogram!("egress_collector_hold_seconds").record(began.elapsed());
        outcome
    }

    fn keys(&self, observation: &Observation) -> Vec<u64> {
        let addresses = observation.addresses.iter();
        addresses
            .map(|(ip, _)| self.hasher.hash_one((&observation.name, ip)))
            .collect()
    }

    fn are_settled(&self, keys: &[u64], now: Instant) -> bool {
        let settled = self.settled.lock();
        keys.iter()
            .all(|key| settled.peek(key).is_some_and(|until| *until > now))
    }

    fn settle(&self, keys: Vec<u64>) {
        let until = Instant::now() + SETTLED_FOR;
        let mut settled = self.settled.lock();
        for key in keys {
            settled.put(key, until);
        }
    }
}

#[cfg(test)]
mod tests;
