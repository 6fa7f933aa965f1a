//! The desired state that follows from statuses.

use std::net::IpAddr;

use super::*;
use crate::testing::{dns, key, object, without_addresses};

/// The content of the store.
struct Store {
    desired: Desired,
}

impl Store {
    fn new() -> Self {
        Self::with(Filter::default())
    }

    fn with(filter: Filter) -> Self {
        Self {
            desired: Desired::new(filter),
        }
    }

    fn apply(&mut self, event: Event<DnsNameResolver>) -> HashSet<DnsName> {
        self.desired.apply(&event)
    }

    fn applied(&mut self, entries: &[&[&str]]) -> usize {
        self.apply(Event::Applied(object("dns-1", W, entries)))
            .len()
    }

    /// Adds an object of this uid.
    fn made(&mut self, uid: &str, addresses: &[&str]) -> usize {
        let mut object = object("dns-1", W, &[addresses]);
        object.metadata.uid = Some(uid.to_owned());
        self.apply(Event::Applied(object)).len()
    }

    /// Writes a status with a reason for no address.
    fn said(&mut self, reason: &str) {
        let object = without_addresses("dns-1", W, reason);
        self.apply(Event::Applied(object));
    }

    fn gone(&mut self) {
        self.apply(Event::Deleted(key("dns-1")));
    }

    fn of_name(&self) -> Wanted<'_> {
        self.desired.wanted(&dns(W)).unwrap()
    }

    fn wanted(&self) -> Vec<String> {
        texts(self.of_name().addresses.all().iter())
    }

    /// The changes since the name was compared.
    fn moved(&self) -> Option<Vec<String>> {
        let changes = self.of_name().changes?;
        Some(texts(changes.addresses.iter()))
    }
}

const W: &str = "www.example.com.";

