//! Events of a stock CoreDNS 1.15.0, as `fstrm_capture` wrote them to `coredns-1.15.0.fstrm`.
//!
//! CoreDNS itself answered an A, an AAAA (asked in mixed case) and an NXDOMAIN over TCP. It then forwarded an A query
//! and answered it again from its cache. The last two come from a server block with `extra`.

use prost::Message as _;

use crate::dnstap::{CONTENT_TYPE, ClientResponse, pb};
use crate::frame_stream::{Action, Limits, Step, StreamReader};

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
fn responses_of_a_capture_of_coredns_are_read() {
    let payloads = payloads();
    let read = payloads.iter().map(|payload| pb::Dnstap::decode(*payload));
    let events: Vec<_> = read.map(Result::unwrap).collect();
    let responses: Vec<_> = events.iter().map(ClientResponse::of).enumerate().collect();
    let positions = responses.iter().filter(|(_, it)| it.is_some());
    let positions: Vec<usize> = positions.map(|(position, _)| *position).collect();
    assert_eq!(positions, [1, 3, 5, 9, 11]);
    let mut lengths = Vec::new();
    for (position, response) in responses {
        let Some(response) = response else {
            continue;
        };
        let extra: &[u8] = match position {
            ..6 => b"",
            _ => b"www.example.net. A udp",
        };
        assert_eq!(response.extra, extra);
        assert_eq!(response.client().unwrap().to_string(), "127.0.0.1");
        assert!(response.port().is_some());
        assert!(response.time().unwrap().nanoseconds < 1_000_000_000);
        lengths.push(response.message.unwrap().len());
    }
    assert_eq!(lengths, [106, 87, 45, 75, 75]);
}

#[test]
fn the_usual_layout_is_that_of_coredns() {
    let events = payloads();
    let found = events
        .iter()
        .map(|event| ClientResponse::parse_usual(event).unwrap());
    assert_eq!(found.flatten().count(), 5);
}
