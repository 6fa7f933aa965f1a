//! Which DNS servers stream to this collector.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use crate::flush::{BlockView, plan::BlockState, streams::Open};

/// The DNS servers that stream to this collector.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StreamCoverage {
    /// The number of listed DNS servers that stream, or of the streams if no server is listed.
    pub streaming: usize,
    /// A listed DNS server does not stream.
    pub is_missing: bool,
}

impl StreamCoverage {
    /// The coverage now, by the open streams, the listed DNS servers and the results of flush
    /// probes. `all_stream`: every listed server should stream here. Otherwise none is missing while
    /// any streams.
    pub fn new(
        open: &Open,
        servers: &BTreeSet<SocketAddr>,
        blocks: &[BlockView],
        all_stream: bool,
    ) -> Self {
        let servers = servers.iter().map(|it| it.ip().to_canonical());
        let servers: BTreeSet<IpAddr> = servers.collect();
        let streaming = servers.iter().filter(|it| is_streaming(**it, open, blocks));
        let streaming = streaming.count();
        Self {
            streaming: match servers.is_empty() {
                true => open.len(),
                false => streaming,
            },
            is_missing: match all_stream {
                true => streaming < servers.len(),
                false => open.is_empty(),
            },
        }
    }
}

/// Probes give certainty. Without their result, a stream from the server's address counts, or one
/// over a unix socket, which has no address.
fn is_streaming(server: IpAddr, open: &Open, blocks: &[BlockView]) -> bool {
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

    /// Of two listed servers.
    fn coverage(peers: &[Option<u8>], blocks: &[BlockView]) -> (usize, bool) {
        let servers = [1, 2].map(server).into();
        let coverage = StreamCoverage::new(&open(peers), &servers, blocks, true);
        (coverage.streaming, coverage.is_missing)
    }

    #[test]
    fn server_streams_by_its_address_or_by_the_results_of_probes() {
        assert_eq!(coverage(&[], &[]), (0, true));
        assert_eq!(coverage(&[Some(1)], &[]), (1, true));
        let both = [Some(1), Some(2)];
        assert_eq!(coverage(&both, &[]), (2, false));
        // The network drops packets while the streams stay open.
        let silent = [block(2, BlockState::Searching, 0)];
        assert_eq!(coverage(&both, &silent), (1, true));
        // Streams over a unix socket have no address.
        assert_eq!(coverage(&[None], &[]), (2, false));
        let flushed = [
            block(1, BlockState::Flushed, 1),
            block(2, BlockState::Flushed, 1),
        ];
        assert_eq!(coverage(&[Some(9)], &flushed), (2, false));
    }

    #[test]
    fn server_that_need_not_stream_is_not_missing_while_another_streams() {
        let servers = [1, 2].map(server).into();
        for (peers, is_missing) in [(&[Some(1)][..], false), (&[], true)] {
            let coverage = StreamCoverage::new(&open(peers), &servers, &[], false);
            assert_eq!(coverage.is_missing, is_missing);
        }
    }
}
