//! What follows from the statuses.

mod random;

use super::*;
use crate::testing::{dns, key, object};

const DELAY: Duration = Duration::from_secs(5);

/// The content of the store at a time that the test sets.
struct Clocked {
    desired: Desired,
    now: Instant,
}

impl Clocked {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        Self {
            desired: Desired::new(options),
            now: Instant::now(),
        }
    }

    fn apply(&mut self, event: Event<DnsNameResolver>) -> HashSet<DnsName> {
        self.desired.apply(&event, self.now)
    }

    fn applied(&mut self, entries: &[&[&str]]) -> usize {
        self.apply(Event::Applied(object("dns-1", W, entries)))
            .len()
    }

    /// An object of this uid is there.
    fn made(&mut self, uid: &str, addresses: &[&str]) -> usize {
        let mut object = object("dns-1", W, &[addresses]);
        object.metadata.uid = Some(uid.to_owned());
        self.apply(Event::Applied(object)).len()
    }

    fn gone(&mut self) {
        self.apply(Event::Deleted(key("dns-1")));
    }

    /// Time passes; returns the names that change by that.
    fn after(&mut self, millis: u64) -> HashSet<DnsName> {
        self.now += Duration::from_millis(millis);
        self.desired.expire(self.now)
    }

    fn standing(&self) -> Standing {
        self.desired.wanted(&dns(W)).unwrap().standing
    }

    fn wanted(&self) -> Vec<String> {
        texts(self.desired.wanted(&dns(W)).unwrap().addresses.all().iter())
    }

    fn left(&self) -> Vec<String> {
        texts(self.desired.wanted(&dns(W)).unwrap().left.iter().copied())
    }
}

const W: &str = "www.example.com.";

