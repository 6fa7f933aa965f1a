//! The table of decisions, row by row.

mod foreign;

use std::{borrow::Cow, time::Duration};

use super::*;
use ovsdb_replica::{Datum, Record, Row};

use crate::{desired::Filter, testing::dns};

const W: &str = "www.example.com.";
const STORE: &str = "kube/ns";
const SECOND: Duration = Duration::from_secs(1);

fn row(name: &str, family: Family, store: Option<&str>, members: &[&str]) -> AddressSet {
    let mut ids = vec![
        ("k8s.ovn.org/owner-controller", "default-network-controller"),
        ("k8s.ovn.org/owner-type", "EgressFirewallDNS"),
        ("k8s.ovn.org/name", name),
        ("ip-family", family.as_str()),
    ];
    ids.extend(store.map(|store| ("ovn-writer/created", store)));
    let members = members.iter().copied();
    AddressSet::read(Row::from([
        ("addresses".into(), Datum::strings(members)),
        ("external_ids".into(), Datum::string_map(ids)),
    ]))
    .unwrap()
}

fn policy() -> Policy {
    Policy::new(STORE, Filter::default())
}

fn addresses(texts: &[&str]) -> BTreeSet<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// The state of the name.
#[derive(Clone, Copy, Debug)]
enum Objects {
    /// It has an object that lists its addresses.
    Speaking,
    /// It has an object that does not speak.
    Silent,
    /// It has none, or none any more.
    Absent,
    /// It never had an object, and no row of ours.
    Never,
}

fn wanted(objects: Objects, texts: &[&str]) -> Wanted<'static> {
    Wanted {
        is_present: matches!(objects, Objects::Speaking | Objects::Silent),
        is_complete: matches!(objects, Objects::Speaking),
        addresses: Cow::Owned(addresses(texts).into_iter().collect()),
        changes: None,
    }
}

/// The plan after a time for one IPv4 row. It has 10.0.0.1 (wanted), 10.0.0.2 (added by this program), 10.0.0.3 (added by
/// another client) and x, and lacks 10.0.0.4.
fn fate(
    (name, store): (&str, Option<&str>),
    objects: Objects,
    (is_referred_to, is_managed): (bool, bool),
    after: Duration,
) -> String {
    let members = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "x"];
    let set = row(name, Family::V4, store, &members);
    let inserted = addresses(&["10.0.0.2"]);
    let rows = [SetRow {
        uuid: Uuid::from_u128(1),
        set: &set,
        is_referred_to,
        inserted: Some(&inserted),
    }];
    let wanted = wanted(objects, &["10.0.0.1", "10.0.0.4"]);
    let name = dns(W);
    let case = Case {
        name: &name,
        wanted: Some(&wanted).filter(|_| !matches!(objects, Objects::Never)),
        rows: &rows,
        missed: &[],
        conflicts: &[],
        is_managed,
    };
    let (start, mut clocks) = (Instant::now(), Clocks::default());
    plan(case, &policy(), &mut clocks, start);
    let planned = plan(case, &policy(), &mut clocks, start + after);
    let mut words = Vec::new();
    for finding in planned.findings {
        let what = match &finding.change {
            // The other family has no row.
            Change::Create { .. } => continue,
            Change::Delete { .. } => "deleted".to_owned(),
            Change::Mutate { insert, delete, .. } => {
                let insert = insert.iter().map(|a| format!("+{a}"));
                let delete = delete.iter().map(|a| format!("-{a}"));
                insert.chain(delete).collect::<Vec<_>>().join(" ")
            }
        };
        words.extend((finding.verdict == Verdict::Now).then_some(what));
    }
    words.join(", ")
}

const EQUAL: &str = "+10.0.0.4 -10.0.0.2 -10.0.0.3 -x";
const SHARED: &str = "+10.0.0.4 -10.0.0.2";
const ADDED: &str = "+10.0.0.4";

