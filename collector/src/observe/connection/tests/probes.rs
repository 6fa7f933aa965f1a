//! How a reader reports flush probes.

use super::*;
use crate::flush::{
    probe::{
        ProbeMark,
        tests::{frame, template},
    },
    streams::{Flow, Told},
};

fn mark() -> ProbeMark {
    ProbeMark {
        server: "10.0.0.1:53".parse().unwrap(),
        nonce: [7; 16],
    }
}

fn probe(extra: &str) -> Vec<u8> {
    let mut sent = Vec::new();
    template("flush.cluster.local").write(1, &mark(), &mut sent);
    let event = frame(pb::message::Type::ClientQuery, &sent[2..], extra);
    data(&event)
}

fn connect(change: impl FnOnce(&mut Ingest)) -> (Peer, Told) {
    let (probed, told) = Streams::new([template("flush.cluster.local")].into());
    let peer = Peer::with(1 << 20, |ingest| {
        ingest.probed = probed;
        change(ingest);
    });
    (peer, told)
}

async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn the_flow(told: &Told) -> Flow {
    told.open.borrow().values().next().unwrap().flow.clone()
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_reported_at_its_first_octet_and_is_not_stream_traffic() {
    let (mut peer, mut told) = connect(|_| {});
    peer.open().await;
    settle().await;
    let flow = the_flow(&told);
    let began = Instant::now() + Duration::from_millis(100);
    tokio::time::advance(Duration::from_millis(100)).await;
    let before = flow.flowed();
    let probe = probe("");
    let (front, tail) = probe.split_at(3000);
    peer.send(&[&data(&another_wanted_frame())[..], front].concat())
        .await;
    settle().await;
    assert_eq!((flow.flowed(), flow.moved()), (before, Some(began)));
    assert!(told.seen.is_empty());
    tokio::time::advance(Duration::from_millis(100)).await;
    // The read that brings the end of a probe was not caused by that probe.
    peer.send(&[tail, &data(&another_wanted_frame())].concat())
        .await;
    settle().await;
    assert_eq!(flow.flowed(), Some(Instant::now()));
    let seen = told.seen.recv().await.unwrap();
    assert_eq!((seen.mark, seen.name, seen.at), (mark(), 0, began));
    assert!(!seen.is_forwarded);
    tokio::time::advance(Duration::from_millis(100)).await;
    peer.send(&probe).await;
    assert_eq!(told.seen.recv().await.unwrap().at, Instant::now());
    drop(peer.stream);
    told.open.wait_for(|open| open.is_empty()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_a_peer_that_is_not_known_nothing_is_told() {
    let (sender, receiver) = watch::channel(None);
    let (mut peer, mut told) = connect(|ingest| ingest.peer_acl.servers = servers(receiver));
    peer.open().await;
    peer.send(&probe("")).await;
    settle().await;
    assert!(told.open.borrow().is_empty() && told.seen.is_empty());
    sender.send_replace(listed(&["192.0.2.1:53"]));
    told.open.wait_for(|open| !open.is_empty()).await.unwrap();
    peer.send(&probe("")).await;
    told.seen.recv().await.unwrap();
    sender.send_replace(listed(&[]));
    told.open.wait_for(|open| open.is_empty()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_probe_in_a_stream_that_does_not_show_the_secret_is_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, "0123456789abcdef").unwrap();
    let parse = |contents: &[Vec<u8>]| Ok(Secrets::parse(&contents.concat())?);
    let (secrets, _reloading) = Reloading::begin("secret", vec![file], parse).unwrap();
    let (mut peer, mut told) = connect(|ingest| ingest.peer_acl.secrets = Some(secrets));
    peer.open().await;
    peer.send(&[probe(""), probe("0123456789abcdeg")].concat())
        .await;
    settle().await;
    assert!(told.seen.is_empty());
    peer.send(&probe("0123456789abcdef")).await;
    told.seen.recv().await.unwrap();
}
