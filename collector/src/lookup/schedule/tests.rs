use std::collections::{BTreeSet, HashMap};

use super::*;

const GRACE: Duration = Duration::from_secs(5);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000) + Duration::from_millis(millis)
}

fn name(text: String) -> DnsName {
    DnsName::parse(&text).unwrap()
}

fn names(count: usize, zone: &str) -> Vec<DnsName> {
    (0..count)
        .map(|i| name(format!("host{i}.{zone}")))
        .collect()
}

fn unwanted(_: &DnsName) -> Option<DnsName> {
    None
}

#[test]
fn a_new_name_is_due_from_when_it_came() {
    let mut schedule = LookupScheduler::default();
    let www = name("www.example.com".to_owned());
    schedule.enqueue_initial_lookup(&www, &[]);
    assert!(schedule.is_due(at(0)));
    schedule.enqueue_initial_lookup(&www, &[]);
    assert_eq!(schedule.next(), Some(at(0)));
    assert_eq!(schedule.pop(at(700), unwanted), Some((www.clone(), at(0))));
    assert!(!schedule.is_due(at(800)), "it is under way");
    schedule.done(&www, false, at(900));
    schedule.enqueue_initial_lookup(&www, &[]);
    assert_eq!(schedule.next(), Some(at(5900)));
}

#[test]
fn a_name_is_due_a_little_after_its_addresses_expire() {
    let mut schedule = LookupScheduler::default();
    for name in names(100, "example.com") {
        schedule.set(&name, at(0), GRACE);
    }
    let mut due = Vec::new();
    while let Some((_, at)) = schedule.pop(at(10_000), unwanted) {
        due.push(at.since(super::tests::at(0)).as_millis());
    }
    assert!(due.is_sorted());
    assert!(
        due[0] < 100 && (900..=1000).contains(due.last().unwrap()),
        "{due:?}"
    );
}

#[test]
fn ten_thousand_new_names_hold_up_no_known_one() {
    let mut schedule = LookupScheduler::default();
    for name in names(10_000, "new.example.com") {
        schedule.enqueue_initial_lookup(&name, &[]);
    }
    for name in names(300, "known.example.com") {
        schedule.set(&name, at(0), GRACE);
    }
    let due = std::iter::from_fn(|| schedule.pop(at(2000), unwanted));
    let due: Vec<_> = due.map(|(name, _)| name).collect();
    let is_known = |name: &DnsName| name.as_str().contains("known");
    let known = due.iter().filter(|name| is_known(name)).count();
    assert_eq!((known, due.len()), (300, 350));
    // The last known name came after at most a third as many new ones.
    let last = due.iter().rposition(is_known).unwrap();
    assert!(last < 400, "{last}");
}

#[test]
fn new_names_are_looked_up_fifty_at_once_and_then_2500_in_a_second() {
    let mut schedule = LookupScheduler::default();
    let names = names(5000, "new.example.com");
    for name in &names {
        schedule.enqueue_initial_lookup(name, &[]);
    }
    let mut taken = 0;
    for millis in 0..=2000 {
        let due = schedule.is_due(at(millis));
        let count = std::iter::from_fn(|| schedule.pop(at(millis), unwanted)).count();
        assert_eq!(due, count > 0, "whoever waits for it does so in vain");
        taken += count;
        let most = 50 + usize::try_from(millis).unwrap() * 5 / 2;
        assert!(
            (most - 3..=most).contains(&taken) || taken == 5000,
            "{taken} of {most}"
        );
    }
    assert_eq!(taken, 5000);
}

#[test]
fn a_new_name_is_held_up_by_three_known_ones_at_most() {
    let mut schedule = LookupScheduler::default();
    for name in names(1000, "known.example.com") {
        schedule.set(&name, at(0), GRACE);
    }
    for round in 0..10 {
        let new = name(format!("www{round}.example.org"));
        schedule.enqueue_initial_lookup(&new, &[]);
        let mut popped = (0..4).map(|_| schedule.pop(at(2000), unwanted).unwrap().0);
        assert!(popped.any(|name| name == new), "{round}");
    }
}

