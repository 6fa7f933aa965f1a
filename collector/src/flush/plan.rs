//! Which probes to send, and what came of them. No IO.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use proto::api::DnsName;
use tokio::time::Instant;

use super::{
    block::{Block, BlockView, NOT_STREAMING_AFTER},
    probe::{Nonce, SeenProbe, nonce},
};

/// The longest interval: several probes are sent before a server counts as not streaming.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10);

/// Probes a second to all blocks together. With more blocks the interval grows.
const PER_SECOND: u32 = 1_000;

/// A server, and the index of one of the names.
pub type BlockKey = (SocketAddr, usize);

/// A probe to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probe {
    pub block: BlockKey,
    /// Identifies it in a stream.
    pub nonce: Nonce,
}

/// The state of all blocks.
#[derive(Debug)]
pub struct Plan {
    interval: Duration,
    /// One name for each block.
    names: Vec<DnsName>,
    blocks: BTreeMap<BlockKey, Block>,
    /// The probes that may come back, and when they were sent.
    sent: BTreeMap<Nonce, (BlockKey, Instant)>,
}

impl Plan {
    /// Without servers.
    pub fn new(interval: Duration, names: Vec<DnsName>) -> Self {
        Self {
            interval,
            names,
            blocks: BTreeMap::new(),
            sent: BTreeMap::new(),
        }
    }

    pub fn set_servers(&mut self, servers: &BTreeSet<SocketAddr>) {
        for server in servers {
            for name in 0..self.names.len() {
                self.blocks.entry((*server, name)).or_default();
            }
        }
        self.blocks
            .retain(|(server, _), _| servers.contains(server));
    }

    /// The time from one call of [`Plan::probes`] to the next.
    pub fn interval(&self) -> Duration {
        let blocks = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        let least = Duration::from_secs(1) * blocks / PER_SECOND;
        self.interval.min(LONGEST_INTERVAL).max(least)
    }

    /// The probes to send now.
    pub fn probes(&mut self, now: Instant) -> Vec<Probe> {
        let mut probes = Vec::new();
        for (key, block) in &mut self.blocks {
            if block.is_due(now) {
                let nonce = nonce();
                block.on_sent(now);
                self.sent.insert(nonce, (*key, now));
                probes.push(Probe { block: *key, nonce });
            }
        }
        probes
    }

    /// Handles a server's answer to a probe.
    pub fn on_answer(&mut self, probe: &Probe, rcode: u8) {
        if let Some(block) = self.blocks.get_mut(&probe.block) {
            block.on_answer(rcode);
        }
    }

    /// Handles a probe in a stream. Returns how long the flush took. Probes that this collector did
    /// not send are ignored: they are another collector's, or made up.
    pub fn on_seen(&mut self, seen: &SeenProbe, now: Instant) -> Option<Duration> {
        let (key, sent) = *self.sent.get(&seen.nonce)?;
        let block = self.blocks.get_mut(&key)?;
        if seen.is_forwarded {
            block.on_forwarded();
            return None;
        }
        let delay = seen.at.duration_since(sent);
        block.on_seen(delay, now);
        Some(delay)
    }

    /// Forgets old probes: one that comes back later counts for nothing.
    pub fn expire(&mut self, now: Instant) {
        self.sent
            .retain(|_, (_, sent)| *sent + NOT_STREAMING_AFTER > now);
    }

    /// Every block with its state.
    pub fn view(&self, now: Instant) -> impl Iterator<Item = BlockView> {
        self.blocks
            .iter()
            .filter_map(move |((server, name), block)| {
                let name = self.names.get(*name)?.to_string();
                Some(block.view(*server, name, now))
            })
    }
}

#[cfg(test)]
mod tests;
