use proto::facts::Problem;

use super::*;
use crate::check::{
    seen::Unseen,
    tests::{facts::collector_with, marks},
};

#[test]
fn versions_are_read_from_tags() {
    for (image, expected) in [
        ("registry.k8s.io/coredns/coredns:v1.14.7", Some([1, 14, 7])),
        (
            "rancher/hardened-coredns:v1.14.2-build20260401",
            Some([1, 14, 2]),
        ),
        ("registry:5000/coredns", None),
        ("quay.io/release@sha256:0123", None),
        ("coredns:1.12.0@sha256:0123", Some([1, 12, 0])),
        ("coredns:1.13", None),
    ] {
        assert_eq!(of_image(image), expected, "{image}");
    }
}

#[test]
fn only_a_stream_that_was_received_is_well() {
    use StreamState::{Forwards, NotStreaming, Streaming, Trying};
    for (states, expected) in [
        (&[Streaming, Streaming] as &[_], "✓"),
        (&[NotStreaming], "✗"),
        (&[Forwards], "!"),
        (&[Streaming, Trying], "?"),
        (&[], "?"),
    ] {
        let stream = |state: &StreamState| proto::facts::StreamFacts {
            server: "10.244.0.2:53".parse().unwrap(),
            name: "flush.cluster.local.".to_owned(),
            state: *state,
            reported_seconds: Some(4.0),
            delay_seconds: Some(0.012),
            rcode: Some(0),
        };
        let mut programs = collector_with(Ok(CollectorFacts {
            streams: states.iter().map(stream).collect(),
            ..CollectorFacts::default()
        }));
        let status = programs.collectors[0].answer.as_mut().unwrap();
        let problem = |code| Problem::fault(code, "DNS server 10.244.0.2:53", "", "");
        status
            .problems
            .extend(states.iter().filter_map(|it| match it {
                NotStreaming => Some(problem("DnsServerSendsNoDnstap")),
                Forwards => Some(problem("DnsServerForwardsProbes").warning()),
                Streaming | Trying => None,
            }));
        assert_eq!(marks(streams(&programs)), expected, "{states:?}");
    }
    let silent = collector_with(Err(Unseen("no answer in time".to_owned())));
    assert_eq!(marks(streams(&silent)), "?");
}
