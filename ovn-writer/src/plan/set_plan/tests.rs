//! Changes of another client beside those of the store.

use std::{borrow::Cow, time::Duration};

use super::*;
use ovsdb_replica::{Datum, Record, Row};

use crate::{
    addresses::Addresses,
    desired::{Changes, Filter},
    testing::dns,
};

const W: &str = "www.example.com.";

fn row(members: &[&str]) -> AddressSet {
    let ids = [
        ("k8s.ovn.org/owner-controller", "default-network-controller"),
        ("k8s.ovn.org/owner-type", "EgressFirewallDNS"),
        ("k8s.ovn.org/name", W),
        ("ip-family", "v4"),
    ];
    let members = members.iter().copied();
    AddressSet::read(Row::from([
        ("addresses".into(), Datum::strings(members)),
        ("external_ids".into(), Datum::string_map(ids)),
    ]))
    .unwrap()
}

fn addresses(texts: &[&str]) -> BTreeSet<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A row in a database that ovn-kubernetes manages, with the planned changes over time.
#[derive(Default)]
struct Shared {
    clocks: Clocks,
    /// Whether it was compared, and the store's changes since then.
    changes: Option<Addresses>,
    wanted: BTreeSet<IpAddr>,
    start: Option<Instant>,
}

impl Shared {
    fn want(&mut self, texts: &[&str]) {
        let new = addresses(texts);
        if let Some(changes) = &mut self.changes {
            let moved = new.symmetric_difference(&self.wanted);
            changes.toggle(&moved.copied().collect());
        }
        self.wanted = new;
    }

    /// The plan at this time for a row with these members. A `!` marks repairs; changes of the store have no mark.
    fn at(&mut self, millis: u64, members: &[&str]) -> String {
        let set = row(members);
        let rows = [SetRow {
            uuid: Uuid::from_u128(1),
            set: &set,
            is_referred_to: true,
            inserted: None,
        }];
        let changes = self.changes.as_ref().map(|addresses| Changes {
            addresses: addresses.all(),
            became_complete: false,
        });
        let wanted = Wanted {
            is_present: true,
            is_complete: true,
            addresses: Cow::Owned(self.wanted.iter().copied().collect()),
            changes,
        };
        let (name, policy) = (dns(W), Policy::new("kube/ns", Filter::default()));
        let case = Case {
            name: &name,
            wanted: Some(&wanted),
            rows: &rows,
            missed: &[],
            conflicts: &[],
            is_managed: true,
        };
        let start = *self.start.get_or_insert_with(Instant::now);
        let now = start + Duration::from_millis(millis);
        let planned = plan(case, &policy, &mut self.clocks, now);
        self.changes = Some(Addresses::default());
        let mut words = Vec::new();
        for finding in planned.findings {
            let Change::Mutate { insert, delete, .. } = finding.change else {
                panic!("{finding:?}");
            };
            let mark = match finding.trigger {
                Trigger::ForeignChange => "!",
                _ => "",
            };
            match finding.verdict {
                Verdict::Now => {
                    words.extend(insert.iter().map(|it| format!("+{it}{mark}")));
                    words.extend(delete.iter().map(|it| format!("-{it}{mark}")));
                }
                Verdict::At(at) => words.push(format!("in {:?}", at - now)),
                Verdict::Left => panic!("no name conflict"),
            }
        }
        words.join(" ")
    }
}

#[test]
fn addresses_another_writer_adds_first_are_kept_until_the_store_has_them() {
    let mut set = Shared::default();
    set.want(&["10.0.0.1"]);
    assert_eq!(set.at(0, &["10.0.0.1"]), "");
    // The other client is 200 ms faster: it adds one address and removes the other.
    assert_eq!(set.at(1000, &["10.0.0.2"]), "in 500ms");
    assert_eq!(set.at(1100, &["10.0.0.2"]), "in 400ms");
    set.want(&["10.0.0.2"]);
    assert_eq!(set.at(1200, &["10.0.0.2"]), "");
    // The store is faster.
    set.want(&["10.0.0.3"]);
    assert_eq!(set.at(2000, &["10.0.0.2"]), "+10.0.0.3 -10.0.0.2");
}

#[test]
fn an_event_that_does_not_explain_a_change_changes_nothing() {
    let mut set = Shared::default();
    set.want(&["10.0.0.1"]);
    set.at(0, &["10.0.0.1"]);
    // The watch is two events behind: it reports 10.0.0.2 first, when the row already has 10.0.0.3.
    let ahead = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    assert_eq!(set.at(1000, &ahead), "in 500ms");
    set.want(&["10.0.0.1", "10.0.0.2"]);
    assert_eq!(set.at(1200, &ahead), "in 300ms");
    set.want(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(set.at(1400, &ahead), "");
}

#[test]
fn addresses_another_writer_removed_are_not_restored_by_late_events() {
    let mut set = Shared::default();
    set.want(&["10.0.0.1"]);
    set.at(0, &["10.0.0.1"]);
    assert_eq!(set.at(1000, &["10.0.0.1", "10.0.0.2"]), "in 500ms");
    assert_eq!(set.at(1100, &["10.0.0.1"]), "");
    // The watch reports that the address was added, and later that it was removed.
    set.want(&["10.0.0.1", "10.0.0.2"]);
    assert_eq!(set.at(1200, &["10.0.0.1"]), "in 300ms");
    set.want(&["10.0.0.1"]);
    assert_eq!(set.at(1300, &["10.0.0.1"]), "");
    // An address that the store restores much later is added at once.
    assert_eq!(set.at(1600, &["10.0.0.1"]), "");
    set.want(&["10.0.0.1", "10.0.0.2"]);
    assert_eq!(set.at(1700, &["10.0.0.1"]), "+10.0.0.2");
}

#[test]
fn a_lasting_difference_is_repaired_after_half_a_second_and_counted() {
    let mut set = Shared::default();
    set.want(&["10.0.0.1"]);
    set.at(0, &["10.0.0.1"]);
    assert_eq!(set.at(1000, &["10.0.0.9"]), "in 500ms");
    // A later one has a deadline of its own.
    let later = ["10.0.0.8", "10.0.0.9"];
    assert_eq!(set.at(1300, &later), "in 200ms");
    assert_eq!(set.at(1500, &later), "+10.0.0.1! -10.0.0.9! in 300ms");
    assert_eq!(set.at(1600, &["10.0.0.1", "10.0.0.8"]), "in 200ms");
    assert_eq!(set.at(1800, &["10.0.0.1", "10.0.0.8"]), "-10.0.0.8!");
    // A change of the store does not wait.
    assert_eq!(set.at(2000, &["10.0.0.7"]), "in 500ms");
    set.want(&["10.0.0.1", "10.0.0.5"]);
    assert_eq!(set.at(2100, &["10.0.0.7"]), "+10.0.0.5 in 400ms");
}

#[test]
fn at_the_start_what_is_missing_comes_at_once_and_what_is_too_many_waits() {
    let mut set = Shared::default();
    set.want(&["10.0.0.1"]);
    assert_eq!(set.at(0, &["10.0.0.2"]), "+10.0.0.1 in 500ms");
    assert_eq!(set.at(500, &["10.0.0.1", "10.0.0.2"]), "-10.0.0.2");
}
