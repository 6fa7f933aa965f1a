//! Limits of unknown peers.

use std::net::IpAddr;

use runtime::cluster_cidrs::{Networks, Purpose};
use tokio::sync::mpsc;

use super::*;
use crate::{notices::Rebinding, observe::pipeline::tests::refused_frame};

struct Stranger {
    peer: Peer,
    endpoints: watch::Sender<Option<Endpoints>>,
    rebindings: mpsc::Receiver<Rebinding>,
    loss_tracker: LossTracker,
}

/// The process has run for a while, so a new stream is no gap.
async fn stranger() -> Stranger {
    let loss_tracker = LossTracker::default();
    tokio::time::advance(Duration::from_secs(3600)).await;
    let (endpoints, listed) = watch::channel(None);
    let (told, rebindings) = Rebindings::channel();
    let peer = Peer::with(1 << 20, |ingest| {
        ingest.peer_acl.servers = servers(listed);
        ingest.rebindings = told;
        ingest.loss_tracker = loss_tracker.clone();
    });
    Stranger {
        peer,
        endpoints,
        rebindings,
        loss_tracker,
    }
}

fn here() -> Option<Endpoints> {
    listed(&["192.0.2.1:53"])
}

#[tokio::test(start_paused = true)]
async fn a_stranger_raises_no_event_before_it_is_known() {
    let mut it = stranger().await;
    it.peer.open().await;
    it.peer.send(&data(&refused_frame())).await;
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert!(it.rebindings.is_empty());
    it.endpoints.send_replace(here());
    let told = it.rebindings.recv().await.unwrap();
    assert_eq!(told.name.as_str(), "www.example.com.");
}

#[tokio::test(start_paused = true)]
async fn what_a_stranger_said_is_a_loss_if_it_is_known_when_it_comes_back() {
    let mut it = stranger().await;
    it.peer.open().await;
    it.peer.send(&data(&another_wanted_frame())).await;
    let closed = it.peer.reader.await.unwrap();
    assert!(matches!(closed, Err(Error::UnknownPeer)));
    let mut again = Peer::with(1 << 20, |ingest| {
        ingest.peer_acl.servers = servers(watch::channel(here()).1);
        ingest.loss_tracker = it.loss_tracker.clone();
    });
    again.open().await;
    let missing = tokio::time::timeout(Duration::from_secs(1), it.loss_tracker.next()).await;
    assert!(missing.expect("a gap").anything);
}