#[test]
fn only_an_object_that_speaks_takes_addresses_out() {
    use Objects::{Absent, Never, Silent, Speaking};
    let written = "WWW.example.com";
    let other = Some("kube/other");
    for (row, objects, used, unused) in [
        ((W, None), Speaking, EQUAL, EQUAL),
        ((W, Some(STORE)), Speaking, EQUAL, EQUAL),
        // Another installation fills these, or ovn-kubernetes itself.
        ((W, other), Speaking, SHARED, SHARED),
        ((written, None), Speaking, SHARED, SHARED),
        ((W, None), Silent, ADDED, ADDED),
        ((W, Some(STORE)), Silent, ADDED, ADDED),
        ((W, other), Silent, ADDED, ADDED),
        ((written, None), Silent, ADDED, ADDED),
        ((W, None), Absent, ADDED, ""),
        ((W, Some(STORE)), Absent, ADDED, "deleted"),
        ((W, other), Absent, ADDED, ""),
        ((written, None), Absent, ADDED, ""),
        ((W, None), Never, "", ""),
        ((W, other), Never, "", ""),
        ((written, None), Never, "", ""),
    ] {
        for (is_referred_to, expected) in [(true, used), (false, unused)] {
            let fate = fate(row, objects, (is_referred_to, false), SECOND * 3600);
            assert_eq!(fate, expected, "{row:?} {objects:?} {is_referred_to}");
        }
    }
}

#[test]
fn an_unused_set_is_deleted_after_a_minute_unless_ovn_kubernetes_manages_the_database() {
    let minute = SECOND * 60;
    let fate = |is_managed, after| {
        let row = (W, Some(STORE));
        fate(row, Objects::Absent, (false, is_managed), after)
    };
    assert_eq!(fate(false, minute - Duration::from_nanos(1)), "");
    assert_eq!(fate(false, minute), "deleted");
    assert_eq!(fate(true, minute * 60), "");
}

/// The created sets, and whether they are left for now.
fn made(
    is_managed: bool,
    objects: Objects,
    rows: &[SetRow<'_>],
    missed: &[SetOf],
    conflicts: &[NameConflict],
) -> Vec<String> {
    let name = dns(W);
    let wanted = wanted(objects, &["10.0.0.1", "2001:db8::1"]);
    let case = Case {
        name: &name,
        wanted: Some(&wanted),
        rows,
        missed,
        conflicts,
        is_managed,
    };
    let plan = plan(case, &policy(), &mut Clocks::default(), Instant::now());
    let made = plan.findings.iter().map(|finding| {
        let Change::Create { set, addresses, .. } = &finding.change else {
            panic!("{finding:?}");
        };
        assert_eq!(
            finding.is_conflict,
            conflicts.iter().any(|conflict| conflict.set == *set)
        );
        let (controller, family) = (&set.controller[..4], set.family);
        format!("{controller} {family} {addresses:?} {:?}", finding.verdict)
    });
    made.collect()
}

#[test]
fn rows_are_made_for_every_object_or_when_a_rule_misses_them() {
    use Objects::{Absent, Silent, Speaking};
    let blue = |family| SetOf {
        controller: "blue".into(),
        family,
    };
    let defaults = Family::ALL.map(SetOf::default_network);
    let now = ["defa v4 [10.0.0.1] Now", "defa v6 [2001:db8::1] Now"];
    let made = |is_managed, objects, rows: &[SetRow<'_>], missed: &[SetOf]| {
        made(is_managed, objects, rows, missed, &[])
    };
    for objects in [Speaking, Silent] {
        assert_eq!(made(false, objects, &[], &[]), now);
        assert_eq!(made(false, objects, &[], &defaults), now);
        assert_eq!(
            made(false, objects, &[], &[blue(Family::V4)])[0],
            "blue v4 [10.0.0.1] Now"
        );
        assert_eq!(made(true, objects, &[], &[]), [""; 0]);
        assert_eq!(made(true, objects, &[], &defaults[1..]), now[1..]);
    }
    // A rule that misses the set of an absent name gets the last addresses.
    assert_eq!(made(false, Absent, &[], &[]), [""; 0]);
    for is_managed in [false, true] {
        assert_eq!(made(is_managed, Absent, &[], &defaults), now);
    }
    // A row under the name as written is enough, unless a rule refers to another one.
    let written = row("WWW.example.com", Family::V4, None, &["10.0.0.1"]);
    let rows = [SetRow {
        uuid: Uuid::nil(),
        set: &written,
        is_referred_to: true,
        inserted: None,
    }];
    assert_eq!(made(false, Speaking, &rows, &[]), now[1..]);
    assert_eq!(made(false, Speaking, &rows, &defaults[..1]), now);
}
