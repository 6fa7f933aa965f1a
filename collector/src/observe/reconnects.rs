//! Finds peers that connect too often, such as a CoreDNS that redials without a pause.

use std::{collections::HashMap, time::Duration};

use metrics::counter;
use serde::Serialize;
use tokio::time::Instant;

use super::peer_ids::PeerKey;

/// A peer may open one connection per this time on average. CoreDNS since 1.13.2 redials every ten
/// seconds for each `dnstap` line of a server block.
const EACH: Duration = Duration::from_millis(200);

/// The average is over this time, so a peer may open 50 connections at once.
const OVER: Duration = Duration::from_secs(10);

/// How long after its last connection a peer is named.
const NAMED_FOR: Duration = Duration::from_secs(10);

/// The most peers in the table. Most leave it [`EACH`] after their connection.
const MAX_PEERS: usize = 1 << 10;

/// The peers that connected of late.
#[derive(Debug, Default)]
pub(super) struct Reconnects(HashMap<PeerKey, Connections>);

#[derive(Debug)]
struct Connections {
    count: u64,
    /// A token bucket of the connections of [`OVER`]. The bucket is full again at this time.
    full_at: Instant,
}

impl Connections {
    fn are_too_many(&self, now: Instant) -> bool {
        self.full_at > now + OVER
    }
}

/// A peer that connects too often, as the status page shows it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ReconnectingPeer {
    /// The address, or the process.
    pub peer: String,
    /// The connections that it opened, also refused ones, since it began to connect often.
    pub connections: u64,
}

impl Reconnects {
    /// Counts a connection. If the table is full, it does not count a new peer.
    pub(super) fn opened(&mut self, peer: PeerKey, now: Instant) {
        if self.0.len() >= MAX_PEERS {
            self.0.retain(|_, it| it.full_at > now);
            if self.0.len() >= MAX_PEERS && !self.0.contains_key(&peer) {
                return;
            }
        }
        let connections = self.0.entry(peer).or_insert(Connections {
            count: 0,
            full_at: now,
        });
        if connections.full_at <= now {
            *connections = Connections {
                count: 0,
                full_at: now,
            };
        }
        connections.count += 1;
        connections.full_at = (connections.full_at + EACH).min(now + OVER + NAMED_FOR);
        if connections.are_too_many(now) {
            counter!("egress_collector_excess_connections_total").increment(1);
        }
    }

    /// The peers that connect too often, sorted by name.
    pub(super) fn view(&self, now: Instant) -> Vec<ReconnectingPeer> {
        let found = self.0.iter().filter(|(_, it)| it.are_too_many(now));
        let named = found.map(|(peer, it)| ReconnectingPeer {
            peer: peer.to_string(),
            connections: it.count,
        });
        let mut peers: Vec<_> = named.collect();
        peers.sort_unstable_by(|one, other| one.peer.cmp(&other.peer));
        peers
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn peer(last: u32) -> PeerKey {
        PeerKey::Address(Ipv4Addr::from_bits(0x0a00_0000 + last).into())
    }

    #[test]
    fn a_peer_that_connects_400_times_a_second_is_named_until_it_stops() {
        let (mut reconnects, start) = (Reconnects::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        for i in 0..4000 {
            reconnects.opened(peer(1), at(i * 5 / 2));
        }
        let named = ReconnectingPeer {
            peer: "10.0.0.1".to_owned(),
            connections: 4000,
        };
        assert_eq!(reconnects.view(at(19_900)), [named]);
        assert_eq!(reconnects.view(at(20_000)), []);
        reconnects.opened(peer(1), at(30_000));
        assert_eq!(reconnects.0[&peer(1)].count, 1);
    }

    #[test]
    fn forty_server_blocks_that_redial_every_ten_seconds_are_not_too_often() {
        let (mut reconnects, start) = (Reconnects::default(), Instant::now());
        for second in 0..100 {
            let now = start + Duration::from_secs(second * 10);
            (0..40).for_each(|_| reconnects.opened(peer(1), now));
            assert_eq!(reconnects.view(now), []);
        }
    }

    #[test]
    fn many_peers_take_bounded_memory_and_hide_none_that_redials() {
        let (mut reconnects, now) = (Reconnects::default(), Instant::now());
        for i in 0..3_000 {
            reconnects.opened(peer(1), now);
            reconnects.opened(peer(i + 2), now);
        }
        assert_eq!(reconnects.0.len(), MAX_PEERS);
        assert_eq!(reconnects.view(now).len(), 1);
        for i in 0..2 {
            reconnects.opened(peer(i + 10_000), now + EACH);
        }
        assert!(reconnects.0.len() < 4);
    }
}
