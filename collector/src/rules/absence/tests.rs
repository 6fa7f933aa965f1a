//! EgressFirewalls that disappear: which names are absent, and until when.

use proto::api::{EgressFirewall, KubeOvnDnsNameResolver};

use super::*;
use crate::rules::{
    rule_set::Rules,
    tests::{firewall, key, published::Published},
};

const MINUTES: Duration = Duration::from_secs(60);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// EgressFirewalls of so many namespaces, with a name each.
fn rules(count: usize) -> Published {
    let mut rules = Published::default();
    for i in 0..count {
        rules.apply(&firewall(&namespace(i), &[&name(i)]));
    }
    rules
}

fn namespace(i: usize) -> String {
    format!("n{i}")
}

fn name(i: usize) -> String {
    format!("n{i}.example.com.")
}

fn keys(namespaces: impl IntoIterator<Item = usize>) -> BTreeSet<ObjectKey> {
    let namespaces = namespaces.into_iter();
    namespaces.map(|i| key(&namespace(i))).collect()
}

/// One EgressFirewall that disappeared is there again.
fn comes_back(rules: &mut Published, i: usize, now: Instant) {
    rules.apply(&firewall(&namespace(i), &[&name(i)]));
    update_limit(rules, now);
}

fn update_limit(rules: &mut Published, now: Instant) {
    rules.update_limit(now);
}

/// So many of 100 disappear at once, and a list lacks them 5 s later.
fn rules_without(gone: usize, start: Instant) -> Published {
    let mut rules = rules(100);
    for i in 0..gone {
        rules.remove(&key(&namespace(i)), start);
        update_limit(&mut rules, start);
    }
    rules.absences.list(&keys(gone..100), start + seconds(5));
    update_limit(&mut rules, start);
    rules
}

/// The absent names, with whether a list lacks them.
fn absent(rules: &mut Published) -> Vec<(String, bool)> {
    let absent = rules.absent().into_iter();
    absent
        .map(|(name, listed)| (name.to_string(), listed))
        .collect()
}

#[test]
fn a_list_of_a_namespace_that_cannot_be_read_lacks_nothing_of_it() {
    let (mut rules, start) = (rules(3), Instant::now());
    for i in 0..2 {
        rules.remove(&key(&namespace(i)), start);
    }
    let mut listed = keys(2..3);
    listed.insert(ObjectKey::all_in(&namespace(0)));
    rules.absences.list(&listed, start + seconds(5));
    assert_eq!(absent(&mut rules), [(name(0), false)]);
}

#[test]
fn up_to_three_that_go_are_believed_once_a_later_list_lacks_them() {
    for count in 1..=3 {
        let (mut rules, start) = (rules(3), Instant::now());
        for i in 0..count {
            rules.remove(&key(&namespace(i)), start);
        }
        assert_eq!(rules.absences.next_list(), Some(start + seconds(5)));
        let rest = keys(count..3);
        // A list that began earlier says nothing.
        rules.absences.list(&rest, start + seconds(4));
        assert_eq!(absent(&mut rules).len(), count);
        rules.absences.list(&rest, start + seconds(5));
        assert_eq!(absent(&mut rules), []);
        assert_eq!(rules.absences.next_list(), None);
    }
}

#[test]
fn more_of_them_are_away_for_ten_minutes() {
    let (mut rules, start) = (rules(100), Instant::now());
    for i in 0..4 {
        rules.remove(&key(&namespace(i)), start);
    }
    let rest = keys(4..100);
    assert_eq!(absent(&mut rules)[0], (name(0), false));
    rules.absences.list(&rest, start + seconds(5));
    let names = absent(&mut rules);
    assert_eq!(names.len(), 4);
    assert!(names.iter().all(|(_, listed)| *listed));
    assert_eq!(rules.absences.next_list(), Some(start + 10 * MINUTES));
    rules
        .absences
        .list(&rest, start + 10 * MINUTES - seconds(1));
    assert_eq!(absent(&mut rules).len(), 4);
    rules.absences.list(&rest, start + 10 * MINUTES);
    assert_eq!(absent(&mut rules), []);
}

#[test]
fn one_that_goes_while_many_are_away_is_believed() {
    let (mut rules, start) = (rules(100), Instant::now());
    for i in 0..50 {
        rules.remove(&key(&namespace(i)), start);
    }
    rules.absences.list(&keys(50..100), start + seconds(5));
    rules.remove(&key(&namespace(50)), start + MINUTES);
    rules
        .absences
        .list(&keys(51..100), start + MINUTES + seconds(5));
    let names = absent(&mut rules);
    assert_eq!(names.len(), 50);
    assert!(!names.contains(&(name(50), true)));
}

