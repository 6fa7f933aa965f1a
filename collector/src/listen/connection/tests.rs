use std::{fs, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use proto::{
    dnstap::pb,
    frame_stream::{Control, ControlKind, Limits},
};
use runtime::{
    clock::{Clock, Timestamp},
    listen,
    reload::{Reloaded, Reloading},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::watch,
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::listen::connection::{Error, read};
use crate::{
    cluster::endpoints::{Endpoints, tests::listed},
    listen::{ConnectionTable, DnsServers, Ingest, secret::Secrets},
    matching::{
        LossTracker,
        answer_cache::AnswerCache,
        index::{NameIndex, SharedIndex},
        pipeline::tests::another_wanted_frame,
        queue,
    },
};

mod probes;

struct Peer {
    stream: DuplexStream,
    observations: queue::Receiver,
    reader: JoinHandle<Result<u64, Error>>,
    shutdown: CancellationToken,
}

impl Peer {
    fn connect() -> Self {
        Self::with(1 << 20, |_| {})
    }

    /// A peer with a queue of so many bytes; `change` changes the rest.
    fn with(queue: usize, change: impl FnOnce(&mut Ingest)) -> Self {
        let (stream, other) = duplex(4096);
        let (sender, observations) = queue::channel(queue);
        let names: NameIndex = [proto::api::DnsName::parse("www.example.com").unwrap()]
            .iter()
            .collect();
        let index = SharedIndex::default();
        index.store(Arc::new(names));
        let clock = Clock::manual(Timestamp::from_millis(1_800_000_000_000));
        let mut ingest = Ingest::new(index, clock, ConnectionTable::new(sender));
        change(&mut ingest);
        let peer = listen::Peer::Address("192.0.2.1:40000".parse().unwrap());
        let listener = "tcp://0.0.0.0:6000".parse().unwrap();
        let status = ingest.peer_acl.status(&listener, &peer);
        let permit = ingest.connections.permit(&peer, status.is_known()).unwrap();
        let shutdown = CancellationToken::new();
        let token = shutdown.clone();
        let reader = tokio::spawn(async move { read(other, permit, status, &ingest, token).await });
        Self {
            stream,
            observations,
            reader,
            shutdown,
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn expect(&mut self, kind: ControlKind) {
        let expected = control(kind);
        let mut bytes = vec![0; expected.len()];
        self.stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes, expected, "{kind:?}");
    }

    async fn open(&mut self) {
        self.send(&control(ControlKind::Ready)).await;
        self.expect(ControlKind::Accept).await;
        self.send(&control(ControlKind::Start)).await;
    }

    async fn end(self) -> Result<u64, Error> {
        self.reader.await.unwrap()
    }
}

fn control(kind: ControlKind) -> Vec<u8> {
    let control = match kind {
        ControlKind::Stop | ControlKind::Finish => Control::new(kind),
        _ => Control::with_content_type(kind, Bytes::from_static(proto::dnstap::CONTENT_TYPE)),
    };
    let mut bytes = BytesMut::new();
    control.encode(&mut bytes);
    bytes.to_vec()
}

fn data(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [&length.to_be_bytes(), payload].concat()
}

#[tokio::test(start_paused = true)]
async fn frame_at_one_byte_a_second_ends_the_stream() {
    let mut peer = Peer::connect();
    peer.open().await;
    let frame = data(&another_wanted_frame());
    let first =
        u64::try_from(control(ControlKind::Ready).len() + control(ControlKind::Start).len())
            .unwrap();
    for byte in frame.iter().take(40) {
        let _closed = peer.stream.write_all(&[*byte]).await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    match peer.end().await {
        Err(Error::FrameTimeout { offset, .. }) => assert_eq!(offset, first),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn peer_that_says_nothing_is_closed_and_a_quiet_stream_is_not() {
    let silent = Peer::connect();
    assert!(matches!(
        silent.reader.await.unwrap(),
        Err(Error::HandshakeTimeout(_))
    ));

    let mut quiet = Peer::connect();
    quiet.open().await;
    quiet.send(&data(&another_wanted_frame())).await;
    quiet.observations.recv().await.unwrap();
    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    quiet.send(&data(&another_wanted_frame())).await;
    assert!(quiet.observations.recv().await.is_some());
}

#[tokio::test]
async fn each_broken_stream_ends_with_its_reason() {
    let ready = control(ControlKind::Ready);
    let start = control(ControlKind::Start);
    let wrong = {
        let mut bytes = BytesMut::new();
        let control =
            Control::with_content_type(ControlKind::Start, Bytes::from_static(b"protobuf:other"));
        control.encode(&mut bytes);
        bytes.to_vec()
    };
    let cases: [(Vec<u8>, &str); 6] = [
        (wrong, "handshake"),
        (data(b"data before START"), "handshake"),
        ([start.clone(), start.clone()].concat(), "handshake"),
        ([ready.clone(), ready].concat(), "handshake"),
        (
            [start.clone(), 0xffff_ffff_u32.to_be_bytes().to_vec()].concat(),
            "frame",
        ),
        ([start, vec![0, 0, 1]].concat(), "truncated"),
    ];
    for (bytes, reason) in cases {
        let mut peer = Peer::connect();
        peer.send(&bytes).await;
        peer.stream.shutdown().await.unwrap();
        let error = peer.end().await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains("byte"), "it says where: {error}");
    }
}

#[tokio::test]
async fn full_queue_drops_observations_and_keeps_their_names() {
    let loss_tracker = LossTracker::default();
    let mut peer = Peer::with(2048, |ingest| ingest.loss_tracker = loss_tracker.clone());
    peer.open().await;
    for _ in 0..100 {
        peer.send(&data(&another_wanted_frame())).await;
    }
    peer.send(&control(ControlKind::Stop)).await;
    peer.expect(ControlKind::Finish).await;
    assert!(peer.observations.recv().await.is_some());
    assert_eq!(peer.end().await.unwrap(), 100);
    let lost: Vec<String> = loss_tracker
        .next()
        .await
        .names
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(lost, ["www.example.com."]);
}

#[tokio::test]
async fn frames_received_before_a_shutdown_are_read() {
    let mut peer = Peer::connect();
    peer.open().await;
    for _ in 0..3 {
        peer.send(&data(&another_wanted_frame())).await;
    }
    peer.shutdown.cancel();
    assert_eq!(peer.end().await.unwrap(), 3);
}

const SECRET: &str = "0123456789abcdef";

/// A file with [`SECRET`], and the secrets that are read from it.
pub(in crate::listen) fn secrets() -> (TempDir, Reloaded<Secrets>, Reloading<Secrets>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, SECRET).unwrap();
    let parse = |contents: &[Vec<u8>]| Ok(Secrets::parse(&contents.concat())?);
    let (secrets, reloading) = Reloading::begin("secret", vec![file], parse).unwrap();
    (folder, secrets, reloading)
}

/// A frame of events with this `extra`.
fn frame_with(extra: &str) -> Vec<u8> {
    let mut event = pb::Dnstap::decode(another_wanted_frame().as_slice()).unwrap();
    event.extra = Some(extra.as_bytes().to_vec());
    data(&event.encode_to_vec())
}

/// DNS servers on the pod network.
fn servers(endpoints: watch::Receiver<Option<Endpoints>>) -> Option<DnsServers> {
    let networks = watch::channel(Some(Arc::default())).1;
    Some(DnsServers::new(endpoints, networks))
}

/// A peer that becomes known once the sender lists its endpoint.
fn unknown() -> (Peer, watch::Sender<Option<Endpoints>>) {
    let (sender, receiver) = watch::channel(None);
    let peer = Peer::with(1 << 20, |ingest| {
        ingest.peer_acl.servers = servers(receiver);
        ingest.remembered = AnswerCache::new(100, Duration::MAX);
    });
    (peer, sender)
}

#[tokio::test(start_paused = true)]
async fn frames_of_unknown_peer_wait_in_its_socket_until_it_is_known() {
    let (mut peer, endpoints) = unknown();
    peer.open().await;
    // As many as fit the socket, far more than the last read of the handshake may have taken.
    let sending = tokio::spawn(async move {
        for _ in 0..100 {
            peer.send(&data(&another_wanted_frame())).await;
        }
        peer.send(&control(ControlKind::Stop)).await;
        peer
    });
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(!sending.is_finished());
    endpoints.send_replace(listed(&["192.0.2.7:53", "192.0.2.1:53"], false));
    let mut peer = sending.await.unwrap();
    peer.expect(ControlKind::Finish).await;
    assert!(peer.observations.recv().await.is_some());
    assert_eq!(peer.end().await.unwrap(), 100);
}

#[tokio::test(start_paused = true)]
async fn peer_not_listed_within_a_minute_is_closed_unread() {
    let (mut peer, endpoints) = unknown();
    peer.open().await;
    let opened = Instant::now();
    endpoints.send_replace(listed(&["192.0.2.7:53"], false));
    peer.send(&data(&another_wanted_frame())).await;
    assert!(matches!(
        peer.reader.await.unwrap(),
        Err(Error::UnknownPeer)
    ));
    assert_eq!(opened.elapsed(), Duration::from_secs(60));
    assert!(peer.observations.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn stream_whose_endpoint_leaves_is_closed_unless_it_comes_back() {
    let (mut peer, endpoints) = unknown();
    let here = || listed(&["192.0.2.1:53"], false);
    endpoints.send_replace(here());
    peer.open().await;
    // The endpoint is gone for a moment, as when it moves to another EndpointSlice.
    endpoints.send_replace(listed(&[], false));
    tokio::time::advance(Duration::from_secs(10)).await;
    peer.send(&data(&another_wanted_frame())).await;
    endpoints.send_replace(here());
    assert!(peer.observations.recv().await.is_some());
    endpoints.send_replace(listed(&[], false));
    peer.send(&data(&another_wanted_frame())).await;
    assert!(matches!(
        peer.reader.await.unwrap(),
        Err(Error::UnknownPeer)
    ));
    assert!(peer.observations.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn broken_stream_without_secret_is_no_gap() {
    let (_folder, secrets, _reloading) = secrets();
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

#[tokio::test]
async fn frame_of_the_largest_size_fits_the_buffer() {
    let mut peer = Peer::connect();
    peer.open().await;
    let largest = vec![0; Limits::default().data_frame];
    for _ in 0..10 {
        peer.send(&data(&largest)).await;
        peer.send(&data(&another_wanted_frame())).await;
        assert!(peer.observations.recv().await.is_some());
    }
}
