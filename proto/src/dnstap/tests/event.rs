//! The borrowed event, field by field, and on bytes that lie.

use std::net::{IpAddr, Ipv6Addr};

use crate::{
    dnstap::{ClientResponse, Error, ErrorKind, Timestamp, pb},
    fuzzing::dnstap::check,
};
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

fn with_message(change: impl FnOnce(&mut pb::Message)) -> Vec<u8> {
    let mut event = client_response();
    change(event.message.as_mut().unwrap());
    event.encode_to_vec()
}

fn parsed(bytes: &[u8]) -> ClientResponse<'_> {
    ClientResponse::parse(bytes).unwrap().unwrap()
}

#[test]
fn what_is_wanted_of_a_response_to_a_client_is_given() {
    let mut event = client_response();
    event.extra = Some(b"ours".to_vec());
    let bytes = event.encode_to_vec();
    let response = parsed(&bytes);
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
fn an_empty_event_is_no_response_and_no_error() {
    assert_eq!(ClientResponse::parse(&[]), Ok(None));
}

#[test]
fn a_message_without_a_type_is_no_response() {
    // Dnstap { message: Message { query_port: 5 } }
    assert_eq!(ClientResponse::parse(&[0x72, 2, 0x30, 5]), Ok(None));
}

#[test]
fn an_address_of_any_other_length_is_no_address() {
    let of_length = |length: u8| {
        let bytes = with_message(|m| m.query_address = Some((1..=length).collect()));
        parsed(&bytes).client()
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

#[test]
fn the_length_of_an_address_counts_and_not_the_socket_family() {
    let bytes = with_message(|m| {
        m.socket_family = Some(pb::SocketFamily::Inet.into());
        m.query_address = Some(vec![0; 16]);
    });
    assert_eq!(
        parsed(&bytes).client(),
        Some(IpAddr::from(Ipv6Addr::UNSPECIFIED))
    );
}

#[test]
fn a_port_beyond_16_bits_is_no_port() {
    for (port, expected) in [(0, Some(0)), (65_535, Some(65_535)), (65_536, None)] {
        let bytes = with_message(|m| m.query_port = Some(port));
        assert_eq!(parsed(&bytes).port(), expected);
    }
}

#[test]
fn nanoseconds_without_seconds_are_no_time() {
    let bytes = with_message(|m| m.response_time_sec = None);
    assert_eq!(parsed(&bytes).time(), None);
}

fn refused(bytes: &[u8]) -> Error {
    assert!(pb::Dnstap::decode(bytes).is_err(), "prost takes {bytes:?}");
    ClientResponse::parse(bytes).expect_err("prost refuses this")
}

#[test]
fn a_wrong_element_is_named_with_its_place() {
    let cases: [(&[u8], usize, ErrorKind); 13] = [
        // identity says 9 bytes and has 1.
        (&[0x0a, 9, 1], 2, ErrorKind::Length { length: 9, left: 1 }),
        // message of 3 bytes whose query_address would go on behind it.
        (
            &[0x72, 3, 0x22, 4, 1, 2, 3, 4],
            4,
            ErrorKind::Length { length: 4, left: 1 },
        ),
        // the same with a fixed32.
        (
            &[0x72, 2, 0x4d, 1, 2, 3, 4],
            3,
            ErrorKind::Length { length: 4, left: 1 },
        ),
        // identity of 2^64 - 1 bytes.
        (
            &[0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
            11,
            ErrorKind::Length {
                length: u64::MAX,
                left: 0,
            },
        ),
        // An identity that is a varint.
        (
            &[0x08, 1],
            1,
            ErrorKind::WireType {
                field: 1,
                wire_type: 0,
            },
        ),
        // A type that is bytes.
        (
            &[0x7a, 0],
            1,
            ErrorKind::WireType {
                field: 15,
                wire_type: 2,
            },
        ),
        // A key that does not end, field 0, wire type 7, a key over 32 bits.
        (&[0x0a, 0, 0x80], 2, ErrorKind::Varint),
        (&[0x0a, 0, 0x02], 3, ErrorKind::Key(2)),
        (&[0x0f], 1, ErrorKind::Key(15)),
        (
            &[0x88, 0x80, 0x80, 0x80, 0x10],
            5,
            ErrorKind::Key(8 + (1 << 32)),
        ),
        // A group that ends without a beginning; one that ends as another.
        (&[0xa4, 1], 2, ErrorKind::Group { field: 20 }),
        (&[0xa3, 1, 0xac, 1], 4, ErrorKind::Group { field: 20 }),
        // policy.type is not UTF-8.
        (&[0x72, 5, 0x7a, 3, 0x0a, 1, 0xff], 6, ErrorKind::Utf8),
    ];
    for (bytes, offset, kind) in cases {
        assert_eq!(refused(bytes), Error { offset, kind }, "{bytes:?}");
    }
    let text = refused(&[0x0a, 9, 1]).to_string();
    assert_eq!(
        text,
        "field of 9 bytes where 1 are left (byte 2 of the event)"
    );
}

#[test]
fn every_event_cut_short_or_with_a_wrong_length_is_an_error_or_as_prost_reads_it() {
    let bytes = client_response().encode_to_vec();
    for cut in 0..bytes.len() {
        check(&bytes[..cut]);
    }
    for position in 0..bytes.len() {
        for value in 0..=255 {
            let mut lie = bytes.clone();
            lie[position] = value;
            check(&lie);
        }
    }
}

/// The same bytes in the event itself, in its message, and in the policy of that.
fn at_each_level(bytes: &[u8]) -> [Vec<u8>; 3] {
    let message = within(0x72, bytes.to_vec());
    let policy = within(0x72, within(0x7a, bytes.to_vec()));
    [bytes.to_vec(), message, policy]
}

#[test]
fn every_field_of_every_wire_type_is_read_or_refused_as_by_prost() {
    for field in 0..=20u32 {
        for wire_type in 0..=7 {
            let key = |wire_type| {
                let mut bytes = Vec::new();
                prost::encoding::encode_varint(u64::from(field << 3 | wire_type), &mut bytes);
                bytes
            };
            let mut bytes = key(wire_type);
            match wire_type {
                0 | 2 => bytes.push(0),
                1 => bytes.extend([0; 8]),
                3 => bytes.extend(key(4)),
                5 => bytes.extend([0; 4]),
                _ => {}
            }
            for bytes in at_each_level(&bytes) {
                check(&bytes);
            }
        }
    }
}

#[test]
fn a_varint_may_be_longer_than_it_needs_to_be_but_not_than_64_bits() {
    for length in 1..=12 {
        for last in [0, 1, 2, 3, 0x7f] {
            // A response_time_sec that is read, a query_time_sec that is passed over, and zeros behind it (a query_zone) so that it is not
            // the end.
            for key in [0x60, 0x40] {
                let mut bytes = vec![0x08, 6, key];
                bytes.extend(vec![0xff; length - 1]);
                bytes.push(last);
                for rest in [&[][..], &[0x5a, 8, 0, 0, 0, 0, 0, 0, 0, 0]] {
                    let bytes = within(0x72, [&bytes, rest].concat());
                    let taken = check(&bytes);
                    assert_eq!(ClientResponse::parse(&bytes).is_ok(), taken, "{bytes:?}");
                    assert_eq!(taken, length < 10 || (length == 10 && last < 2));
                }
            }
        }
    }
}

/// `depth` groups of an unknown field, one in the other, with a varint in the innermost.
fn groups(depth: usize) -> Vec<u8> {
    let mut bytes = [0xa3, 1].repeat(depth);
    bytes.extend([0xa8, 1, 7]);
    bytes.extend([0xa4, 1].repeat(depth));
    bytes
}

/// `inner` as the field with this key.
fn within(key: u8, inner: Vec<u8>) -> Vec<u8> {
    let mut bytes = vec![key];
    prost::encode_length_delimiter(inner.len(), &mut bytes).unwrap();
    bytes.extend(inner);
    bytes
}

#[test]
fn groups_are_skipped_as_deep_as_prost_does() {
    let in_message = |depth| within(0x72, groups(depth));
    let in_policy = |depth| within(0x72, within(0x7a, groups(depth)));
    let deepest = [groups(99), in_message(98), in_policy(97)];
    for bytes in deepest {
        assert!(pb::Dnstap::decode(&bytes[..]).is_ok() && ClientResponse::parse(&bytes).is_ok());
    }
    for bytes in [groups(100), in_message(99), in_policy(98)] {
        assert_eq!(refused(&bytes).kind, ErrorKind::Group { field: 21 });
    }
    // Far more than any stack would bear.
    refused(&[0xa3, 1].repeat(1_000_000));
}
