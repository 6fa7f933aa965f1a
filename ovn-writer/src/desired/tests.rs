//! What follows from the statuses.

use super::*;
use crate::testing::{dns, key, object};

const W: &str = "www.example.com.";

fn texts<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>) -> Vec<String> {
    addresses.into_iter().map(IpAddr::to_string).collect()
}

fn wanted(desired: &Desired) -> Vec<String> {
    texts(desired.wanted(&dns(W)).unwrap().addresses.iter())
}

fn left(desired: &Desired) -> Vec<String> {
    texts(desired.wanted(&dns(W)).unwrap().left)
}

fn applied(desired: &mut Desired, entries: &[&[&str]]) -> usize {
    desired
        .apply(Event::Applied(object("dns-1", W, entries)))
        .len()
}

#[test]
fn the_addresses_of_all_entries_and_objects_of_a_name_are_added_up() {
    let mut desired = Desired::default();
    let first = object(
        "dns-1",
        W,
        &[&["10.0.0.2", "2001:db8::1"], &["10.0.0.1", "10.0.0.2"]],
    );
    let second = object("dns-2", W, &[&["10.0.0.3", "2001:db8::1"]]);
    let changed = desired.apply(Event::Synced(vec![first, second]));
    assert_eq!(changed, [dns(W)].into());
    let of = |family| texts(desired.wanted(&dns(W)).unwrap().of_family(family));
    assert_eq!(of(Family::V4), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(of(Family::V6), ["2001:db8::1"]);
    assert!(desired.wanted(&dns("other.example.")).is_none());
}

#[test]
fn the_guards_hold_whatever_the_store_says() {
    let mut desired = Desired::default();
    let ips = [
        "::ffff:10.0.0.1",
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.256",
        "x",
    ];
    applied(&mut desired, &[&ips]);
    assert_eq!(wanted(&desired), ["10.0.0.1"]);
    let skipped = |desired: &Desired| Skip::ALL.map(|reason| desired.skipped(reason));
    assert_eq!(skipped(&desired), [2, 0, 1, 1, 0, 0, 0]);
    applied(&mut desired, &[&["x"]]);
    assert_eq!(skipped(&desired), [1, 0, 0, 0, 0, 0, 0]);
    desired.apply(Event::Deleted(key("dns-1")));
    assert_eq!(skipped(&desired), [0; 7]);
}

#[test]
fn a_change_of_times_alone_is_none() {
    let mut desired = Desired::default();
    assert_eq!(applied(&mut desired, &[&["10.0.0.1"]]), 1);
    let mut later = object("dns-1", W, &[&["10.0.0.1"]]);
    let status = later.status.as_mut().unwrap();
    status.resolved_names[0].resolved_addresses[0].ttl_seconds = 99;
    status.resolved_names[0].dns_name = "other.example.".into();
    assert!(desired.apply(Event::Applied(later.clone())).is_empty());
    assert!(desired.apply(Event::Synced(vec![later])).is_empty());
}

#[test]
fn a_name_counts_as_resolved_from_its_first_status_on() {
    let mut desired = Desired::default();
    let resolved = |desired: &Desired| desired.wanted(&dns(W)).unwrap().resolved;
    assert_eq!(applied(&mut desired, &[]), 1);
    assert!(!resolved(&desired));
    applied(&mut desired, &[&["garbage"]]);
    assert!(!resolved(&desired));
    applied(&mut desired, &[&["10.0.0.1"]]);
    assert!(resolved(&desired));
    applied(&mut desired, &[]);
    assert!(resolved(&desired));
}

#[test]
fn addresses_that_leave_are_remembered_until_the_database_was_looked_at() {
    let mut desired = Desired::default();
    applied(&mut desired, &[&["10.0.0.1", "10.0.0.2", "10.0.0.3"]]);
    applied(&mut desired, &[&["10.0.0.1"]]);
    assert_eq!(left(&desired), ["10.0.0.2", "10.0.0.3"]);
    applied(&mut desired, &[&["10.0.0.1", "10.0.0.2"]]);
    assert_eq!(left(&desired), ["10.0.0.3"]);
    desired.settle(&dns(W), true, |_| true);
    assert_eq!(left(&desired), ["10.0.0.3"]);
    desired.settle(&dns(W), true, |_| false);
    assert_eq!(left(&desired), Vec::<String>::new());
}

#[test]
fn what_another_object_still_has_does_not_leave() {
    let mut desired = Desired::default();
    desired.apply(Event::Applied(object("dns-2", W, &[&["10.0.0.1"]])));
    applied(&mut desired, &[&["10.0.0.1", "10.0.0.2"]]);
    desired.apply(Event::Deleted(key("dns-1")));
    assert_eq!(wanted(&desired), ["10.0.0.1"]);
    assert_eq!(left(&desired), ["10.0.0.2"]);
    assert!(desired.wanted(&dns(W)).unwrap().present);
}

#[test]
fn an_object_goes_by_a_deletion_or_by_a_later_whole() {
    for gone in [Event::Deleted(key("dns-1")), Event::Synced(vec![])] {
        let mut desired = Desired::default();
        applied(&mut desired, &[&["10.0.0.1"]]);
        assert_eq!(desired.apply(gone.clone()), [dns(W)].into());
        assert!(desired.apply(gone).is_empty());
        let state = desired.wanted(&dns(W)).unwrap();
        assert!(!state.present && state.resolved && state.addresses.is_empty());
        assert_eq!(left(&desired), ["10.0.0.1"]);
        desired.settle(&dns(W), true, |_| false);
        assert!(desired.wanted(&dns(W)).is_some(), "it still has rows");
        desired.settle(&dns(W), false, |_| false);
        assert!(desired.wanted(&dns(W)).is_none());
    }
}

#[test]
fn a_store_that_cannot_be_read_changes_nothing() {
    let mut desired = Desired::default();
    applied(&mut desired, &[&["10.0.0.1"]]);
    assert!(
        desired
            .apply(Event::OutOfSync("the folder is gone".into()))
            .is_empty()
    );
    assert_eq!(wanted(&desired), ["10.0.0.1"]);
}

#[test]
fn an_unusable_name_costs_that_object_alone() {
    let mut desired = Desired::default();
    let bad = object("dns-1", "single", &[&["10.0.0.1"]]);
    let good = object("dns-2", W, &[&["10.0.0.2"]]);
    assert_eq!(
        desired.apply(Event::Synced(vec![bad.clone(), good])),
        [dns(W)].into()
    );
    assert_eq!((desired.objects(), desired.unusable()), (1, 1));
    // It was usable before: that holds.
    assert!(
        desired
            .apply(Event::Applied(object("dns-2", "*", &[])))
            .is_empty()
    );
    assert_eq!(wanted(&desired), ["10.0.0.2"]);
    desired.apply(Event::Deleted(key("dns-1")));
    desired.apply(Event::Deleted(key("dns-2")));
    assert_eq!((desired.objects(), desired.unusable()), (0, 0));
}

#[test]
fn a_name_that_is_edited_leaves_the_old_one() {
    let mut desired = Desired::default();
    applied(&mut desired, &[&["10.0.0.1"]]);
    let renamed = object("dns-1", "Other.Example", &[&["10.0.0.1"]]);
    let changed = desired.apply(Event::Applied(renamed));
    assert_eq!(changed, [dns(W), dns("other.example.")].into());
    assert!(!desired.wanted(&dns(W)).unwrap().present);
}

#[test]
fn what_is_remembered_of_a_name_is_bounded() {
    let mut desired = Desired::default();
    for third in 0..20 {
        let addresses: Vec<_> = (0..250)
            .map(|fourth| format!("10.0.{third}.{fourth}"))
            .collect();
        let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
        applied(&mut desired, &[&addresses]);
    }
    assert_eq!(left(&desired).len(), MAX_LEFT);
}
