//! Peers that may not stream, or not yet.

use super::*;
use crate::cluster::networks::{Networks, Purpose};

fn here() -> Option<Endpoints> {
    listed(&["192.0.2.1:53"])
}

#[tokio::test(start_paused = true)]
async fn host_network_server_is_read_once_its_address_is_not_a_nodes() {
    let node = (Purpose::Nodes, "192.0.2.1/32".parse().unwrap());
    let on_host = Some(Arc::new(Networks::new([node])));
    for moves in [false, true] {
        let (networks, found) = watch::channel(on_host.clone());
        let servers = DnsServers::new(watch::channel(here()).1, found);
        let mut peer = Peer::with(1 << 20, |ingest| ingest.peer_acl.servers = Some(servers));
        peer.open().await;
        peer.send(&data(&another_wanted_frame())).await;
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert_eq!(peer.observations.len(), 0);
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
async fn broken_stream_without_secret_is_no_gap() {
    let secrets = secrets();
    let loss_tracker = LossTracker::default();
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