#[test]
fn a_list_waits_until_none_has_gone_for_a_while_but_not_for_ever() {
    let (mut rules, start) = (rules(100), Instant::now());
    for i in 0..60_u32 {
        let now = start + seconds(1) * i;
        rules.remove(&key(&namespace(i as usize)), now);
        let expected = (now + seconds(5)).min(start + seconds(30));
        assert_eq!(rules.absences.next_list(), Some(expected));
    }
    rules.absences.list(&keys(60..100), start + seconds(30));
    let names = absent(&mut rules);
    assert_eq!(names.len(), 60);
    assert_eq!(names.iter().filter(|(_, listed)| *listed).count(), 26);
}

#[test]
fn what_a_list_still_has_is_away_from_then_on() {
    let (mut rules, start) = (rules(2), Instant::now());
    rules.remove(&key(&namespace(0)), start);
    rules.absences.list(&keys(0..2), start + seconds(5));
    assert_eq!(rules.absences.next_list(), Some(start + seconds(10)));
    rules.apply(&firewall(&namespace(0), &[&name(0)]));
    assert_eq!(absent(&mut rules), []);
    assert_eq!(rules.absences.next_list(), None);
}

#[test]
fn a_store_that_was_out_of_sync_begins_every_delay_anew() {
    let (mut rules, start) = (rules(5), Instant::now());
    rules.reset::<EgressFirewall>(&[], &BTreeSet::new(), start);
    rules.absences.list(&BTreeSet::new(), start + seconds(5));
    let back = start + 9 * MINUTES;
    rules.absences.restart(back);
    assert!(absent(&mut rules).iter().all(|(_, listed)| !listed));
    rules.absences.list(&BTreeSet::new(), start + 11 * MINUTES);
    assert_eq!(absent(&mut rules).len(), 5);
    rules.absences.list(&BTreeSet::new(), back + 10 * MINUTES);
    assert_eq!(absent(&mut rules), []);
}

#[test]
fn a_name_of_another_firewall_is_present_and_an_edited_out_one_dropped() {
    let (mut rules, start) = (rules(3), Instant::now());
    rules.apply(&firewall(&namespace(1), &[&name(0), &name(1)]));
    rules.remove(&key(&namespace(0)), start);
    assert_eq!(absent(&mut rules), []);
    rules.apply(&firewall(&namespace(1), &[]));
    // The EgressFirewall that disappeared had it, and no list has covered that one yet.
    assert_eq!(absent(&mut rules), [(name(0), false)]);
}

#[test]
fn one_that_is_there_and_cannot_be_read_has_the_names_that_it_had() {
    let (mut rules, start) = (rules(2), Instant::now());
    rules.remove(&key(&namespace(0)), start);
    rules.keep(&keys([0]));
    assert_eq!(absent(&mut rules), []);
    let names: Vec<_> = rules.settle().keys().map(ToString::to_string).collect();
    assert_eq!(names, [name(0), name(1)]);
    rules.remove(&key(&namespace(0)), start);
    assert_eq!(absent(&mut rules), [(name(0), false)]);
}

#[test]
fn of_many_that_come_back_the_last_are_away_for_ten_minutes_more() {
    let start = Instant::now();
    let mut rules = rules_without(40, start);
    for i in 0..36 {
        comes_back(&mut rules, i, start + seconds(20 + i as u64));
    }
    // 30 were there again after 49 s, and ten are few.
    let again = start + seconds(49);
    assert_eq!(rules.absences.next_list(), Some(again + 10 * MINUTES));
    let rest = || keys((0..36).chain(40..100));
    for now in [start + MINUTES, again + 10 * MINUTES - seconds(1)] {
        rules.absences.list(&rest(), now);
        let names = absent(&mut rules);
        assert_eq!(names.len(), 4);
        assert!(names.iter().all(|(_, listed)| !listed), "{names:?}");
    }
    rules.absences.list(&rest(), again + 10 * MINUTES);
    assert_eq!(absent(&mut rules), []);
}

#[test]
fn an_absence_during_a_mass_absence_is_believed_after_the_list() {
    let start = Instant::now();
    let mut rules = rules_without(40, start);
    for i in 0..36 {
        comes_back(&mut rules, i, start + seconds(20));
    }
    let goes = start + MINUTES;
    rules.remove(&key(&namespace(50)), goes);
    update_limit(&mut rules, goes);
    assert_eq!(rules.absences.next_list(), Some(goes + seconds(5)));
    let rest = keys((0..36).chain(40..50).chain(51..100));
    rules.absences.list(&rest, goes + seconds(5));
    let names = absent(&mut rules);
    assert_eq!(names.len(), 4);
    assert!(!names.contains(&(name(50), true)));
}

