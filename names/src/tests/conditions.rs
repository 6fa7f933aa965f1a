//! Conditions, above all of names that only a wildcard found.

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

#[test]
fn condition_of_another_writer_becomes_ours_with_its_time() {
    use crate::{condition::ConditionWords as Words, name::ResolutionState as State};
    let failing = State::Failing(Failure::Timeout);
    let [then, now] = [at(0.0), at(9.0)];
    let of = |state, since| Words::Ours(state, since);
    let mut conditions = of(State::Resolved, then).conditions();
    assert_eq!(conditions[0].message, "the last look-up succeeded");
    let mut other = conditions[0].clone();
    other.type_ = "Other".into();
    conditions.push(other);
    let foreign = Words::new(&conditions);
    let ours = foreign.next(State::Resolved, now);
    assert_eq!(ours, of(State::Resolved, then));
    assert!(!ours.differs(&foreign));
    let fails = ours.next(failing, now);
    assert_eq!(fails, of(failing, now));
    assert!(fails.differs(&ours));
}

#[test]
fn name_without_addresses_keeps_its_reason_until_look_ups_say_another() {
    use FamilyResult::{Absent, Unknown};
    let guard = proto::address::Forbidden::Loopback.as_str();
    let mut known = Known::new(A);
    assert!(known.state.note_refused(guard));
    known = Known::new(A);
    known.observe(A, &[("1.1.1.1", 30)], 0.0).write(0.0);
    known.expire(4000.0);
    assert!(!known.state.note_refused(guard));
    for (results, reason) in [([Absent, Unknown], "Expired"), ([Absent; 2], "NoAddress")] {
        known.looked_up(A, results, 4001.0);
        known.write(4001.0);
        assert_eq!(reasons(&known.stored), [format!("{A}. {reason}")]);
    }
}

#[test]
fn malformed_address_in_a_status_is_removed_by_an_urgent_update() {
    let mut known = Known::new(A);
    let stored = status(serde_json::json!([{
        "dnsName": "a.example.com.", "resolutionFailures": 0,
        "resolvedAddresses": [stored_address("1.1.1.1", 30, 0), stored_address("1.1.1", 30, 0)],
    }]));
    known.apply_stored(&stored, 1.0);
    let stored = Stored::new(&stored, &known.state);
    let update = StatusUpdate::new(&mut known.state, &stored, &known.limits, at(1.0)).unwrap();
    assert!(update.is_urgent());
    assert_eq!(
        update.status().resolved_names[0].resolved_addresses.len(),
        1
    );
}