#[test]
fn wildcard_names_are_looked_up_100_a_second_and_each_gets_a_turn() {
    let mut schedule = LookupScheduler::default();
    let names = names(1024, "example.com");
    // Names under another wildcard have a rate of their own.
    let other = name("www.example.org".to_owned());
    for name in &names {
        schedule.set(name, at(0), GRACE);
    }
    schedule.set(&other, at(0), GRACE);
    let mut count: HashMap<DnsName, usize> = HashMap::new();
    let mut total = 0;
    // Every name is due again 5 s after its look-up: twice as many as the rate allows.
    for millis in 0..120_000_u64 {
        let now = at(millis);
        while let Some((name, due)) = schedule.pop(now, DnsName::wildcard) {
            assert!(due <= now);
            *count.entry(name.clone()).or_default() += 1;
            if name == other {
                assert!(now.since(due) < Duration::from_millis(2));
            } else {
                total += 1;
            }
            schedule.done(&name, true, now);
            schedule.set(&name, now + Duration::from_secs(5), GRACE);
        }
        assert!(total <= 100 + 1 + millis / 10, "{total} in {millis} ms");
    }
    assert!(total >= 11_990, "{total}");
    let least = names.iter().map(|name| count[name]).min();
    assert!(least >= Some(10), "{least:?}");
    assert!(count[&other] >= 18, "{}", count[&other]);
}

#[test]
fn a_turn_that_is_not_used_is_for_others() {
    let mut schedule = LookupScheduler::default();
    let names = names(200, "example.com");
    for name in &names {
        schedule.set(name, at(0), Duration::ZERO);
    }
    let at_once = std::iter::from_fn(|| schedule.pop(at(0), DnsName::wildcard)).count();
    assert_eq!(at_once, 101);
    // The others are delayed, and then clients' answers have them.
    for name in &names {
        schedule.set(name, at(30_000), Duration::ZERO);
    }
    let last = name("last.example.com".to_owned());
    schedule.set(&last, at(0), Duration::ZERO);
    assert_eq!(schedule.pop(at(1), DnsName::wildcard), None);
    assert_eq!(schedule.pop(at(10), DnsName::wildcard), Some((last, at(0))));
}

#[test]
fn after_the_clock_was_set_back_nothing_waits_for_the_old_time() {
    let mut schedule = LookupScheduler::default();
    let new = name("new.example.org".to_owned());
    let names = names(200, "example.com");
    schedule.enqueue_initial_lookup(&new, &[]);
    assert!(schedule.is_due(at(3_600_000)));
    for name in &names {
        schedule.set(name, at(0), Duration::ZERO);
    }
    assert!(schedule.pop(at(3_600_000), DnsName::wildcard).is_some());
    schedule.gap(at(0));
    schedule.enqueue_initial_lookup(&new, &[]);
    for name in &names {
        schedule.set(name, at(0), Duration::ZERO);
    }
    let due: Vec<_> = std::iter::from_fn(|| schedule.pop(at(0), DnsName::wildcard)).collect();
    assert!(due.contains(&(new, at(0))));
    assert_eq!(due.len(), 102);
}

#[test]
fn gaps_in_a_row_keep_no_name_of_a_large_wildcard_waiting() {
    let mut schedule = LookupScheduler::default();
    // As many as can be looked up in 30 s.
    let mut names = names(3000, "example.com");
    let mut looked_up = BTreeSet::new();
    for gap in 0..6 {
        let began = gap * 10_000;
        for (place, name) in (0..).zip(&names) {
            schedule.ask_after_gap(name, at(began + 10_000 * place / 3000));
        }
        // Those looked up last are the first in the next gap.
        for millis in (began..began + 10_000).step_by(10) {
            while let Some((name, _)) = schedule.pop(at(millis), DnsName::wildcard) {
                schedule.done(&name, true, at(millis));
                looked_up.insert(name);
            }
        }
        names.sort_by_key(|it| !looked_up.contains(it));
    }
    assert_eq!(looked_up.len(), names.len());
}

#[test]
fn evicted_names_stay_for_a_lost_answer_and_take_bounded_memory() {
    let mut schedule = LookupScheduler::default();
    let evict = |schedule: &mut LookupScheduler, name: &DnsName| {
        schedule.discard(name);
        let is_forgotten = true;
        schedule.reschedule(name, NextLookup::Never { is_forgotten });
    };
    let [gap, answer] = ["gap.example.com", "answer.example.com"].map(|it| name(it.to_owned()));
    schedule.ask_after_gap(&gap, at(0));
    schedule.ask_after_gap(&answer, at(10_000));
    schedule.ask(&answer, at(0));
    for name in [&gap, &answer] {
        evict(&mut schedule, name);
    }
    assert_eq!(schedule.pop(at(0), unwanted), Some((answer.clone(), at(0))));
    assert_eq!(schedule.pop(at(20_000), unwanted), None);
    schedule.done(&answer, false, at(0));
    evict(&mut schedule, &answer);
    assert_eq!(schedule.len(), 0);

    for name in names(2 * MAX_LOST, "example.com") {
        schedule.ask(&name, at(0));
        evict(&mut schedule, &name);
    }
    assert_eq!(schedule.len(), MAX_LOST);
    schedule.gap(at(0));
    assert_eq!(schedule.len(), 0);
}
