//! The borrowed event against prost: both take the bytes, with the same values, or neither does.

use std::net::IpAddr;

use prost::Message as _;

use crate::dnstap::{ClientResponse, Error, Event, MessageKind, Timestamp, pb};

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

fn time(seconds: Option<u64>, nanoseconds: Option<u32>) -> Option<Timestamp> {
    Some(Timestamp {
        seconds: seconds?,
        nanoseconds: nanoseconds.unwrap_or_default(),
    })
}

fn port(port: Option<u32>) -> Option<u16> {
    port.and_then(|port| port.try_into().ok())
}

/// The event that prost's reading amounts to.
fn expected<'a>(event: &'a pb::Dnstap, none: &'a pb::Message, kind: Option<i32>) -> Event<'a> {
    let message = event.message.as_ref().unwrap_or(none);
    Event {
        identity: event.identity(),
        version: event.version(),
        extra: event.extra(),
        kind: MessageKind::from(kind.unwrap_or_default() as u32),
        socket_family: message.socket_family.map(|number| (number as u32).into()),
        socket_protocol: message.socket_protocol.map(|number| (number as u32).into()),
        query_address: address(&message.query_address),
        response_address: address(&message.response_address),
        query_port: port(message.query_port),
        response_port: port(message.response_port),
        query_time: time(message.query_time_sec, message.query_time_nsec),
        response_time: time(message.response_time_sec, message.response_time_nsec),
        query_message: message.query_message.as_deref(),
        response_message: message.response_message.as_deref(),
        query_zone: message.query_zone.as_deref(),
    }
}

/// The view of a CLIENT_RESPONSE says what that of an event says, or ends before it comes to the end.
fn check_client_response(bytes: &[u8], event: &Result<Event<'_>, Error>) {
    let response = ClientResponse::parse(bytes);
    if let Some(usual) = ClientResponse::parse_usual(bytes) {
        assert_eq!(response, Ok(usual));
    }
    match (&response, event) {
        (Ok(Some(response)), Ok(event)) => {
            assert_eq!(event.kind, MessageKind::ClientResponse);
            assert_eq!(response.extra, event.extra);
            assert_eq!(response.message, event.response_message);
            assert_eq!(response.client(), event.query_address);
            assert_eq!(response.port(), event.query_port);
            assert_eq!(response.time(), event.response_time);
        }
        (Err(error), Err(of_event)) => assert_eq!(error, of_event),
        (Ok(None), Ok(event)) if event.kind == MessageKind::ClientResponse => {
            // Only a second type can make it one.
            let kinds = bytes.windows(2).filter(|pair| pair.first() == Some(&0x08));
            assert!(kinds.count() > 1, "{:?} of {:?}", event, bytes);
        }
        (Ok(None), _) => {}
        _ => panic!("{response:?} instead of {event:?}"),
    }
}

/// Whether both take the bytes.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let view = Event::parse(bytes);
    check_client_response(bytes, &view);
    match (pb::Dnstap::decode(bytes), view) {
        (Ok(event), Ok(view)) => {
            let presence = TypePresence::decode(bytes).unwrap();
            let kind = presence.message.and_then(|message| message.kind);
            let none = pb::Message::default();
            assert_eq!(view, expected(&event, &none, kind));
            true
        }
        (Err(_), Err(error)) => {
            assert!(error.offset <= bytes.len(), "{} of {}", error, bytes.len());
            false
        }
        (prost, view) => panic!("prost: {prost:?}, the view: {view:?}, of {bytes:?}"),
    }
}
