//! Why a stream is closed.

use std::{io, time::Duration};

use proto::frame_stream;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    #[error("cannot answer: {0}")]
    Write(#[source] io::Error),
    #[error("TLS: {0}")]
    Tls(#[source] io::Error),
    #[error(transparent)]
    Stream(#[from] frame_stream::Error),
    #[error("no START within {0:?}")]
    HandshakeTimeout(Duration),
    #[error("the frame that begins at byte {offset} was not complete within {limit:?}")]
    FrameTimeout { offset: u64, limit: Duration },
    #[error(
        "the peer is no DNS server of the cluster; allow its network with --allow-peer if it should stream here"
    )]
    UnknownPeer,
    #[error(
        "the DNS server has the address of a Node, as other pods there have: give CoreDNS and the collector a secret (--secret-file), or allow the \
         address with --allow-peer"
    )]
    HostNetwork,
}

impl Error {
    /// The value of the metric label.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Tls(_) => "tls",
            Self::Stream(frame_stream::Error::Handshake { .. }) => "handshake",
            Self::Stream(frame_stream::Error::Truncated { .. }) => "truncated",
            Self::Stream(_) => "frame",
            Self::HandshakeTimeout(_) => "handshake_timeout",
            Self::FrameTimeout { .. } => "frame_timeout",
            Self::UnknownPeer => "unknown_peer",
            Self::HostNetwork => "host_network",
        }
    }
}
