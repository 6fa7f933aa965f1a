//! The event, field by field.

use std::net::{IpAddr, Ipv6Addr};

use crate::dnstap::{ClientResponse, Timestamp, pb};
use prost::Message as _;

/// A CLIENT_RESPONSE as CoreDNS sends it.
fn client_response() -> pb::Dnstap {
    pb::Dnstap {
        identity: Some(b"coredns-7d6f".to_vec()),
        version: Some(b"CoreDNS-1.15.0".to_vec()),
        extra: None,
        message: Some(pb::Message {
            r#type: pb::message::Type::ClientResponse.into(),
            socket_family: Some(pb::SocketFamily::Inet.into()),
            socket_protocol: Some(pb::SocketProtocol::Udp.into()),
            query_address: Some(vec![10, 244, 0, 7]),
            query_port: Some(40_001),
            query_time_sec: Some(1_790_000_000),
            query_time_nsec: Some(5),
            response_time_sec: Some(1_790_000_001),
            response_time_nsec: Some(999_999_999),
            response_message: Some(vec![0xab; 40]),
            ..pb::Message::default()
        }),
        r#type: pb::dnstap::Type::Message.into(),
    }
}

fn with_message(change: impl FnOnce(&mut pb::Message)) -> pb::Dnstap {
    let mut event = client_response();
    change(event.message.as_mut().unwrap());
    event
}

fn parsed(event: &pb::Dnstap) -> ClientResponse<'_> {
    ClientResponse::of(event).unwrap()
}

#[test]
fn client_response_in_the_usual_layout_has_all_fields() {
    let mut event = client_response();
    event.extra = Some(b"ours".to_vec());
    let bytes = event.encode_to_vec();
    let response = ClientResponse::parse_usual(&bytes).unwrap().unwrap();
    assert_eq!(response, parsed(&event));
    assert_eq!(response.extra, b"ours");
    assert_eq!(response.client(), Some(IpAddr::from([10, 244, 0, 7])));
    assert_eq!(response.port(), Some(40_001));
    let time = Timestamp {
        seconds: 1_790_000_001,
        nanoseconds: 999_999_999,
    };
    assert_eq!(response.time(), Some(time));
    let message = response.message.unwrap();
    assert_eq!(message, [0xab; 40]);
    assert!(
        bytes.as_ptr_range().contains(&message.as_ptr()),
        "the message is borrowed"
    );
}

#[test]
fn an_event_of_another_kind_or_without_a_message_is_no_response() {
    assert_eq!(ClientResponse::of(&pb::Dnstap::default()), None);
    let query = with_message(|m| m.r#type = pb::message::Type::ClientQuery.into());
    assert_eq!(ClientResponse::of(&query), None);
    // Dnstap { message: Message { query_port: 5 } }, without the type that the schema requires.
    let event = pb::Dnstap::decode(&[0x72, 2, 0x30, 5][..]).unwrap();
    assert_eq!(ClientResponse::of(&event), None);
}

#[test]
fn an_address_of_any_other_length_is_no_address() {
    let of_length = |length: u8| {
        let event = with_message(|m| m.query_address = Some((1..=length).collect()));
        parsed(&event).client()
    };
    let v6 = Ipv6Addr::from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    for length in 0..=20 {
        let expected = match length {
            4 => Some(IpAddr::from([1, 2, 3, 4])),
            16 => Some(IpAddr::from(v6)),
            _ => None,
        };
        assert_eq!(of_length(length), expected);
    }
}
