//! Which DNS servers this collector receives: those whose dnstap stream comes here.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use crate::flush::{BlockView, plan::BlockState, streams::Open};

/// The state of the reception.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hearing {
    /// No stream comes here, though some should.
    pub is_deaf: bool,
    /// A listed DNS server is not received.
    pub is_missing: bool,
    /// A listed DNS server that was received no longer is.
    pub is_broken: bool,
}

/// Remembers which servers were received.
#[derive(Debug)]
pub struct Tracker {
    /// Servers that were never received count as missing too.
    all_stream: bool,
    heard: BTreeSet<IpAddr>,
}

impl Tracker {
    /// `all_stream`: every listed server should stream here.
    pub fn new(all_stream: bool) -> Self {
        Self {
            all_stream,
            heard: BTreeSet::new(),
        }
    }

    /// The reception now, by the open streams, the listed DNS servers and the results of flush
    /// probes.
    pub fn look(
        &mut self,
        open: &Open,
        servers: &BTreeSet<SocketAddr>,
        blocks: &[BlockView],
    ) -> Hearing {
        let servers = servers.iter().map(|it| it.ip().to_canonical());
        let servers: BTreeSet<IpAddr> = servers.collect();
        let (heard, silent): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) = servers
            .iter()
            .partition(|server| is_heard(**server, open, blocks));
        self.heard.retain(|server| servers.contains(server));
        let is_broken = silent.iter().any(|server| self.heard.contains(server));
        self.heard.extend(heard);
        Hearing {
            is_deaf: open.is_empty(),
            is_missing: is_broken || (self.all_stream && !silent.is_empty()),
            is_broken,
        }
    }
}

/// Probes give certainty. Without their result, a stream from the server's address counts, or one
/// over a unix socket, which has no address.
fn is_heard(server: IpAddr, open: &Open, blocks: &[BlockView]) -> bool {
    let of_server = |block: &&BlockView| block.server.ip().to_canonical() == server;
    let mut own = blocks.iter().filter(of_server);
    if own.any(|block| {
        matches!(
            block.state,
            BlockState::Searching | BlockState::NotReporting
        )
    }) {
        return false;
    }
    let mut own = blocks.iter().filter(of_server);
    let may_be = |peer: Option<IpAddr>| peer.is_none_or(|peer| peer == server);
    own.any(|block| block.streams > 0) || open.values().any(|opened| may_be(opened.peer))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::flush::streams::{Flow, Opened};

    fn server(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 53))
    }

    fn open(peers: &[Option<u8>]) -> Open {
        let opened = peers.iter().map(|last| Opened {
            peer: last.map(|last| server(last).ip()),
            flow: Flow::default(),
        });
        Arc::new((0..).zip(opened).collect())
    }

    fn block(last: u8, state: BlockState, streams: usize) -> BlockView {
        BlockView {
            server: server(last),
            name: "flush.test.".to_owned(),
            state,
            streams,
            reported: None,
            delay: None,
            rcode: None,
        }
    }

    fn look(
        tracker: &mut Tracker,
        peers: &[Option<u8>],
        servers: &[u8],
        blocks: &[BlockView],
    ) -> [bool; 3] {
        let servers = servers.iter().map(|last| server(*last)).collect();
        let hearing = tracker.look(&open(peers), &servers, blocks);
        [hearing.is_deaf, hearing.is_missing, hearing.is_broken]
    }

    #[test]
    fn a_server_is_heard_by_its_address_or_by_what_probes_find_out() {
        let mut tracker = Tracker::new(true);
        assert_eq!(look(&mut tracker, &[], &[1, 2], &[]), [true, true, false]);
        assert_eq!(
            look(&mut tracker, &[Some(1)], &[1, 2], &[]),
            [false, true, false]
        );
        let both = [Some(1), Some(2)];
        assert_eq!(look(&mut tracker, &both, &[1, 2], &[]), [false; 3]);
        // The network drops packets while the streams stay open.
        let silent = [block(2, BlockState::Searching, 0)];
        assert_eq!(
            look(&mut tracker, &both, &[1, 2], &silent),
            [false, true, true]
        );
        // The DNS server was scaled down.
        assert_eq!(look(&mut tracker, &[Some(1)], &[1], &[]), [false; 3]);
        // Streams over a unix socket have no address.
        assert_eq!(
            look(&mut Tracker::new(true), &[None], &[1, 2], &[]),
            [false; 3]
        );
        let flushed = [
            block(1, BlockState::Flushed, 1),
            block(1, BlockState::Forwards, 0),
        ];
        assert_eq!(
            look(&mut Tracker::new(true), &[Some(9)], &[1], &flushed),
            [false; 3]
        );
        let one_blind = [
            block(1, BlockState::Flushed, 1),
            block(1, BlockState::NotReporting, 0),
        ];
        let found = look(&mut Tracker::new(true), &[Some(1)], &[1], &one_blind);
        assert_eq!(found, [false, true, false]);
    }

    #[test]
    fn a_queried_server_that_need_not_stream_is_not_reported_missing() {
        let mut tracker = Tracker::new(false);
        assert_eq!(look(&mut tracker, &[Some(1)], &[1, 2], &[]), [false; 3]);
        assert_eq!(
            look(&mut tracker, &[Some(2)], &[1, 2], &[]),
            [false, true, true]
        );
    }
}
