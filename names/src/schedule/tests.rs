use std::{cmp::Reverse, collections::BinaryHeap};

use super::*;

const GRACE: Duration = Duration::from_secs(5);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000) + Duration::from_millis(millis)
}

fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

fn names(count: usize, zone: &str) -> Vec<DnsName> {
    (0..count)
        .map(|i| name(&format!("host{i}.{zone}")))
        .collect()
}

fn refresh(at: Timestamp) -> NextLookup {
    NextLookup::Refresh { at, grace: GRACE }
}

const FORGOTTEN: NextLookup = NextLookup::Never { is_removed: true };

#[test]
fn new_name_is_due_at_once_and_backs_off_without_an_address() {
    let mut schedule = LookupScheduler::default();
    let www = name("www.example.com");
    schedule.reschedule(&www, NextLookup::Initial);
    let next = schedule.pop(at(700)).unwrap();
    assert_eq!((next.name, next.due), (www.clone(), at(700)));
    assert_eq!(schedule.pop(at(800)), None, "it is under way");
    let mut now = 900;
    for seconds in [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 10, 20, 40, 80, 120, 120] {
        schedule.done(&www, false, false, at(now));
        schedule.reschedule(&www, NextLookup::Initial);
        now += seconds * 1_000;
        assert_eq!(schedule.next(), Some(at(now)));
        schedule.pop(at(now)).unwrap();
    }
    // A client finds it again.
    schedule.done(&www, false, false, at(now));
    schedule.reset_backoff(&www);
    schedule.reschedule(&www, refresh(at(now + 30_000)));
    let next = schedule.next().unwrap().since(at(now));
    assert_eq!(jitter(&www, at(now), Duration::ZERO), Duration::ZERO);
    assert!((30_000..=31_000).contains(&next.as_millis()), "{next:?}");
}

/// As after a restart or a change of the lead: all names are due long before their addresses expire.
#[test]
fn failed_look_up_is_repeated_before_known_addresses_expire() {
    let mut schedule = LookupScheduler::default();
    let www = name("www.example.com");
    let expires = refresh(at(4_500_000));
    schedule.reschedule(&www, expires);
    schedule.schedule_early(&www, at(1_000));
    for now in [1_000, 6_000, 11_000] {
        assert_eq!(schedule.pop(at(now)).unwrap().due, at(now));
        schedule.done(&www, false, false, at(now));
        schedule.reschedule(&www, expires);
    }
    assert_eq!(schedule.next(), Some(at(16_000)));
    schedule.pop(at(16_000)).unwrap();
    schedule.done(&www, true, false, at(16_000));
    schedule.reschedule(&www, expires);
    assert!(schedule.next() >= Some(at(4_500_000)));
}

#[test]
fn unresponsive_name_is_asked_again_at_once_and_patiently() {
    let mut schedule = LookupScheduler::default();
    let www = name("www.example.com");
    schedule.reschedule(&www, NextLookup::Initial);
    for (now, is_patient) in [(0, false), (500, true), (10_500, true)] {
        let next = schedule.pop(at(now)).unwrap();
        assert_eq!(next.is_patient, is_patient, "{now}");
        let took = if is_patient { 5_000 } else { 500 };
        schedule.done(&www, false, true, at(now + took));
        schedule.reschedule(&www, NextLookup::Initial);
        let is_due = schedule.next().is_some_and(|next| next <= at(now + took));
        assert_eq!(is_due, !is_patient);
    }
    schedule.pop(at(20_500)).unwrap();
    schedule.done(&www, true, false, at(20_510));
    schedule.reschedule(&www, refresh(at(30_000)));
    assert!(!schedule.pop(at(40_000)).unwrap().is_patient);
}

