//! Failures, staleness, and removal where names are looked up.

use std::time::Duration;

use proto::api::Family;

use super::{
    Stored,
    tests::{Known, T0, at, name, status, stored_address},
};
use crate::resolve::Failure;

const SERVFAIL: Failure = Failure::Rcode(2);

fn known(spec: &str) -> Known {
    let mut known = Known::new(spec);
    known.limits.lookups = true;
    known
}

impl Known {
    /// A look-up at that second told what there is, of both families.
    fn asked(&mut self, text: &str, seconds: f64) -> &mut Self {
        self.memory.asked(&name(text), Family::V4, at(seconds));
        self.memory.asked(&name(text), Family::V6, at(seconds));
        self
    }

    fn failed(&mut self, text: &str, failure: Failure, seconds: f64) -> &mut Self {
        let now = at(seconds);
        self.memory
            .failed(&name(text), failure, now, now, &self.limits);
        self
    }

    fn next_lookup(&self, text: &str) -> Option<f64> {
        let next = self.memory.next_lookup(&name(text), &self.limits)?;
        Some((next.as_millis() - T0) as f64 / 1000.0)
    }

    /// Status, reason and count of the first entry.
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

#[test]
fn an_address_stays_until_its_name_was_asked_again() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10)], 0.0).write(0.0);
    assert_eq!(known.expire(1000.0), 0, "nobody asked");
    known.asked(WWW, 9.9);
    assert_eq!(known.expire(1000.0), 0, "asked before it expired");
    known.asked(WWW, 10.0);
    assert_eq!(known.expire(14.9), 0, "within the grace");
    assert_eq!(known.expire(15.0), 1);
}

#[test]
fn a_gap_makes_every_look_up_before_it_void() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10)], 0.0).write(0.0);
    known.asked(WWW, 12.0);
    known.memory.gap(at(14.0), &known.limits.clone());
    assert_eq!(known.expire(20.0), 0);
    assert_eq!(known.next_lookup(WWW), Some(10.0), "it is overdue");
    assert_eq!(known.asked(WWW, 21.0).expire(21.0), 1);
}

#[test]
fn a_name_is_looked_up_when_its_earliest_address_expires_and_once_for_each() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10), ("2.2.2.2", 30)], 0.0);
    assert_eq!(known.next_lookup(WWW), Some(10.0));
    known.asked(WWW, 10.0);
    assert_eq!(
        known.next_lookup(WWW),
        Some(30.0),
        "the one that was not in the answer waits for its grace"
    );
    known.expire(15.0);
    known.observe(WWW, &[("3.3.3.3", 5)], 20.0);
    assert_eq!(known.next_lookup(WWW), Some(25.0));
}

#[test]
fn an_answer_in_one_family_lets_nothing_of_the_other_go() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10), ("2001:db8::1", 10)], 0.0);
    known.memory.asked(&name(WWW), Family::V4, at(10.0));
    assert_eq!(known.expire(100.0), 1);
    known.write(100.0);
    assert_eq!(known.status(), ["www.example.com. 2001:db8::1 10@0"]);
}

#[test]
fn below_five_failures_what_expires_is_extended_by_the_minimum_ttl() {
    for failure in [Failure::NXDOMAIN, SERVFAIL, Failure::Timeout] {
        let mut known = known(WWW);
        known
            .observe(WWW, &[("1.1.1.1", 10), ("2.2.2.2", 300)], 0.0)
            .write(0.0);
        for round in 0..4_u32 {
            let now = 10.0 + 5.0 * f64::from(round);
            known.failed(WWW, failure, now);
            assert_eq!(known.next_lookup(WWW), Some(now + 5.0));
            assert_eq!(known.expire(now + 4.9), 0);
        }
        known.write(26.0);
        assert_eq!(
            known.status(),
            ["www.example.com. 1.1.1.1 5@25 2.2.2.2 300@0"]
        );
        assert_eq!(
            known.degraded(),
            ("True".to_owned(), failure.reason().into_owned(), 4)
        );
    }
}

#[test]
fn from_five_failures_on_nxdomain_lets_expired_addresses_go() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10)], 0.0).write(0.0);
    for round in 0..5_u32 {
        known.failed(WWW, Failure::NXDOMAIN, 10.0 + 5.0 * f64::from(round));
    }
    // The fourth extended it to 30 s; the fifth came at 30 s.
    assert_eq!(known.expire(34.9), 0);
    assert_eq!(known.expire(35.0), 1);
    assert!(known.write(35.0));
    assert_eq!(known.status(), Vec::<String>::new());
}

#[test]
fn from_five_failures_on_a_broken_upstream_keeps_addresses_for_max_stale() {
    for failure in [SERVFAIL, Failure::Rcode(5), Failure::Timeout] {
        let mut known = known(WWW);
        known.limits.max_stale = Duration::from_secs(3600);
        known.observe(WWW, &[("1.1.1.1", 10)], 0.0).write(0.0);
        for round in 0..400_u32 {
            known.failed(WWW, failure, 10.0 + 8.0 * f64::from(round));
        }
        assert_eq!(known.expire(3599.9), 0);
        assert_eq!(known.expire(3600.0), 1);
    }
}

