//! The conditions of names that only a wildcard found.

use serde_json::{Value, json};

use super::*;
use crate::address_facts;

const WILD: &str = "*.example.com";
const A: &str = "a.example.com";

/// `Degraded=False` of another writer: OpenShift's plugin.
fn of_the_plugin() -> Value {
    json!([{
        "type": "Degraded", "status": "False", "reason": "NOERROR", "message": "No Error",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }])
}

fn stored(dns_name: &str, conditions: &Value) -> DnsNameResolverStatus {
    status(json!([{
        "dnsName": dns_name, "conditions": conditions,
        "resolvedAddresses": [stored_address("1.1.1.1", 300, 0)],
    }]))
}

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

#[test]
fn address_under_a_wildcard_leaves_after_its_next_look_up() {
    let mut known = Known::new(WILD);
    known.limits.lookups = true;
    known.limits.wildcard_idle = Duration::from_secs(3600);
    known.observe(A, &[("1.1.1.1", 300), ("2.2.2.2", 7200)], 0.0);
    let limits = known.limits.clone();
    let list = known.state.list();
    let facts = address_facts(list, &limits, |_, _| true, |_| String::new(), |_, _| true);
    let removals: Vec<_> = facts
        .map(|it| {
            (
                it.removed_at.since(at(0.0)) < Duration::from_secs(3600),
                it.removed_after_lookup,
            )
        })
        .collect();
    // The name is idle before the second one expires, and is then not looked up.
    assert_eq!(removals, [(true, true), (false, false)]);
}

#[test]
fn plugins_condition_stays_or_it_would_write_it_again() {
    let mut known = Known::new(WILD);
    known.stored = stored("a.example.com.", &of_the_plugin());
    let before = known.stored.clone();
    known.apply_stored(&before, 1.0);
    assert!(!known.write(1.0));
    assert_eq!(known.stored, before);
}