#[tokio::test(start_paused = true)]
async fn host_network_server_is_trusted_once_its_address_is_not_a_nodes() {
    let node = (Purpose::Nodes, "192.0.2.1/32".parse().unwrap());
    let on_host = Some(Arc::new(Networks::new([node])));
    for moves in [false, true] {
        let (networks, found) = watch::channel(on_host.clone());
        let servers = DnsServers::new(watch::channel(here()).1, found);
        let refused = servers.clone();
        let mut peer = Peer::with(1 << 20, |ingest| ingest.peer_acl.servers = Some(servers));
        peer.open().await;
        peer.send(&data(&another_wanted_frame())).await;
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert_eq!(peer.observations.len(), 0);
        assert_eq!(refused.refused(), ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        if moves {
            networks.send_replace(Some(Arc::new(Networks::new([]))));
            assert!(peer.observations.recv().await.is_some());
            networks.send_replace(on_host.clone());
            peer.send(&data(&another_wanted_frame())).await;
        }
        let closed = peer.reader.await.unwrap();
        assert!(matches!(closed, Err(Error::HostNetwork)), "{closed:?}");
        assert_eq!(peer.observations.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_read_slowly_becomes_known_or_has_to_go_in_time_all_the_same() {
    const FRAMES: usize = 20;
    for is_listed in [true, false] {
        let (endpoints, listed) = watch::channel(None);
        // One frame a second against observations worth twenty.
        let (sender, mut observations) = queue::channel(1 << 20);
        let limits = MaxConnections {
            connections: 8,
            of_peer: 8,
            frames_per_second: 1,
        };
        let mut peer = Peer::with(1 << 20, |ingest| {
            ingest.peer_acl.servers = servers(listed);
            ingest.connections = ConnectionTable::new(limits, sender);
        });
        let start = Instant::now();
        peer.open().await;
        let frames = (0..FRAMES).flat_map(|_| data(&another_wanted_frame()));
        peer.send(&frames.collect::<Vec<_>>()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        if is_listed {
            endpoints.send_replace(here());
            for _ in 0..FRAMES {
                observations.recv().await.unwrap();
            }
            assert_eq!(start.elapsed(), Duration::from_secs(1));
            endpoints.send_replace(Some(Endpoints::default()));
        }
        let closed = peer.reader.await.unwrap();
        assert!(matches!(closed, Err(Error::UnknownPeer)));
        let after = Duration::from_secs(15 + u64::from(is_listed));
        assert_eq!(start.elapsed(), after);
    }
}

const SECRET: &str = "0123456789abcdef";

fn secrets() -> runtime::reload::Reloaded<Secrets> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, SECRET).unwrap();
    let parse = |contents: &[Vec<u8>]| Ok(Secrets::parse(&contents.concat())?);
    let (secrets, _reloading) = Reloading::begin("secret", vec![file], parse).unwrap();
    secrets
}

#[tokio::test(start_paused = true)]
async fn host_network_peer_with_the_tls_secret_is_trusted_and_others_are_not() {
    let node = (Purpose::Nodes, "192.0.2.1/32".parse().unwrap());
    let networks = watch::channel(Some(Arc::new(Networks::new([node])))).1;
    let servers = DnsServers::new(watch::channel(here()).1, networks);
    let (sender, mut observations) = queue::channel(1 << 20);
    let limits = MaxConnections {
        connections: 8,
        of_peer: 2,
        frames_per_second: 1,
    };
    let connection_limits = ConnectionTable::new(limits, sender);
    let secrets = secrets();
    let dial = || {
        Peer::with(1 << 20, |ingest| {
            ingest.peer_acl.secrets = Some(secrets.clone());
            ingest.peer_acl.servers = Some(servers.clone());
            ingest.connections = connection_limits.clone();
        })
    };
    let mut server = dial();
    let mut other = dial();
    for peer in [&mut server, &mut other] {
        peer.open().await;
    }
    // For an hour no client queries the DNS server.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    other.send(&frame_with("0123456789abcdeg").repeat(9)).await;
    server.send(&frame_with(SECRET)).await;
    assert!(observations.recv().await.is_some());
    let connections = |known| {
        let of = connection_limits
            .view()
            .into_iter()
            .filter(|it| it.is_known == known);
        of.map(|it| it.connections).sum::<usize>()
    };
    assert_eq!((connections(true), connections(false)), (1, 1));
    // The other peer takes all its connections, and its reads are throttled.
    let _third = dial();
    assert_eq!((connections(true), connections(false)), (1, 2));
    let start = Instant::now();
    server.send(&frame_with(SECRET)).await;
    assert!(observations.recv().await.is_some());
    assert!(start.elapsed() < Duration::from_secs(1));
    let closed = other.reader.await.unwrap();
    assert!(matches!(closed, Err(Error::HostNetwork)), "{closed:?}");
    assert!(start.elapsed() <= Duration::from_secs(15));
    assert!(servers.refused().is_empty(), "the DNS server streams");
    server.stream.shutdown().await.unwrap();
    let _ended = server.end().await;
    let mut other = dial();
    other.open().await;
    other.send(&frame_with("0123456789abcdeg")).await;
    other.end().await.unwrap_err();
    assert_eq!(servers.refused(), ["192.0.2.1".parse::<IpAddr>().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_shows_no_secret_makes_nobody_ask_again_when_it_breaks() {
    let secrets = secrets();
    let loss_tracker = LossTracker::default();
    tokio::time::advance(Duration::from_secs(3600)).await;
    for (shown, is_gap) in [("", false), ("0123456789abcdeg", false), (SECRET, true)] {
        let mut peer = Peer::with(1 << 20, |ingest| {
            ingest.peer_acl.secrets = Some(secrets.clone());
            ingest.loss_tracker = loss_tracker.clone();
        });
        peer.open().await;
        peer.send(&frame_with(shown)).await;
        peer.send(&data(&another_wanted_frame())[..9]).await;
        let Peer { stream, reader, .. } = peer;
        drop(stream);
        assert!(reader.await.unwrap().is_err());
        let missing = tokio::time::timeout(Duration::from_secs(1), loss_tracker.next()).await;
        assert_eq!(missing.is_ok_and(|it| it.anything), is_gap, "{shown}");
    }
}
