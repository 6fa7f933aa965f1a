use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use proto::frame_stream::{Control, ControlKind, Limits, encode_data};
use runtime::clock::{Clock, Timestamp};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{Error, read};
use crate::{
    guards::Guards,
    ingest::{ConnectionLimits, Ingest, pipeline::tests::wanted_frame},
    names::{NameIndex, SharedIndex},
    observation::Observation,
    remember::Remembered,
    resolve::OwnQueries,
};

struct Peer {
    stream: DuplexStream,
    observations: mpsc::Receiver<Observation>,
    reader: JoinHandle<Result<u64, Error>>,
    shutdown: CancellationToken,
}

impl Peer {
    fn connect(queue: usize) -> Self {
        let (stream, other) = duplex(4096);
        let (sender, observations) = mpsc::channel(queue);
        let names: NameIndex = [proto::api::DnsName::parse("www.example.com").unwrap()]
            .iter()
            .collect();
        let index = SharedIndex::default();
        index.store(Arc::new(names));
        let ingest = Ingest {
            names: index,
            guards: Guards::default().shared(),
            clock: Clock::manual(Timestamp::from_millis(1_800_000_000_000)),
            remembered: Remembered::new(0),
            own: OwnQueries::default(),
            observations: sender,
            limits: ConnectionLimits::default(),
            complaints: Arc::default(),
            bad_events: Arc::default(),
        };
        let shutdown = CancellationToken::new();
        let token = shutdown.clone();
        let reader = tokio::spawn(async move { read(other, &ingest, token).await });
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
    control.encode(&Limits::default(), &mut bytes).unwrap();
    bytes.to_vec()
}

fn data(payload: &[u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    encode_data(payload, &Limits::default(), &mut bytes).unwrap();
    bytes.to_vec()
}

#[tokio::test]
async fn a_bidirectional_stream_is_read_from_ready_to_finish() {
    let mut peer = Peer::connect(8);
    peer.open().await;
    peer.send(&[data(&wanted_frame()), data(&wanted_frame())].concat())
        .await;
    assert_eq!(
        peer.observations.recv().await.unwrap().name.as_str(),
        "www.example.com."
    );
    peer.send(&control(ControlKind::Stop)).await;
    peer.expect(ControlKind::Finish).await;
    assert_eq!(peer.end().await.unwrap(), 2);
}

#[tokio::test]
async fn a_unidirectional_stream_gets_no_answer() {
    let mut peer = Peer::connect(8);
    peer.send(
        &[
            control(ControlKind::Start),
            data(&wanted_frame()),
            control(ControlKind::Stop),
        ]
        .concat(),
    )
    .await;
    assert!(peer.observations.recv().await.is_some());
    let mut rest = Vec::new();
    peer.stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
    assert_eq!(peer.end().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_comes_byte_by_byte_in_time_is_read() {
    let mut peer = Peer::connect(8);
    peer.open().await;
    for byte in data(&wanted_frame()) {
        peer.send(&[byte]).await;
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    assert!(peer.observations.recv().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_frame_at_one_byte_a_second_ends_the_stream() {
    let mut peer = Peer::connect(8);
    peer.open().await;
    let frame = data(&wanted_frame());
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
async fn a_peer_that_says_nothing_is_closed_and_a_quiet_stream_is_not() {
    let silent = Peer::connect(8);
    assert!(matches!(
        silent.reader.await.unwrap(),
        Err(Error::HandshakeTimeout(_))
    ));

    let mut quiet = Peer::connect(8);
    quiet.open().await;
    quiet.send(&data(&wanted_frame())).await;
    quiet.observations.recv().await.unwrap();
    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    quiet.send(&data(&wanted_frame())).await;
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
        control.encode(&Limits::default(), &mut bytes).unwrap();
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
        let mut peer = Peer::connect(8);
        peer.send(&bytes).await;
        peer.stream.shutdown().await.unwrap();
        let error = peer.end().await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains("byte"), "it says where: {error}");
    }
}

#[tokio::test]
async fn a_full_queue_drops_observations_and_reads_on() {
    let mut peer = Peer::connect(1);
    peer.open().await;
    for _ in 0..100 {
        peer.send(&data(&wanted_frame())).await;
    }
    peer.send(&control(ControlKind::Stop)).await;
    peer.expect(ControlKind::Finish).await;
    assert!(peer.observations.recv().await.is_some());
    assert_eq!(peer.end().await.unwrap(), 100);
}

#[tokio::test]
async fn a_shutdown_ends_the_stream() {
    let mut peer = Peer::connect(8);
    peer.open().await;
    peer.shutdown.cancel();
    assert_eq!(peer.end().await.unwrap(), 0);
}

#[tokio::test]
async fn what_has_come_before_a_shutdown_is_read() {
    let mut peer = Peer::connect(8);
    peer.open().await;
    for _ in 0..3 {
        peer.send(&data(&wanted_frame())).await;
    }
    peer.shutdown.cancel();
    assert_eq!(peer.end().await.unwrap(), 3);
}

#[tokio::test]
async fn a_sender_that_never_pauses_does_not_hold_a_shutdown_up() {
    let mut peer = Peer::connect(8);
    peer.open().await;
    peer.shutdown.cancel();
    let frame = data(&wanted_frame());
    // It ends with an error once the reader has gone.
    while peer.stream.write_all(&frame).await.is_ok() {}
    peer.reader.await.unwrap().unwrap();
}
