//! Which DNS servers stream to this collector.

use std::{
    collections::{BTreeSet, VecDeque},
    net::{IpAddr, SocketAddr},
};

use proto::facts::StreamState;

use crate::flush::BlockView;

/// The DNS servers that stream to this collector.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StreamCoverage {
    /// The number of listed DNS servers that stream, or of the connected peers if no server is listed: the least of the
    /// last ten seconds. A stream that has just opened lacks answers that other collectors have.
    pub streaming: usize,
    /// A listed DNS server does not stream.
    pub is_missing: bool,
}

impl StreamCoverage {
    /// The coverage now, by the addresses of the connected peers, the listed DNS servers and the
    /// results of flush probes. `all_stream`: every listed server should stream here. Otherwise none
    /// is missing while any streams.
    pub fn new(
        peers: &BTreeSet<Option<IpAddr>>,
        servers: &BTreeSet<SocketAddr>,
        blocks: &[BlockView],
        all_stream: bool,
    ) -> Self {
        let servers = servers.iter().map(|server| server.ip().to_canonical());
        let servers: BTreeSet<IpAddr> = servers.collect();
        let streaming = servers
            .iter()
            .filter(|server| is_streaming(**server, peers, blocks))
            .count();
        Self {
            streaming: if servers.is_empty() {
                peers.len()
            } else {
                streaming
            },
            is_missing: if all_stream {
                streaming < servers.len()
            } else {
                peers.is_empty()
            },
        }
    }
}

/// The coverage over time.
#[derive(Clone, Debug, Default)]
pub struct RecentCoverage(VecDeque<usize>);

impl RecentCoverage {
    /// The number of measurements that count, one a second.
    const COUNT: usize = 10;

    /// Adds a measurement. The number of servers in the result is the least of the last ten measurements; before as many
    /// were made it is 0.
    pub fn add(&mut self, mut coverage: StreamCoverage) -> StreamCoverage {
        self.0.push_back(coverage.streaming);
        if self.0.len() > Self::COUNT {
            self.0.pop_front();
        }
        let is_complete = self.0.len() == Self::COUNT;
        let least = self.0.iter().min().filter(|_| is_complete);
        coverage.streaming = least.copied().unwrap_or(0);
        coverage
    }
}

/// Probes give certainty. Without their result, a connection from the server's address counts, or
/// one over a unix socket, which has no address.
fn is_streaming(server: IpAddr, peers: &BTreeSet<Option<IpAddr>>, blocks: &[BlockView]) -> bool {
    let own = blocks.iter().filter(|block| block.server.ip() == server);
    let states: Vec<StreamState> = own.map(|block| block.state).collect();
    if states.contains(&StreamState::NotStreaming) {
        return false;
    }
    states.contains(&StreamState::Streaming)
        || peers.contains(&Some(server))
        || peers.contains(&None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 53))
    }

    fn peers(of: &[Option<u8>]) -> BTreeSet<Option<IpAddr>> {
        of.iter()
            .map(|last| last.map(|it| server(it).ip()))
            .collect()
    }

    fn block(last: u8, state: StreamState) -> BlockView {
        BlockView {
            server: server(last),
            name: "flush.test.".to_owned(),
            state,
            reported: None,
            delay: None,
            rcode: None,
        }
    }

    /// Of two listed servers.
    fn coverage(connected: &[Option<u8>], blocks: &[BlockView]) -> (usize, bool) {
        let servers = [1, 2].map(server).into();
        let coverage = StreamCoverage::new(&peers(connected), &servers, blocks, true);
        (coverage.streaming, coverage.is_missing)
    }

    #[test]
    fn server_streams_by_results_of_probes_or_else_by_its_address() {
        assert_eq!(coverage(&[], &[]), (0, true));
        assert_eq!(coverage(&[Some(1)], &[]), (1, true));
        let both = [Some(1), Some(2)];
        assert_eq!(coverage(&both, &[]), (2, false));
        // The network drops packets while the streams stay open.
        let silent = [block(2, StreamState::NotStreaming)];
        assert_eq!(coverage(&both, &silent), (1, true));
        // One of its blocks is not seen.
        let half = [
            block(2, StreamState::NotStreaming),
            block(2, StreamState::Streaming),
        ];
        assert_eq!(coverage(&both, &half), (1, true));
        // Streams over a unix socket have no address.
        assert_eq!(coverage(&[None], &[]), (2, false));
        // Streams come from another address than the server's.
        let probed = [1, 2].map(|last| block(last, StreamState::Streaming));
        assert_eq!(coverage(&[Some(9)], &probed), (2, false));
        for state in [StreamState::Trying, StreamState::Forwards] {
            let unknown = [1, 2].map(|last| block(last, state));
            assert_eq!(coverage(&[Some(1)], &unknown), (1, true));
        }
        // Servers that are not listed are not missing while another streams.
        for (connected, is_missing) in [(&[Some(1)][..], false), (&[], true)] {
            let servers = [1, 2].map(server).into();
            let coverage = StreamCoverage::new(&peers(connected), &servers, &[], false);
            assert_eq!(coverage.is_missing, is_missing);
        }
    }

    #[test]
    fn server_counts_once_it_has_streamed_for_ten_seconds() {
        let mut recent = RecentCoverage::default();
        let mut add = |streaming| {
            let coverage = StreamCoverage {
                streaming,
                is_missing: false,
            };
            recent.add(coverage).streaming
        };
        assert_eq!([(); 10].map(|()| add(1)), [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!([(); 10].map(|()| add(2)), [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
        assert_eq!(add(0), 0);
    }
}
