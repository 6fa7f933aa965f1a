//! The borrowed event against prost: it has the same values, and both refuse the same bytes.

use std::net::IpAddr;

use prost::Message as _;

use crate::dnstap::{ClientResponse, Timestamp, pb};

/// What prost's types of the schema cannot tell: whether the required type of a message was there.
#[derive(Clone, PartialEq, prost::Message)]
struct TypePresence {
    #[prost(message, optional, tag = "14")]
    message: Option<MessageTypePresence>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MessageTypePresence {
    #[prost(int32, optional, tag = "1")]
    kind: Option<i32>,
}

fn address(bytes: &Option<Vec<u8>>) -> Option<IpAddr> {
    let bytes = bytes.as_deref()?;
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap())),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap())),
        _ => None,
    }
}

fn check_values(response: &ClientResponse<'_>, event: &pb::Dnstap) {
    let none = pb::Message::default();
    let message = event.message.as_ref().unwrap_or(&none);
    let expected = message.response_message.as_deref();
    assert_eq!(response.message, expected);
    assert_eq!(response.extra, event.extra());
    assert_eq!(response.client(), address(&message.query_address));
    let port = message.query_port;
    assert_eq!(response.port(), port.and_then(|it| it.try_into().ok()));
    let time = message.response_time_sec.map(|seconds| Timestamp {
        seconds,
        nanoseconds: message.response_time_nsec(),
    });
    assert_eq!(response.time(), time);
}

/// Whether prost takes the bytes.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let (response, event) = (ClientResponse::parse(bytes), pb::Dnstap::decode(bytes));
    if let Some(usual) = ClientResponse::parse_usual(bytes) {
        assert_eq!(response, Ok(usual));
    }
    let kinds = bytes.windows(2).filter(|pair| pair.first() == Some(&0x08));
    match (&response, &event) {
        (Ok(Some(response)), Ok(event)) => {
            let presence = TypePresence::decode(bytes).unwrap();
            let kind = presence.message.and_then(|message| message.kind);
            assert_eq!(kind, Some(pb::message::Type::ClientResponse as i32));
            check_values(response, event);
        }
        (Ok(None), Ok(event)) => {
            let message = event.message.as_ref();
            let kind = message.map(|it| it.r#type);
            // Only a second type can make it one.
            if kind == Some(pb::message::Type::ClientResponse as i32) {
                assert!(kinds.count() > 1, "{event:?} of {bytes:?}");
            }
        }
        (Err(error), Err(_)) => {
            assert!(error.offset <= bytes.len(), "{} of {}", error, bytes.len());
        }
        // It is left when it says that it is another kind.
        (Ok(None), Err(_)) => assert!(kinds.count() > 0, "{bytes:?}"),
        _ => panic!("{response:?} where prost reads {event:?}, of {bytes:?}"),
    }
    event.is_ok()
}