#[test]
fn a_success_ends_the_failures() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10)], 0.0).write(0.0);
    known.failed(WWW, SERVFAIL, 10.0).write(10.0);
    assert_eq!(
        known.degraded(),
        ("True".to_owned(), "SERVFAIL".to_owned(), 1)
    );
    known.observe(WWW, &[("1.1.1.1", 10)], 11.0).write(11.0);
    assert_eq!(
        known.degraded(),
        ("False".to_owned(), "NOERROR".to_owned(), 0)
    );
}

#[test]
fn failures_go_on_after_a_restart() {
    let mut known = known(WWW);
    known.stored = status(serde_json::json!([{
        "dnsName": "www.example.com.", "resolvedAddresses": [stored_address("1.1.1.1", 5, -5)], "resolutionFailures": 4,
    }]));
    let stored = known.stored.clone();
    known
        .absorb(&stored, 0.0)
        .failed(WWW, Failure::NXDOMAIN, 1.0);
    known.write(1.0);
    assert_eq!(
        known.degraded(),
        ("True".to_owned(), "NXDOMAIN".to_owned(), 5)
    );
    assert_eq!(known.expire(5.0), 1);
}

#[test]
fn a_name_without_an_entry_has_no_failures() {
    let mut known = known(WWW);
    assert!(!known.failed(WWW, SERVFAIL, 0.0).write(0.0));
}

#[test]
fn a_family_that_fails_alone_is_kept_and_is_no_failure_of_the_name() {
    let mut known = known(WWW);
    known.limits.max_stale = Duration::from_secs(3600);
    known
        .observe(WWW, &[("1.1.1.1", 10), ("2001:db8::1", 10)], 0.0)
        .write(0.0);
    let mut now = 10.0;
    while now < 3600.0 {
        known.observe(WWW, &[("1.1.1.1", 10)], now);
        known.memory.asked(&name(WWW), Family::V4, at(now));
        known
            .memory
            .family_failed(&name(WWW), Family::V6, at(now), at(now), &known.limits);
        assert_eq!(known.expire(now), 0);
        now += 5.0;
    }
    known.memory.family_failed(
        &name(WWW),
        Family::V6,
        at(3600.0),
        at(3600.0),
        &known.limits,
    );
    assert_eq!(known.expire(3605.0), 1, "but not for ever");
    known.write(3605.0);
    assert_eq!(known.degraded().0, "False");
}

#[test]
fn an_address_is_retained_after_it_was_last_seen() {
    let mut known = known(WWW);
    known.limits.retain = Duration::from_secs(3600);
    known.observe(WWW, &[("1.1.1.1", 10)], 0.0);
    known.asked(WWW, 10.0);
    assert_eq!(known.expire(3599.9), 0);
    assert_eq!(known.expire(3600.0), 1);
}

#[test]
fn a_name_under_a_wildcard_that_clients_forgot_is_no_longer_looked_up() {
    let mut known = known("*.example.com");
    known.limits.wildcard_idle = Duration::from_secs(60);
    let mut sighting = super::tests::answer("a.example.com", &[("1.1.1.1", 10)], 0.0);
    sighting.client = Some("10.0.0.1".parse().unwrap());
    known.memory.observe(&sighting, &known.limits);
    let mut now = 10.0;
    while let Some(next) = known.next_lookup("a.example.com") {
        now = next;
        assert!(now < 60.0);
        known
            .observe("a.example.com", &[("1.1.1.1", 10)], now)
            .asked("a.example.com", now);
    }
    assert_eq!(now, 50.0, "our own look-ups are no sightings");
    assert_eq!(known.expire(64.9), 0);
    assert_eq!(known.expire(65.0), 1);
}

#[test]
fn a_replica_that_follows_forgets_what_the_leader_removed_and_keeps_what_it_alone_saw() {
    let mut known = known(WWW);
    known.observe(WWW, &[("1.1.1.1", 10)], 0.0).write(0.0);
    known.observe(WWW, &[("2.2.2.2", 300)], 5.0);
    let removed = status(serde_json::json!([]));
    known.stored = removed.clone();
    let removed = Stored::new(&removed, &known.memory);
    known.memory.follow(&removed, at(20.0));
    assert!(known.write(20.0), "the unexpired one goes back");
    assert_eq!(known.status(), ["www.example.com. 2.2.2.2 300@5"]);
}

#[test]
fn a_failure_never_moves_an_expiry_back() {
    let mut known = known(WWW);
    known.limits.min_ttl = Duration::from_secs(1);
    known.observe(WWW, &[("1.1.1.1", 30)], 0.0);
    known.failed(WWW, SERVFAIL, 26.0);
    assert_eq!(known.next_lookup(WWW), Some(30.0));
}
