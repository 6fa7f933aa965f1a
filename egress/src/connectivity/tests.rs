use clap::Parser;
use serde_json::{Value, json};

use super::*;

#[derive(Parser)]
struct Parsed {
    #[command(flatten)]
    args: TestArgs,
}

fn found(of: &[Value]) -> String {
    let args = Parsed::parse_from(["egress"]).args;
    let connected: Vec<_> = of
        .iter()
        .map(|it| serde_json::from_value(it.clone()).unwrap())
        .collect();
    Report::new(findings(&args, &connected)).text()
}

fn connected(destination: &str, address: Option<&str>, millis: u64, error: Option<&str>) -> Value {
    json!({
        "destination": destination, "address": address, "lookupMilliseconds": 3,
        "connectMilliseconds": millis, "error": error,
    })
}

#[test]
fn connections_as_they_should_be_are_well() {
    let text = found(&[
        connected("kubernetes.io:443", Some("192.0.2.1"), 12, None),
        connected("registry.k8s.io:443", Some("2001:db8::1"), 1_013, None),
        connected(
            "example.com:443",
            Some("192.0.2.3"),
            5_000,
            Some("no answer in 5 s"),
        ),
    ]);
    let expected = "✓ Allowed name: kubernetes.io:443 was reached by the first packet: 192.0.2.1 in 12 ms, its answer in 3 ms\n\
        ✓ Name under a wildcard: registry.k8s.io:443 was reached by a repeated packet: 2001:db8::1 in 1013 ms, its answer in 3 ms\n\
        ✓ Denied name: example.com:443 was not reached: 192.0.2.3: no answer in 5 s\n\
        All is well.";
    assert_eq!(text, expected);
}

#[test]
fn connection_that_should_not_be_is_a_fault() {
    let text = found(&[
        connected(
            "kubernetes.io:443",
            Some("192.0.2.1"),
            5_000,
            Some("no answer in 5 s"),
        ),
        connected("registry.k8s.io:443", None, 0, Some("no address")),
        connected("example.com:443", Some("192.0.2.3"), 10, None),
    ]);
    for part in [
        "✗ Allowed name: kubernetes.io:443 was not reached: 192.0.2.1: no answer in 5 s\n    egress explain kubernetes.io\n",
        "✗ Name under a wildcard: registry.k8s.io:443 has no address for the pod: no address\n",
        "✗ Denied name: example.com:443 was reached: 192.0.2.3 in 10 ms",
        "3 faults.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