fn texts(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<String> {
    let texts = addresses.into_iter().map(|address| address.to_string());
    texts.collect()
}

#[test]
fn the_addresses_of_all_entries_and_objects_of_a_name_are_added_up() {
    let mut store = Clocked::new();
    let first = object(
        "dns-1",
        W,
        &[&["10.0.0.2", "2001:db8::1"], &["10.0.0.1", "10.0.0.2"]],
    );
    let second = object("dns-2", W, &[&["10.0.0.3", "2001:db8::1"]]);
    let changed = store.apply(Event::Synced(vec![first, second]));
    assert_eq!(changed, HashSet::from_iter([dns(W)]));
    let desired = &store.desired;
    let of = |family| texts(desired.wanted(&dns(W)).unwrap().of_family(family).iter());
    assert_eq!(of(Family::V4), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(of(Family::V6), ["2001:db8::1"]);
    assert!(desired.wanted(&dns("other.example.")).is_none());
}

#[test]
fn the_guards_hold_whatever_the_store_says() {
    let cluster = vec!["10.128.0.0/14".parse().unwrap()];
    let mut store = Clocked::with(Options {
        filter: Filter::new(cluster).deny(vec!["192.0.2.0/24".parse().unwrap()]),
        ..Options::default()
    });
    let ips = [
        "::ffff:10.0.0.1",
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.256",
        "x",
        "10.128.0.1",
        "2001:db8::1",
        "192.0.2.1",
    ];
    store.applied(&[&ips]);
    assert_eq!(store.wanted(), ["10.0.0.1"]);
    let skipped = |store: &Clocked| Skip::ALL.map(|reason| store.desired.skipped(reason));
    assert_eq!(skipped(&store), [2, 0, 1, 1, 0, 0, 0, 1, 1, 1]);
    store.applied(&[&["x"]]);
    assert_eq!(skipped(&store), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    store.gone();
    assert_eq!(skipped(&store), [0; Skip::ALL.len()]);
}

#[test]
fn a_change_of_times_alone_is_none() {
    let mut store = Clocked::new();
    assert_eq!(store.applied(&[&["10.0.0.1"]]), 1);
    let mut later = object("dns-1", W, &[&["10.0.0.1"]]);
    let status = later.status.as_mut().unwrap();
    status.resolved_names[0].resolved_addresses[0].ttl_seconds = 99;
    status.resolved_names[0].dns_name = "other.example.".into();
    assert!(store.apply(Event::Applied(later.clone())).is_empty());
    assert!(store.apply(Event::Synced(vec![later])).is_empty());
}

#[test]
fn a_name_counts_as_resolved_from_its_first_status_on() {
    let mut store = Clocked::new();
    let resolved = |store: &Clocked| store.desired.wanted(&dns(W)).unwrap().resolved;
    assert_eq!(store.applied(&[]), 1);
    assert!(!resolved(&store));
    store.applied(&[&["garbage"]]);
    assert!(!resolved(&store));
    store.applied(&[&["10.0.0.1"]]);
    assert!(resolved(&store));
    store.applied(&[]);
    assert!(resolved(&store));
}

#[test]
fn addresses_that_leave_are_remembered_until_the_database_was_looked_at() {
    let mut store = Clocked::new();
    store.applied(&[&["10.0.0.1", "10.0.0.2", "10.0.0.3"]]);
    store.applied(&[&["10.0.0.1"]]);
    assert_eq!(store.wanted(), ["10.0.0.1"], "at once, of the same object");
    assert_eq!(store.left(), ["10.0.0.2", "10.0.0.3"]);
    store.applied(&[&["10.0.0.1", "10.0.0.2"]]);
    assert_eq!(store.left(), ["10.0.0.3"]);
    store.desired.settle(&dns(W), |_| true);
    assert_eq!(store.left(), ["10.0.0.3"]);
    store.desired.settle(&dns(W), |_| false);
    assert_eq!(store.left(), Vec::<String>::new());
}

#[test]
fn what_another_object_still_has_does_not_leave() {
    let mut store = Clocked::new();
    store.apply(Event::Applied(object("dns-2", W, &[&["10.0.0.1"]])));
    store.applied(&[&["10.0.0.1", "10.0.0.2"]]);
    store.gone();
    assert_eq!(store.wanted(), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(store.after(5000), HashSet::from_iter([dns(W)]));
    assert_eq!(store.wanted(), ["10.0.0.1"]);
    assert_eq!(store.left(), ["10.0.0.2"]);
    assert_eq!(store.standing(), Standing::Present);
}

#[test]
fn an_object_goes_by_a_deletion_or_by_a_later_list_and_its_addresses_later() {
    let other = object("dns-2", "other.example.", &[]);
    for gone in [
        Event::Deleted(key("dns-1")),
        Event::Synced(vec![other.clone()]),
    ] {
        let mut store = Clocked::new();
        store.apply(Event::Synced(vec![
            object("dns-1", W, &[&["10.0.0.1"]]),
            other.clone(),
        ]));
        assert_eq!(store.apply(gone.clone()), HashSet::from_iter([dns(W)]));
        assert!(store.apply(gone).is_empty());
        assert_eq!(store.standing(), Standing::Leaving);
        assert_eq!(store.desired.next_deadline(), Some(store.now + DELAY));
        assert!(store.after(4999).is_empty());
        assert_eq!(store.wanted(), ["10.0.0.1"]);
        assert_eq!(store.after(1), HashSet::from_iter([dns(W)]));
        assert_eq!(store.standing(), Standing::Gone);
        assert_eq!(store.wanted(), Vec::<String>::new());
        assert_eq!(store.left(), ["10.0.0.1"]);
        assert_eq!(store.desired.next_deadline(), None);
        store.desired.forget(&dns(W));
        assert!(store.desired.wanted(&dns(W)).is_none());
    }
}

#[test]
fn an_object_that_is_made_again_without_addresses_keeps_them_for_a_while() {
    let mut store = Clocked::new();
    store.made("1", &["10.0.0.1", "10.0.0.2"]);
    for deleted in [true, false] {
        if deleted {
            store.gone();
            store.after(20);
        }
        // The same name, another uid, and an empty status.
        store.made(if deleted { "2" } else { "3" }, &[]);
        assert_eq!(store.standing(), Standing::Present);
        assert_eq!(store.wanted(), ["10.0.0.1", "10.0.0.2"]);
        store.after(1000);
        // One returns; the other has until the end of the delay.
        store.made(if deleted { "2" } else { "3" }, &["10.0.0.1"]);
        store.after(3979);
        assert_eq!(store.wanted(), ["10.0.0.1", "10.0.0.2"]);
        store.after(if deleted { 1 } else { 21 });
        assert_eq!(store.wanted(), ["10.0.0.1"]);
        store.made(if deleted { "2" } else { "3" }, &["10.0.0.1", "10.0.0.2"]);
    }
    // What returned is held no longer: it goes with the status as ever.
    store.made("4", &[]);
    store.made("4", &["10.0.0.1"]);
    store.made("4", &[]);
    assert_eq!(store.wanted(), ["10.0.0.2"]);
    store.after(5000);
    assert_eq!(store.wanted(), Vec::<String>::new());
}

#[test]
fn an_object_without_uid_is_the_same_under_its_name() {
    let mut store = Clocked::new();
    store.applied(&[&["10.0.0.1"]]);
    store.made("1", &["10.0.0.2"]);
    assert_eq!(store.wanted(), ["10.0.0.2"]);
}

#[test]
fn a_list_of_nothing_that_was_known_removes_nothing() {
    let whole = || {
        vec![
            object("dns-1", W, &[&["10.0.0.1"]]),
            object("dns-2", "b.example.", &[]),
        ]
    };
    let stranger = object("dns-9", "stranger.example.", &[]);
    let mut store = Clocked::new();
    store.apply(Event::Synced(whole()));
    for list in [vec![], vec![stranger.clone()], vec![stranger.clone()]] {
        store.apply(Event::Synced(list));
        store.after(60_000);
        assert_eq!(store.wanted(), ["10.0.0.1"]);
        assert_eq!(store.desired.missing(), 2);
        assert!(!store.desired.is_complete());
    }
    // What is in it counts, though.
    assert!(store.desired.wanted(&dns("stranger.example.")).is_some());
    // One that holds one of those that are missing is believed.
    store.apply(Event::Synced(vec![whole().remove(1), stranger]));
    assert_eq!(store.desired.missing(), 0);
    assert!(store.desired.is_complete());
    store.after(5000);
    assert_eq!(store.standing(), Standing::Gone);
}

#[test]
fn what_is_missing_returns_or_goes_one_by_one() {
    let mut store = Clocked::new();
    let first = object("dns-1", W, &[&["10.0.0.1"]]);
    let second = object("dns-2", "b.example.", &[]);
    store.apply(Event::Synced(vec![first.clone(), second]));
    store.apply(Event::Synced(vec![]));
    store.apply(Event::Applied(first));
    assert_eq!(store.desired.missing(), 1);
    store.apply(Event::Deleted(key("dns-2")));
    assert_eq!(store.desired.missing(), 0);
    store.gone();
    store.after(5000);
    assert_eq!(store.standing(), Standing::Gone, "a deletion is believed");
}

#[test]
fn an_empty_list_is_believed_on_demand() {
    let mut store = Clocked::with(Options {
        allow_empty: true,
        ..Options::default()
    });
    store.applied(&[&["10.0.0.1"]]);
    store.apply(Event::Synced(vec![]));
    store.after(5000);
    assert_eq!(
        (store.standing(), store.desired.missing()),
        (Standing::Gone, 0)
    );
}

#[test]
fn a_store_that_cannot_be_read_changes_nothing() {
    let mut store = Clocked::new();
    store.apply(Event::Synced(vec![]));
    assert!(store.desired.is_complete());
    store.applied(&[&["10.0.0.1"]]);
    let event = Event::OutOfSync("the folder is gone".into());
    assert!(store.apply(event).is_empty());
    assert!(!store.desired.is_complete());
    assert_eq!(store.wanted(), ["10.0.0.1"]);
}

#[test]
fn what_went_before_the_store_was_cut_off_may_return_afterwards() {
    for returns in [&[][..], &["10.0.0.1"]] {
        let mut store = Clocked::new();
        let other = object("dns-2", "other.example.", &[]);
        store.apply(Event::Synced(vec![
            object("dns-1", W, &[&["10.0.0.1"]]),
            other.clone(),
        ]));
        store.gone();
        store.apply(Event::OutOfSync("no connection".into()));
        assert_eq!(store.desired.next_deadline(), None);
        assert!(store.after(60_000).is_empty());
        assert_eq!(store.wanted(), ["10.0.0.1"]);
        let again = object("dns-1", W, &[returns]);
        store.apply(Event::Synced(vec![again, other]));
        assert_eq!(store.standing(), Standing::Present);
        store.after(4999);
        assert_eq!(store.wanted(), ["10.0.0.1"]);
        store.after(1);
        assert_eq!(store.wanted(), returns);
        assert_eq!(store.desired.next_deadline(), None);
    }
}

#[test]
fn nothing_follows_from_absence_while_an_object_does_not_decode() {
    let mut store = Clocked::new();
    store.apply(Event::Undecodable([key("dns-1")].into()));
    store.apply(Event::Synced(vec![]));
    assert!(!store.desired.is_complete());
    store.apply(Event::Undecodable(BTreeSet::new()));
    assert!(store.desired.is_complete());
}

#[test]
fn what_is_known_of_an_object_that_cannot_be_read_holds() {
    let mut store = Clocked::new();
    store.applied(&[&["10.0.0.1"]]);
    store.apply(Event::Undecodable([key("dns-1")].into()));
    assert!(store.apply(Event::Synced(vec![])).is_empty());
    assert!(store.desired.is_complete());
    assert_eq!((store.wanted().len(), store.desired.missing()), (1, 0));
    store.apply(Event::Undecodable(BTreeSet::new()));
    store.apply(Event::Deleted(key("dns-1")));
    store.after(5000);
    assert_eq!(store.standing(), Standing::Gone);
}

#[test]
fn a_name_is_adopted_as_if_it_had_just_gone() {
    let mut store = Clocked::new();
    store.desired.adopt(&dns(W), store.now);
    let wanted = store.desired.wanted(&dns(W)).unwrap();
    assert_eq!((wanted.standing, wanted.seen), (Standing::Leaving, false));
    store.after(1000);
    store.desired.adopt(&dns(W), store.now);
    store.after(4000);
    assert_eq!(store.standing(), Standing::Gone);
    // An object of it makes an end of that.
    store.desired.adopt(&dns(W), store.now);
    store.applied(&[]);
    assert!(store.after(5000).is_empty());
    assert_eq!(store.standing(), Standing::Present);
    store.desired.forget(&dns(W));
    assert_eq!(store.standing(), Standing::Present);
}

#[test]
fn an_unusable_name_costs_that_object_alone() {
    let mut store = Clocked::new();
    let bad = object("dns-1", "single", &[&["10.0.0.1"]]);
    let good = object("dns-2", W, &[&["10.0.0.2"]]);
    let changed = store.apply(Event::Synced(vec![bad, good]));
    assert_eq!(changed, HashSet::from_iter([dns(W)]));
    let count = |store: &Clocked| (store.desired.objects(), store.desired.unusable());
    assert_eq!(count(&store), (1, 1));
    // It was usable before: that holds.
    let unusable = Event::Applied(object("dns-2", "*", &[]));
    assert!(store.apply(unusable).is_empty());
    assert_eq!(store.wanted(), ["10.0.0.2"]);
    store.apply(Event::Deleted(key("dns-1")));
    store.apply(Event::Deleted(key("dns-2")));
    assert_eq!(count(&store), (0, 0));
}

#[test]
fn a_name_that_is_edited_leaves_the_old_one() {
    let mut store = Clocked::new();
    store.applied(&[&["10.0.0.1"]]);
    let renamed = object("dns-1", "Other.Example", &[&["10.0.0.1"]]);
    let changed = store.apply(Event::Applied(renamed));
    assert_eq!(changed, HashSet::from_iter([dns(W), dns("other.example.")]));
    assert_eq!(store.standing(), Standing::Leaving);
}

#[test]
fn what_is_remembered_of_a_name_is_bounded() {
    let mut store = Clocked::new();
    for third in 0..20 {
        let addresses: Vec<_> = (0..250)
            .map(|fourth| format!("10.0.{third}.{fourth}"))
            .collect();
        let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
        store.applied(&[&addresses]);
    }
    assert_eq!(store.left().len(), MAX_LEFT.next_multiple_of(250));
}

#[test]
fn what_leaves_at_once_is_remembered_whole() {
    let mut store = Clocked::new();
    let addresses: Vec<_> = (0..50_000)
        .map(|n| format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255))
        .collect();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    store.applied(&[&addresses]);
    store.applied(&[&addresses[..1]]);
    assert_eq!(store.left().len(), 49_999);
}
