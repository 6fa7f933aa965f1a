//! The rules, without a clock and a server.

use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn election(identity: &str) -> Election {
    Election::new("collector", identity.to_owned())
}

/// As a server stores it.
fn stored(mut lease: Lease, version: u32) -> Lease {
    lease.metadata.resource_version = Some(version.to_string());
    lease
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

/// A Lease that another process has just claimed.
fn of_another(version: u32, now: Instant) -> Lease {
    let mut other = election("other");
    other.found(None, now);
    stored(other.claim(now, Timestamp::UNIX_EPOCH).unwrap(), version)
}

#[test]
fn a_lease_that_is_not_there_is_made() {
    let now = Instant::now();
    let mut us = election("us");
    us.found(None, now);
    let claim = us.claim(now, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(claim.metadata.resource_version, None);
    let spec = claim.spec.clone().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("us"));
    assert_eq!(spec.lease_duration_seconds, Some(10));
    assert_eq!(us.leads_until(), None, "it is not written yet");
    us.wrote(stored(claim, 1), now, now + seconds(1));
    assert_eq!(us.leads_until(), Some(now + RENEW_DEADLINE));
}

#[test]
fn a_lease_counts_from_the_start_of_a_renewal_and_not_from_its_answer() {
    let now = Instant::now();
    let mut us = election("us");
    us.found(None, now);
    let claim = us.claim(now, Timestamp::UNIX_EPOCH).unwrap();
    us.wrote(stored(claim, 1), now, now + seconds(5));
    assert_eq!(us.leads_until(), Some(now + seconds(7)));
    let renewal = us.claim(now + seconds(6), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(renewal.metadata.resource_version.as_deref(), Some("1"));
    let spec = renewal.spec.clone().unwrap();
    assert_eq!(
        spec.lease_transitions,
        Some(1),
        "no one else had it between"
    );
    us.wrote(stored(renewal, 2), now + seconds(6), now + seconds(6));
    assert_eq!(us.leads_until(), Some(now + seconds(13)));
}

#[test]
fn a_lease_of_another_is_taken_when_it_did_not_change_for_its_duration() {
    let now = Instant::now();
    let mut us = election("us");
    us.found(Some(of_another(1, now)), now);
    assert_eq!(us.claim(now + seconds(9), Timestamp::UNIX_EPOCH), None);
    // The other replica renews it, and the count begins again.
    us.found(Some(of_another(2, now)), now + seconds(9));
    // The same Lease again.
    us.found(Some(of_another(2, now)), now + seconds(15));
    assert_eq!(us.claim(now + seconds(18), Timestamp::UNIX_EPOCH), None);
    assert_eq!(us.next_turn(now + seconds(18)), now + seconds(19));
    // The API server takes no write: the retry interval stays.
    let tried = now + seconds(19);
    assert_eq!(us.next_turn(tried), tried + RETRY_PERIOD);
    let claim = us.claim(tried, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(holder(&claim), Some("us"));
    assert_eq!(claim.metadata.resource_version.as_deref(), Some("2"));
    assert_eq!(claim.spec.unwrap().lease_transitions, Some(2));
}

#[test]
fn a_lease_without_a_holder_is_taken_at_once() {
    let now = Instant::now();
    for nobody in [None, Some(String::new())] {
        let mut free = of_another(1, now);
        free.spec.as_mut().unwrap().holder_identity = nobody;
        let mut us = election("us");
        us.found(Some(free), now);
        let claim = us.claim(now, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(holder(&claim), Some("us"));
    }
    let mut us = election("us");
    us.found(Some(stored(Lease::default(), 1)), now);
    assert!(us.claim(now, Timestamp::UNIX_EPOCH).is_some());
}

#[test]
fn who_finds_another_in_its_place_leads_no_more() {
    let now = Instant::now();
    let mut us = election("us");
    us.found(None, now);
    let claim = us.claim(now, Timestamp::UNIX_EPOCH).unwrap();
    us.wrote(stored(claim, 1), now, now);
    us.found(Some(of_another(2, now)), now + seconds(1));
    assert_eq!(us.leads_until(), None);
    assert_eq!(us.claim(now + seconds(2), Timestamp::UNIX_EPOCH), None);
    assert_eq!(us.released(Timestamp::UNIX_EPOCH), None, "it is not ours");
}

#[test]
fn a_duration_that_makes_no_sense_is_not_followed() {
    let now = Instant::now();
    for (duration, over) in [
        (None, 10),
        (Some(-1), 10),
        (Some(1), 10),
        (Some(30), 30),
        (Some(i32::MAX), 60),
    ] {
        let mut lease = of_another(1, now);
        lease.spec.as_mut().unwrap().lease_duration_seconds = duration;
        let mut us = election("us");
        us.found(Some(lease), now);
        let at = |seconds_on| us.claim(now + seconds(seconds_on), Timestamp::UNIX_EPOCH);
        assert!(at(over - 1).is_none() && at(over).is_some(), "{duration:?}");
    }
}

#[test]
fn a_release_clears_the_holder_of_the_version_that_was_written() {
    let now = Instant::now();
    let mut us = election("us");
    assert_eq!(us.released(Timestamp::UNIX_EPOCH), None);
    us.found(None, now);
    let claim = us.claim(now, Timestamp::UNIX_EPOCH).unwrap();
    us.wrote(stored(claim, 7), now, now);
    let released = us.released(Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(holder(&released), None);
    assert_eq!(released.metadata.resource_version.as_deref(), Some("7"));
}

#[test]
fn a_process_that_would_lead_badly_takes_a_lease_later_than_others() {
    let now = Instant::now();
    let clock = Timestamp::UNIX_EPOCH;
    let mut deaf = election("deaf");
    deaf.delay = seconds(20);
    // It creates a missing Lease without a holder.
    deaf.found(None, now);
    let made = deaf.claim(now, clock).unwrap();
    assert_eq!(holder(&made), None);
    deaf.wrote(stored(made, 1), now, now);
    assert_eq!(deaf.leads_until(), None);
    assert_eq!(deaf.claim(now + seconds(19), clock), None);
    assert_eq!(deaf.next_turn(now + seconds(19)), now + seconds(20));
    let claim = deaf.claim(now + seconds(20), clock).unwrap();
    assert_eq!(holder(&claim), Some("deaf"));
    // It also clears the holder of an expired Lease.
    deaf.found(Some(of_another(2, now)), now);
    assert!(deaf.another_holds(now + seconds(9)) && !deaf.another_holds(now + seconds(10)));
    assert_eq!(deaf.claim(now + seconds(29), clock), None);
    assert!(deaf.claim(now + seconds(30), clock).is_some());
    deaf.delay = Duration::ZERO;
    assert!(deaf.claim(now + seconds(10), clock).is_some());
}
