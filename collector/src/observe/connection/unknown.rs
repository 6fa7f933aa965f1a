//! A peer while it is unknown.

use tokio::time::Instant;

use crate::{observation::Observation, observe::queue};

/// The observations of an unknown peer, until it is known.
#[derive(Default)]
pub(super) struct Unknown {
    pub(super) since: Option<Instant>,
    /// An event without the required secret has come.
    pub(super) lacks_secret: bool,
    held: Vec<Observation>,
    held_bytes: usize,
    /// There was no room for some observations.
    pub(super) has_lost: bool,
}

impl Unknown {
    /// `None` for a peer that is known.
    pub(super) fn since(since: Option<Instant>) -> Self {
        Self {
            since,
            ..Self::default()
        }
    }

    /// Keeps these observations, at most `most` bytes in all. Returns the number of those that are lost.
    pub(super) fn hold(&mut self, observations: &mut Vec<Observation>, most: usize) -> u64 {
        let mut lost = 0;
        for observation in observations.drain(..) {
            let size = queue::size(&observation);
            if self.held_bytes + size > most {
                lost += 1;
                self.has_lost = true;
            } else {
                self.held_bytes += size;
                self.held.push(observation);
            }
        }
        lost
    }

    /// Puts what was held in front of these observations.
    pub(super) fn release(&mut self, observations: &mut Vec<Observation>) {
        self.held_bytes = 0;
        self.held.append(observations);
        *observations = std::mem::take(&mut self.held);
    }

    /// Whether observations are held, or were lost.
    pub(super) fn has_any(&self) -> bool {
        !self.held.is_empty() || self.has_lost
    }
}