#[test]
fn the_hold_of_ten_minutes_restarts_once_and_not_at_each_return() {
    let start = Instant::now();
    let mut rules = rules_without(11, start);
    comes_back(&mut rules, 0, start + MINUTES);
    for i in 2..10 {
        let now = start + MINUTES * i;
        rules.remove(&key(&namespace(0)), now);
        update_limit(&mut rules, now);
        comes_back(&mut rules, 0, now + seconds(1));
    }
    let rest = keys([0].into_iter().chain(11..100));
    rules.absences.list(&rest, start + 11 * MINUTES);
    assert_eq!(absent(&mut rules), []);
}

#[test]
fn a_few_left_absent_of_a_mass_absence_do_not_count_as_few() {
    let (mut rules, start) = (rules(100), Instant::now());
    for i in 0..40 {
        rules.remove(&key(&namespace(i)), start);
        update_limit(&mut rules, start);
    }
    for i in 0..38 {
        comes_back(&mut rules, i, start + seconds(2));
    }
    let rest = keys((0..38).chain(40..100));
    rules.absences.list(&rest, start + seconds(10));
    let away = [(name(38), false), (name(39), false)];
    assert_eq!(absent(&mut rules), away);
}

#[test]
fn names_back_with_a_list_leave_the_others_held_for_ten_more_minutes() {
    let start = Instant::now();
    let mut rules = rules_without(40, start);
    let back = start + MINUTES;
    rules.absences.restart(back);
    let listed: Vec<_> = (2..100)
        .map(|i| firewall(&namespace(i), &[&name(i)]))
        .collect();
    rules.reset(&listed, &BTreeSet::new(), back);
    update_limit(&mut rules, back);
    rules.absences.list(&keys(2..100), back + MINUTES);
    assert_eq!(absent(&mut rules), [(name(0), false), (name(1), false)]);
}

#[test]
fn many_whose_time_is_over_one_after_the_other_wait_no_longer() {
    let (mut rules, start) = (rules(100), Instant::now());
    for i in 0..20 {
        let now = start + seconds(i as u64);
        rules.remove(&key(&namespace(i)), now);
        update_limit(&mut rules, now);
    }
    for i in 0..20 {
        let now = start + 10 * MINUTES + seconds(i as u64);
        rules.absences.list(&keys(20..100), now);
        update_limit(&mut rules, now);
        assert_eq!(absent(&mut rules).len(), 19 - i);
    }
}

#[test]
fn a_name_of_kube_ovn_outlives_its_last_object_for_ten_minutes() {
    let object = |name: &str, policy: &str| -> KubeOvnDnsNameResolver {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "kubeovn.io/v1",
            "kind": "DNSNameResolver",
            "metadata": {"name": name, "labels": {"anp": policy}},
            "spec": {"name": "www.example.com."},
        }))
        .unwrap()
    };
    let clients = crate::clients::Clients::default();
    let terms = crate::rules::RetentionRules::default();
    let mut rules = Rules::of::<KubeOvnDnsNameResolver>(terms, clients.clone(), Default::default());
    let mut wanted = crate::rules::Wanted::default();
    let start = Instant::now();
    rules.apply(&object("anp-web-1", "web"));
    rules.settle(&mut wanted);
    let policy = clients.known("policy web").unwrap();
    assert_eq!(*wanted.names["www.example.com."].namespaces, [policy]);
    assert_eq!(wanted.order[&policy].len(), 1);
    let key = ObjectKey {
        namespace: String::new(),
        name: "anp-web-1".to_owned(),
    };
    rules.remove(&key, start);
    rules.settle(&mut wanted);
    for seconds in [6, 300, 599] {
        let now = start + Duration::from_secs(seconds);
        rules.absences.list(&BTreeSet::new(), now);
        rules.settle(&mut wanted);
        assert!(!wanted.absent["www.example.com."], "{seconds}");
    }
    let due = rules.absences.next_list().unwrap();
    assert_eq!(due, start + ABSENT_AFTER);
    rules.absences.list(&BTreeSet::new(), due);
    rules.settle(&mut wanted);
    assert!(wanted.names.is_empty() && wanted.order.is_empty());
}
