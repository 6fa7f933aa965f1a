//! The conditions of names that only a wildcard found.

use super::*;

const WILD: &str = "*.example.com";
const A: &str = "a.example.com";

/// The reason of each name's condition.
fn reasons(status: &DnsNameResolverStatus) -> Vec<String> {
    let names = status.resolved_names.iter();
    names
        .map(|name| {
            let reason = name.conditions.first().map_or("-", |it| &it.reason);
            format!("{} {reason}", name.dns_name)
        })
        .collect()
}

#[test]
fn found_name_has_a_condition_only_while_its_look_ups_fail() {
    let mut known = Known::new(WILD);
    known.observe(WILD, &[("9.9.9.9", 300)], 0.0);
    known.observe(A, &[("1.1.1.1", 300)], 0.0).write(0.0);
    let succeeded = ["*.example.com. NOERROR", "a.example.com. -"];
    assert_eq!(reasons(&known.stored), succeeded);
    known.failed(A, [Failure::Timeout; 2], 1.0);
    let update = |known: &mut Known, seconds: f64| {
        let stored = Stored::new(&known.stored, &known.state);
        StatusUpdate::new(&mut known.state, &stored, &known.limits, at(seconds)).unwrap()
    };
    let failed = update(&mut known, 1.0);
    assert!(failed.is_urgent());
    known.stored = failed.status();
    assert_eq!(
        reasons(&known.stored),
        ["*.example.com. NOERROR", "a.example.com. Timeout"]
    );
    known.observe(A, &[("1.1.1.1", 299)], 1.0);
    let again = update(&mut known, 1.0);
    assert!(again.is_urgent(), "the end of a failure is one");
    assert_eq!(reasons(&again.status()), succeeded);
}