fn texts(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<String> {
    let texts = addresses.into_iter().map(|address| address.to_string());
    texts.collect()
}

#[test]
fn the_guards_hold_whatever_the_store_says() {
    let cluster = vec!["10.128.0.0/14".parse().unwrap()];
    let denied = vec!["192.0.2.0/24".parse().unwrap()];
    let mut store = Store::with(Filter::new(cluster).deny(denied));
    let ips = "::ffff:10.0.0.1 10.0.0.1 127.0.0.1 169.254.169.254 10.0.0.256 x 10.128.0.1 2001:db8::1 192.0.2.1";
    let ips: Vec<_> = ips.split(' ').collect();
    store.applied(&[&ips]);
    assert_eq!(store.wanted(), ["10.0.0.1"]);
    let skipped = |store: &Store| Skip::ALL.map(|reason| store.desired.skipped(reason));
    assert_eq!(skipped(&store), [2, 0, 1, 1, 0, 0, 0, 1, 1, 1]);
    store.applied(&[&["x"]]);
    assert_eq!(skipped(&store), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    store.gone();
    assert_eq!(skipped(&store), [0; Skip::ALL.len()]);
}

#[test]
fn a_change_of_times_alone_is_none() {
    let mut store = Store::new();
    assert_eq!(store.applied(&[&["10.0.0.1"]]), 1);
    let mut later = object("dns-1", W, &[&["10.0.0.1"]]);
    let status = later.status.as_mut().unwrap();
    status.resolved_names[0].resolved_addresses[0].ttl_seconds = 99;
    status.resolved_names[0].dns_name = "other.example.".into();
    assert!(store.apply(Event::Applied(later.clone())).is_empty());
    assert!(store.apply(Event::Synced(vec![later])).is_empty());
}

#[test]
fn a_status_without_addresses_says_nothing_unless_it_says_why() {
    let mut store = Store::new();
    assert_eq!(store.applied(&[]), 1);
    assert!(!store.of_name().is_complete);
    store.applied(&[&["garbage"]]);
    assert!(!store.of_name().is_complete);
    store.applied(&[&["10.0.0.1"]]);
    assert!(store.of_name().is_complete);
    store.applied(&[]);
    assert!(!store.of_name().is_complete);
    assert_eq!(store.wanted(), ["10.0.0.1"], "what was said last holds");
    store.said("NXDOMAIN");
    assert!(store.of_name().is_complete && store.wanted().is_empty());
    store.applied(&[]);
    assert!(store.wanted().is_empty(), "what was said last holds");
    // A filtered address is still an address.
    store.applied(&[&["127.0.0.1"]]);
    assert!(store.of_name().is_complete);
}

#[test]
fn only_the_entry_of_the_objects_own_name_says_that_there_is_no_address() {
    let said = |change: &dyn Fn(&mut proto::api::ResolvedName)| {
        let mut store = Store::new();
        store.applied(&[&["10.0.0.1"]]);
        let mut object = without_addresses("dns-1", W, "NXDOMAIN");
        change(&mut object.status.as_mut().unwrap().resolved_names[0]);
        store.apply(Event::Applied(object));
        store.wanted().is_empty()
    };
    assert!(said(&|_| ()));
    assert!(!said(&|entry| entry.dns_name = "other.example.".into()));
    assert!(!said(&|entry| entry.conditions.clear()));
    assert!(!said(&|entry| entry.conditions[0].status = "False".into()));
    assert!(!said(&|entry| entry.conditions[0].type_ = "Other".into()));
}

#[test]
fn change_of_the_store_is_kept_until_the_name_is_compared() {
    let mut store = Store::new();
    store.applied(&[&["10.0.0.1", "10.0.0.2", "10.0.0.3"]]);
    assert_eq!(store.moved(), None);
    store.desired.compared(&dns(W), true);
    assert_eq!(store.moved(), Some(vec![]));
    store.applied(&[&["10.0.0.1", "10.0.0.4"]]);
    let moved = ["10.0.0.2", "10.0.0.3", "10.0.0.4"].map(str::to_owned);
    assert_eq!(store.moved(), Some(moved.to_vec()));
    store.applied(&[&["10.0.0.1", "10.0.0.2"]]);
    assert_eq!(store.moved(), Some(vec!["10.0.0.3".to_owned()]));
    store.desired.compared(&dns(W), true);
    assert_eq!(store.moved(), Some(vec![]));
    // Also from a long status.
    let all: Vec<_> = (0..100).map(|n| format!("10.0.1.{n}")).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    store.applied(&[&all[..99]]);
    store.desired.compared(&dns(W), true);
    store.applied(&[&all]);
    assert_eq!(store.moved(), Some(vec!["10.0.1.99".to_owned()]));
    store.desired.compare_all();
    assert_eq!(store.moved(), None);
}

#[test]
fn a_recreated_object_without_addresses_keeps_them_until_it_has_a_status() {
    let mut store = Store::new();
    store.made("1", &["10.0.0.1", "10.0.0.2"]);
    for deleted in [true, false] {
        if deleted {
            store.gone();
        }
        // The same name, another uid, and an empty status.
        store.made(if deleted { "2" } else { "3" }, &[]);
        assert!(store.of_name().is_present && !store.of_name().is_complete);
        assert_eq!(store.wanted(), ["10.0.0.1", "10.0.0.2"]);
    }
    store.made("3", &["10.0.0.1"]);
    assert_eq!(store.wanted(), ["10.0.0.1"]);
    assert!(store.of_name().is_complete);
}

#[test]
fn unreadable_object_keeps_its_last_addresses() {
    let mut store = Store::new();
    store.applied(&[&["10.0.0.1"]]);
    store.apply(Event::Undecodable([key("dns-1")].into()));
    assert!(store.apply(Event::Synced(vec![])).is_empty());
    assert!(store.of_name().is_present);
    store.apply(Event::Undecodable(BTreeSet::new()));
    store.gone();
    assert!(!store.of_name().is_present);
}

#[test]
fn an_unusable_name_costs_that_object_alone() {
    let mut store = Store::new();
    let bad = object("dns-1", "single", &[&["10.0.0.1"]]);
    let good = object("dns-2", W, &[&["10.0.0.2"]]);
    let changed = store.apply(Event::Synced(vec![bad, good]));
    assert_eq!(changed, HashSet::from_iter([dns(W)]));
    let count = |store: &Store| (store.desired.objects(), store.desired.unusable());
    assert_eq!(count(&store), (1, 1));
    // Its last usable state stays.
    let unusable = Event::Applied(object("dns-2", "*", &[]));
    assert!(store.apply(unusable).is_empty());
    assert_eq!(store.wanted(), ["10.0.0.2"]);
    store.apply(Event::Deleted(key("dns-1")));
    store.apply(Event::Deleted(key("dns-2")));
    assert_eq!(count(&store), (0, 0));
}
