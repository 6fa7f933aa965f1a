//! Failures, stale addresses, and removal with look-ups.

use std::time::Duration;

use crate::failure::Failure;
use crate::{
    FamilyResult, Stored,
    tests::{Known, at, status},
};

const SERVFAIL: Failure = Failure::Rcode(2);

fn known(rule_name: &str) -> Known {
    let mut known = Known::new(rule_name);
    known.limits.lookups = true;
    known
}

impl Known {
    /// Status, reason and failure count of the first entry.
    fn degraded(&self) -> (String, String, i32) {
        let entry = &self.stored.resolved_names[0];
        let condition = &entry.conditions[0];
        (
            condition.status.clone(),
            condition.reason.clone(),
            entry.resolution_failures,
        )
    }
}

const WWW: &str = "www.example.com";
const V6_FAILED: [FamilyResult; 2] = [FamilyResult::Complete, FamilyResult::Unknown];

#[test]
fn answer_in_one_family_lets_nothing_of_the_other_go() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10), ("2001:db8::1", 10)], 0.0);
    known.looked_up(WWW, [FamilyResult::Complete, FamilyResult::Unknown], 10.0);
    assert_eq!(known.expire(100.0), 1);
    known.write(100.0);
    assert_eq!(known.status(), ["www.example.com. 2001:db8::1 5@10"]);
}

#[test]
fn five_failures_keep_addresses_for_max_stale() {
    for failure in [SERVFAIL, Failure::Rcode(5), Failure::Timeout] {
        let mut known = known(WWW);
        known.limits.max_stale = Duration::from_secs(3600);
        known.observe(WWW, &[("1.1.1.1", 10)], 0.0).write(0.0);
        for round in 0..400_u32 {
            known.failed(WWW, [failure; 2], 10.0 + 8.0 * f64::from(round));
        }
        assert_eq!(known.expire(3599.9), 0);
        assert_eq!(known.expire(3600.0), 1);
    }
}

#[test]
fn name_without_an_entry_has_no_failures() {
    let mut known = known(WWW);
    known.failed(WWW, [SERVFAIL; 2], 0.0);
    assert!(!known.write(0.0));
}

#[test]
fn family_that_fails_alone_is_kept_and_is_no_failure_of_name() {
    let mut known = known(WWW);
    known.limits.max_stale = Duration::from_secs(3600);
    known
        .observe(WWW, &[("1.1.1.1", 10), ("2001:db8::1", 10)], 0.0)
        .write(0.0);
    let mut now = 10.0;
    while now < 3600.0 {
        known.observe(WWW, &[("1.1.1.1", 10)], now);
        known.looked_up(WWW, V6_FAILED, now);
        assert_eq!(known.expire(now), 0);
        now += 5.0;
    }
    known.looked_up(WWW, V6_FAILED, 3600.0);
    assert_eq!(known.expire(3605.0), 1, "but not for ever");
    known.write(3605.0);
    assert_eq!(known.degraded().0, "False");
}

#[test]
fn address_is_retained_after_it_was_last_seen() {
    let mut known = known(WWW);
    known.limits.retain = Duration::from_secs(3600);
    known.observe(WWW, &[("1.1.1.1", 10)], 0.0);
    known.looked_up(WWW, [FamilyResult::Complete; 2], 10.0);
    assert_eq!(known.expire(3599.9), 0);
    assert_eq!(known.expire(3600.0), 1);
}

#[test]
fn standby_forgets_what_leader_removed_once_its_time_is_over() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10)], 0.0).write(0.0);
    known.observe(WWW, &[("2.2.2.2", 300)], 5.0);
    let removed = Stored::new(&status(serde_json::json!([])), &known.state);
    let addresses = |known: &mut crate::tests::Known, seconds| {
        known
            .state
            .apply_leader_removals(&removed, at(seconds), &known.limits);
        known.state.list().addresses()
    };
    assert_eq!(addresses(&mut known, 14.9), 2);
    assert_eq!(addresses(&mut known, 15.0), 1);
    assert_eq!(addresses(&mut known, 309.9), 1);
    assert_eq!(addresses(&mut known, 310.0), 0);
}
