//! What a stock CoreDNS 1.15.0 sends, as `fstrm_capture` wrote it to `coredns-1.15.0.fstrm`:
//! an A, an AAAA (asked in mixed case) and an NXDOMAIN over TCP answered by CoreDNS itself, then an A that
//! it forwarded and the same again from its cache. The last two come from a server block with `extra`.

use crate::dnstap::{CONTENT_TYPE, Event, MessageKind, SocketFamily, SocketProtocol};
use crate::frame_stream::{Action, Codec, Limits, Step, StreamReader};
use bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};

use MessageKind::{ClientQuery, ClientResponse, ForwarderQuery, ForwarderResponse};
use SocketProtocol::{Tcp, Udp};

const CAPTURE: &[u8] = include_bytes!("coredns-1.15.0.fstrm");

fn payloads() -> Vec<&'static [u8]> {
    let mut reader = StreamReader::new(CONTENT_TYPE, Limits::default());
    let (mut rest, mut payloads) = (CAPTURE, Vec::new());
    loop {
        rest = match reader.step(rest).unwrap() {
            Step::Data { payload, consumed } => {
                payloads.push(payload);
                &rest[consumed..]
            }
            Step::Control {
                action: Action::None,
                consumed,
            } => &rest[consumed..],
            Step::Control {
                action: Action::Finish(None),
                consumed,
            } => {
                assert_eq!(consumed, rest.len(), "nothing follows STOP");
                return payloads;
            }
            other => panic!("{other:?} at byte {}", reader.offset()),
        };
    }
}

#[test]
fn its_events_are_read() {
    let payloads = payloads();
    let events: Vec<_> = payloads
        .iter()
        .map(|payload| Event::parse(payload).unwrap())
        .collect();
    let kinds: Vec<_> = events
        .iter()
        .map(|e| (e.kind, e.socket_protocol.unwrap()))
        .collect();
    let expected = [
        (ClientQuery, Udp),
        (ClientResponse, Udp),
        (ClientQuery, Udp),
        (ClientResponse, Udp),
        (ClientQuery, Tcp),
        (ClientResponse, Tcp),
        (ClientQuery, Udp),
        (ForwarderQuery, Udp),
        (ForwarderResponse, Udp),
        (ClientResponse, Udp),
        (ClientQuery, Udp),
        (ClientResponse, Udp),
    ];
    assert_eq!(kinds, expected);
    for (position, event) in events.iter().enumerate() {
        assert_eq!(
            (event.identity, event.version),
            (&b"coredns"[..], &b"CoreDNS-1.15.0"[..])
        );
        let extra: &[u8] = if position < 6 {
            b""
        } else {
            b"www.example.net. A udp"
        };
        assert_eq!(event.extra, extra);
        assert_eq!(event.socket_family, Some(SocketFamily::Inet));
        assert_eq!(event.query_address.unwrap().to_string(), "127.0.0.1");
        let forwarder = matches!(event.kind, ForwarderQuery | ForwarderResponse);
        let upstream = forwarder.then_some(15_354);
        assert_eq!(
            (event.response_address.is_some(), event.response_port),
            (forwarder, upstream)
        );

        let response = matches!(event.kind, ClientResponse | ForwarderResponse);
        assert_eq!(event.response_message.is_some(), response);
        assert_eq!(event.query_message.is_some(), !response);
        assert_eq!(event.query_zone, None);
        let asked = event.query_time.unwrap();
        assert!(asked.to_system_time().is_some() && asked.nanoseconds < 1_000_000_000);
        assert_eq!(event.response_time.is_some(), response);
        assert!(event.response_time.is_none_or(|answered| asked <= answered));
    }
    let lengths: Vec<_> = events
        .iter()
        .filter_map(|e| Some(e.response_message?.len()))
        .collect();
    assert_eq!(lengths, [106, 87, 45, 75, 75, 75]);
}

#[test]
fn it_is_written_as_it_was_read() {
    let (mut codec, mut src) = (Codec::default(), BytesMut::from(CAPTURE));
    let mut written = BytesMut::new();
    while let Some(frame) = codec.decode_eof(&mut src).unwrap() {
        codec.encode(frame, &mut written).unwrap();
    }
    assert_eq!(written, CAPTURE);
}