#[test]
fn early_time_stays_until_the_look_up_or_the_eviction() {
    let mut schedule = LookupScheduler::default();
    let www = name("www.example.com");
    schedule.reschedule(&www, refresh(at(60_000)));
    schedule.schedule_early(&www, at(10_000));
    schedule.reschedule(&www, refresh(at(90_000)));
    assert_eq!(
        (schedule.due(&www), schedule.count()),
        (Some(at(10_000)), 1)
    );
    schedule.discard(&www);
    schedule.reschedule(&www, FORGOTTEN);
    assert_eq!((schedule.next(), schedule.count()), (None, 0));
    // The result of a running look-up is ignored, unless a client brings the name back.
    schedule.schedule_early(&www, at(10_000));
    schedule.pop(at(10_000)).unwrap();
    schedule.discard(&www);
    schedule.reschedule(&www, FORGOTTEN);
    assert!(schedule.is_discarded(&www));
    schedule.reset_backoff(&www);
    assert!(!schedule.is_discarded(&www));
}

#[test]
fn lost_answers_for_made_up_names_take_bounded_memory() {
    let mut schedule = LookupScheduler::default();
    let known = name("known.example.com");
    schedule.reschedule(&known, refresh(at(60_000)));
    let taken = names(2 * MOST_NEW, "example.com")
        .iter()
        .filter(|name| schedule.schedule_lost(name, at(0)))
        .count();
    assert_eq!(taken, MOST_NEW);
    assert!(schedule.schedule_lost(&known, at(0)), "it is in a rule");
}

/// How late the look-ups of one namespace begin, at most, while another has so many dead names.
fn lateness_beside(dead: usize) -> Duration {
    let mut schedule = LookupScheduler::default();
    for name in names(dead, "dead.example") {
        schedule.reschedule(&name, NextLookup::Initial);
    }
    let known = names(500, "alive.example");
    for name in &known {
        schedule.reschedule(name, refresh(at(0)));
    }
    let mut running: BinaryHeap<(Reverse<u64>, DnsName)> = BinaryHeap::new();
    let mut latest = Duration::ZERO;
    for step in 0_u64..12_000 {
        let millis = step * 10;
        if millis % 1_000 == 0 {
            let new = name(&format!("new{millis}.alive.example"));
            schedule.reschedule(&new, NextLookup::Initial);
        }
        while let Some((Reverse(end), name)) = running.peek().cloned()
            && end <= millis
        {
            running.pop();
            let is_dead = name.as_str().ends_with("dead.example.");
            schedule.done(&name, !is_dead, is_dead, at(millis));
            let next = if is_dead {
                NextLookup::Initial
            } else {
                refresh(at(millis + 5_000))
            };
            schedule.reschedule(&name, next);
        }
        while let Some(next) = schedule.pop(at(millis)) {
            let is_dead = next.name.as_str().ends_with("dead.example.");
            let took = match (is_dead, next.is_patient) {
                (true, true) => 5_000,
                (true, false) => 500,
                (false, _) => 20,
            };
            if !is_dead {
                latest = latest.max(at(millis).since(next.due));
            }
            running.push((Reverse(millis + took), next.name));
        }
    }
    // One that never began is late, too.
    let waiting = known.iter().filter_map(|name| schedule.due(name));
    let waiting = waiting.map(|due| at(120_000).since(due)).max();
    latest.max(waiting.unwrap_or_default())
}

#[test]
fn ten_thousand_dead_names_delay_no_other_look_up_by_a_second() {
    let latest = lateness_beside(10_000);
    assert!(latest < Duration::from_secs(1), "{latest:?}");
}

#[test]
fn thousands_of_refreshes_delay_no_new_name() {
    let mut schedule = LookupScheduler::default();
    for name in names(10_000, "example.com") {
        schedule.reschedule(&name, refresh(at(0)));
    }
    schedule.pop(at(5_000)).unwrap();
    schedule.reschedule(&name("new.example.org"), NextLookup::Initial);
    let next = [(); 2].map(|()| schedule.pop(at(5_000)).unwrap().name);
    assert!(next.contains(&name("new.example.org")));
}
