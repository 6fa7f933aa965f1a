use super::*;
use crate::check::seen::Unseen;

#[test]
fn versions_are_read_from_metrics_and_tags() {
    let metrics = "# TYPE coredns_build_info gauge\ncoredns_build_info{goversion=\"go1.26.1\",revision=\"a\",version=\"1.14.7\"} 1\n";
    assert_eq!(of_metrics(metrics).as_deref(), Some("1.14.7"));
    assert_eq!(of_metrics("coredns_health 1\n"), None);
    for (image, expected) in [
        ("registry.k8s.io/coredns/coredns:v1.14.7", Some("1.14.7")),
        (
            "rancher/hardened-coredns:v1.14.2-build20260401",
            Some("1.14.2"),
        ),
        ("registry:5000/coredns", None),
        ("quay.io/release@sha256:0123", None),
        ("coredns:1.12.0@sha256:0123", Some("1.12.0")),
    ] {
        assert_eq!(of_image(image).as_deref(), expected, "{image}");
    }
    assert_eq!(parsed("1.13"), None);
    assert!(parsed("1.9.4") < Some(SEVERAL_LINES));
}

fn block(state: &str) -> DnsBlock {
    DnsBlock {
        server: "10.244.0.2:53".parse().unwrap(),
        name: "flush.cluster.local.".to_owned(),
        state: state.to_owned(),
        reported_seconds: Some(4.0),
        delay_seconds: Some(0.012),
    }
}

fn marks(states: &[&str]) -> String {
    let status = CollectorStatus {
        dns_blocks: states.iter().map(|state| block(state)).collect(),
        ..CollectorStatus::default()
    };
    let programs = Programs::of_collector(Ok(status));
    let report = crate::check::report::Report::new(local_streams(&programs));
    let text = report.text();
    text.chars().filter(|it| "✓!?✗".contains(*it)).collect()
}

#[test]
fn only_a_stream_that_was_received_is_well() {
    for (states, expected) in [
        (&["streaming", "streaming"] as &[_], "✓"),
        (&["not_streaming"], "✗"),
        (&["forwards"], "!"),
        (&["streaming", "trying"], "?"),
        (&["some new state"], "?"),
        (&[], "?"),
    ] {
        assert_eq!(marks(states), expected, "{states:?}");
    }
    let silent = Programs::of_collector(Err(Unseen("no answer in time".to_owned())));
    let report = crate::check::report::Report::new(local_streams(&silent));
    assert!(
        report.text().starts_with("? dnstap streams"),
        "{}",
        report.text()
    );
}
