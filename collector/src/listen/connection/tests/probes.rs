//! How a reader reports flush probes.

use super::*;
use tokio::sync::mpsc;

use crate::flush::{
    ProbeReports,
    probe::{
        SeenProbe,
        tests::{frame, template},
    },
};

const NONCE: [u8; 16] = [7; 16];

fn probe(extra: &str) -> Vec<u8> {
    let mut sent = Vec::new();
    template("flush.cluster.local").write(1, &NONCE, &mut sent);
    let event = frame(pb::message::Type::ClientQuery, &sent[2..], extra);
    data(&event)
}

fn connect(change: impl FnOnce(&mut Ingest)) -> (Peer, mpsc::Receiver<SeenProbe>) {
    let (probes, seen) = ProbeReports::new();
    let peer = Peer::with(1 << 20, |ingest| {
        ingest.probes = probes;
        change(ingest);
    });
    (peer, seen)
}

async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn probe_in_stream_that_does_not_show_secret_is_not_reported() {
    let (_folder, secrets, _reloading) = secrets();
    let (mut peer, mut seen) = connect(|ingest| ingest.peer_acl.secrets = Some(secrets));
    peer.open().await;
    peer.send(&[probe(""), probe("0123456789abcdeg")].concat())
        .await;
    settle().await;
    assert!(seen.is_empty());
    peer.send(&probe(SECRET)).await;
    seen.recv().await.unwrap();
}
