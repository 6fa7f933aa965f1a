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

fn options() -> PlanOptions {
    PlanOptions {
        former_stores: vec!["kube/former".to_owned()],
        ..PlanOptions::new(STORE, Filter::default())
    }
}

fn addresses(texts: &[&str]) -> BTreeSet<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// The state of the name.
#[derive(Clone, Copy)]
enum Statuses {
    /// It has an object, which lists its addresses.
    Present,
    /// It has an object without a statement now.
    Silent,
    /// It is absent, and an object was seen.
    Away { rule_ended: bool, permitted: bool },
    /// It is absent, and was never seen.
    Adopted,
    /// The store cannot be read.
    OutOfSync,
    /// It never had an object.
    Never,
}

const AWAY: Statuses = Statuses::Away {
    rule_ended: false,
    permitted: false,
};

/// The surroundings of a row.
#[derive(Clone, Copy)]
struct Around {
    is_referred_to: bool,
    is_managed: bool,
    hold: Option<Reason>,
}

const UNUSED: Around = Around {
    is_referred_to: false,
    is_managed: false,
    hold: None,
};

const USED: Around = Around {
    is_referred_to: true,
    ..UNUSED
};

const MANAGED: Around = Around {
    is_managed: true,
    ..USED
};

/// The plan over time for one IPv4 row. It has 10.0.0.1 (wanted), 10.0.0.2 (added by this program), 10.0.0.3 (added by
/// another client) and x.
fn fate(
    name: &str,
    store: Option<&str>,
    known: Statuses,
    around: Around,
    after: Duration,
) -> String {
    let members = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "x"];
    let set = row(name, Family::V4, store, &members);
    let inserted = addresses(&["10.0.0.2"]);
    let rows = [SetRow {
        uuid: Uuid::from_u128(1),
        set: &set,
        is_referred_to: around.is_referred_to,
        inserted: Some(&inserted),
    }];
    let start = Instant::now();
    let away = |since, rule_ended, is_permitted| Presence::Away {
        since,
        rule_ended,
        is_permitted,
    };
    let presence = match known {
        Statuses::Present | Statuses::Silent => Presence::Present,
        Statuses::Away {
            rule_ended,
            permitted,
        } => away(Some(start), rule_ended, permitted),
        Statuses::Adopted | Statuses::Never => away(Some(start), false, false),
        Statuses::OutOfSync => away(None, false, false),
    };
    let wanted = Wanted {
        presence,
        was_seen: !matches!(known, Statuses::Adopted),
        is_complete: matches!(known, Statuses::Present),
        addresses: Cow::Owned(addresses(&["10.0.0.1", "10.0.0.4"]).into_iter().collect()),
        changes: None,
    };
    let name = dns(W);
    let case = Case {
        name: &name,
        wanted: Some(&wanted).filter(|_| !matches!(known, Statuses::Never)),
        rows: &rows,
        missed: &[],
        conflicts: &[],
        creation: Creation::WhenReferenced,
        is_managed: around.is_managed,
        absence_hold: around.hold,
        absence_counts_from: None,
        closes_from: None,
    };
    let mut clocks = Clocks::default();
    plan(case, &options(), &mut clocks, start);
    let planned = plan(case, &options(), &mut clocks, start + after);
    let mut words = Vec::new();
    for finding in planned.findings {
        let what = match &finding.change {
            Change::Create { .. } => "made".to_owned(),
            Change::Delete { .. } => "deleted".to_owned(),
            Change::Mutate { insert, delete, .. } => {
                let insert = insert.iter().map(|a| format!("+{a}"));
                let delete = delete.iter().map(|a| format!("-{a}"));
                insert.chain(delete).collect::<Vec<_>>().join(" ")
            }
        };
        match finding.verdict {
            Verdict::Now if finding.trigger == Trigger::Absence => words.push(format!("{what} !")),
            Verdict::Now => words.push(what),
            Verdict::At(_) | Verdict::Left(_) => {}
        }
    }
    words.join(", ")
}

const EQUAL: &str = "+10.0.0.4 -10.0.0.2 -10.0.0.3 -x";
const EMPTIED: &str = "-10.0.0.1 -10.0.0.2 -10.0.0.3 -x";
const ADDED: &str = "+10.0.0.4";

#[test]
fn a_name_with_an_object_has_what_the_object_says() {
    let written = "WWW.example.com";
    for (name, store, known, expected) in [
        (W, None, Statuses::Present, EQUAL),
        (W, Some(STORE), Statuses::Present, EQUAL),
        (W, Some("kube/former"), Statuses::Present, EQUAL),
        // Another installation fills these, or ovn-kubernetes itself.
        (
            W,
            Some("kube/other"),
            Statuses::Present,
            "+10.0.0.4 -10.0.0.2",
        ),
        (written, None, Statuses::Present, "+10.0.0.4 -10.0.0.2"),
        (W, None, Statuses::Silent, ADDED),
        (W, Some(STORE), Statuses::Silent, ADDED),
        (W, Some("kube/other"), Statuses::Silent, ADDED),
        (written, None, Statuses::Silent, ADDED),
        (W, None, Statuses::Never, ""),
        (W, Some("kube/other"), Statuses::Never, ""),
        (written, None, Statuses::Never, ""),
    ] {
        for around in [UNUSED, USED] {
            let fate = fate(name, store, known, around, SECOND * 3600);
            assert_eq!(fate, expected, "{name} {store:?}");
        }
    }
}

#[test]
fn an_unreferenced_set_is_emptied_after_5_s_and_deleted_after_a_minute() {
    for (store, known, expected) in [
        (Some(STORE), AWAY, [EMPTIED, "deleted"]),
        (Some("kube/former"), AWAY, [EMPTIED, "deleted"]),
        (Some(STORE), Statuses::Adopted, [EMPTIED, "deleted"]),
        (None, AWAY, [EMPTIED, EMPTIED]),
        (None, Statuses::Adopted, ["", ""]),
        (Some("kube/other"), AWAY, ["-10.0.0.2", "-10.0.0.2"]),
        (Some(STORE), Statuses::OutOfSync, ["", ""]),
    ] {
        let at = |after| fate(W, store, known, UNUSED, after);
        let [emptied, deleted] = expected;
        assert_eq!(at(SECOND * 5 - Duration::from_nanos(1)), "", "{store:?}");
        assert_eq!(at(SECOND * 5), emptied, "{store:?}");
        assert_eq!(at(SECOND * 65 - Duration::from_nanos(1)), emptied);
        assert_eq!(at(SECOND * 65), deleted, "{store:?}");
    }
}

#[test]
fn what_a_rule_uses_is_emptied_only_for_a_reason() {
    let ended = Statuses::Away {
        rule_ended: true,
        permitted: false,
    };
    let permitted = Statuses::Away {
        rule_ended: false,
        permitted: true,
    };
    let held = Around {
        hold: Some(Reason::ManyAbsent),
        ..USED
    };
    let absent = format!("{EMPTIED} !");
    for (known, around, expected) in [
        // Ten minutes without an object, if the limit allows it.
        (AWAY, USED, [(600, &*absent)]),
        (AWAY, MANAGED, [(600, &*absent)]),
        (AWAY, held, [(u64::MAX, "")]),
        // The rule ended: after five seconds. If ovn-kubernetes removes the rules, the writer waits for that.
        (ended, USED, [(5, EMPTIED)]),
        (ended, held, [(5, EMPTIED)]),
        (ended, MANAGED, [(600, EMPTIED)]),
        (permitted, held, [(5, EMPTIED)]),
        (permitted, MANAGED, [(5, EMPTIED)]),
        (Statuses::OutOfSync, USED, [(u64::MAX, "")]),
    ] {
        let [(after, expected)] = expected;
        let at = |after| fate(W, Some(STORE), known, around, after);
        let before = SECOND * u32::try_from(after.min(36_000)).unwrap() - Duration::from_nanos(1);
        assert_eq!(at(before), "", "{after}");
        assert_eq!(at(before + Duration::from_nanos(1)), expected, "{after}");
        // It stays as long as a rule refers to it.
        let late = if expected.is_empty() { "" } else { expected };
        assert_eq!(at(before + SECOND * 3600), late);
    }
}

/// The created sets, or why not.
fn made(
    creation: Creation,
    is_present: bool,
    rows: &[SetRow<'_>],
    missed: &[SetOf],
    conflicts: &[NameConflict],
) -> Vec<String> {
    let name = dns(W);
    let both = addresses(&["10.0.0.1", "2001:db8::1"]);
    let wanted = Wanted {
        presence: match is_present {
            true => Presence::Present,
            false => Presence::Away {
                since: Some(Instant::now()),
                rule_ended: false,
                is_permitted: false,
            },
        },
        was_seen: true,
        is_complete: is_present,
        addresses: Cow::Owned(both.into_iter().collect()),
        changes: None,
    };
    let case = Case {
        name: &name,
        wanted: Some(&wanted),
        rows,
        missed,
        conflicts,
        creation,
        is_managed: false,
        absence_hold: None,
        absence_counts_from: None,
        closes_from: None,
    };
    let plan = plan(case, &options(), &mut Clocks::default(), Instant::now());
    let made = plan.findings.iter().map(|finding| {
        let Change::Create { set, addresses, .. } = &finding.change else {
            panic!("{finding:?}");
        };
        let when = match finding.verdict {
            Verdict::Now => "now",
            Verdict::At(_) => "later",
            Verdict::Left(reason) => reason.as_str(),
        };
        assert_eq!(
            finding.is_conflict,
            conflicts.iter().any(|conflict| conflict.set == *set)
        );
        format!(
            "{} {} {addresses:?} {when}",
            &set.controller[..4],
            set.family
        )
    });
    made.collect()
}

#[test]
fn rows_are_made_for_every_name_or_when_something_refers_to_them() {
    use Creation::{AtOnce, Never, WhenReferenced};
    let blue = |family| SetOf {
        controller: "blue".into(),
        family,
    };
    let defaults = Family::ALL.map(SetOf::default_network);
    let now = ["defa v4 [10.0.0.1] now", "defa v6 [2001:db8::1] now"];
    let made = |creation, is_present, rows: &[SetRow<'_>], missed: &[SetOf]| {
        made(creation, is_present, rows, missed, &[])
    };
    assert_eq!(made(AtOnce, true, &[], &[]), now);
    assert_eq!(made(AtOnce, true, &[], &defaults), now);
    assert_eq!(
        made(AtOnce, true, &[], &[blue(Family::V4)])[0],
        "blue v4 [10.0.0.1] now"
    );
    assert_eq!(made(AtOnce, false, &[], &defaults), [""; 0]);
    assert_eq!(made(WhenReferenced, true, &[], &[]), [""; 0]);
    assert_eq!(
        made(WhenReferenced, true, &[], &defaults[1..]),
        ["defa v6 [2001:db8::1] now"]
    );
    assert_eq!(made(WhenReferenced, false, &[], &defaults), [""; 0]);
    assert_eq!(
        made(Never, true, &[], &[blue(Family::V6)]),
        ["blue v6 [2001:db8::1] --create-sets does not allow its creation"]
    );
    // A row under the name as written is enough, unless a rule refers to another one.
    let written = row("WWW.example.com", Family::V4, None, &["10.0.0.1"]);
    let rows = [SetRow {
        uuid: Uuid::nil(),
        set: &written,
        is_referred_to: true,
        inserted: None,
    }];
    assert_eq!(made(AtOnce, true, &rows, &[]), now[1..]);
    assert_eq!(made(AtOnce, true, &rows, &defaults[..1]), now);
}

#[test]
fn every_row_of_a_name_is_kept() {
    let name = dns(W);
    let wanted = Wanted {
        presence: Presence::Present,
        was_seen: true,
        is_complete: true,
        addresses: Cow::Owned(addresses(&["10.0.0.1"]).into_iter().collect()),
        changes: None,
    };
    let sets = [
        row(W, Family::V4, Some(STORE), &[]),
        row(W, Family::V4, None, &["10.0.0.2"]),
        row(W, Family::V6, Some(STORE), &[]),
    ];
    let uuids = [1, 2, 3].map(Uuid::from_u128);
    let rows: Vec<_> = uuids
        .into_iter()
        .zip(&sets)
        .map(|(uuid, set)| SetRow {
            uuid,
            set,
            is_referred_to: false,
            inserted: None,
        })
        .collect();
    let case = Case {
        name: &name,
        wanted: Some(&wanted),
        rows: &rows,
        missed: &[],
        conflicts: &[],
        creation: Creation::AtOnce,
        is_managed: false,
        absence_hold: None,
        absence_counts_from: None,
        closes_from: None,
    };
    let plan = plan(case, &options(), &mut Clocks::default(), Instant::now());
    let changes: Vec<_> = plan
        .findings
        .into_iter()
        .map(|finding| finding.change)
        .collect();
    let mutation = |uuid, delete: &[&str]| Change::Mutate {
        uuid,
        family: Family::V4,
        insert: vec!["10.0.0.1".parse().unwrap()],
        delete: delete.iter().map(SmolStr::new).collect(),
    };
    assert_eq!(
        changes,
        [mutation(uuids[0], &[]), mutation(uuids[1], &["10.0.0.2"])]
    );
}

#[test]
fn a_row_whose_name_is_conflict_is_left_until_it_is_time_to_try_again() {
    let defaults = Family::ALL.map(SetOf::default_network);
    let [v4, v6] = ["[10.0.0.1]", "[2001:db8::1]"];
    let later = Instant::now() + SECOND * 3600;
    let left = "another client has a set of its name";
    for (until, of_v4) in [
        (None, left),
        (Some(later), left),
        (Some(Instant::now()), "now"),
    ] {
        for creation in [Creation::AtOnce, Creation::WhenReferenced] {
            let set = defaults[0].clone();
            let conflicts = [NameConflict { set, until }];
            let made = made(creation, true, &[], &defaults, &conflicts);
            let expected = [format!("defa v4 {v4} {of_v4}"), format!("defa v6 {v6} now")];
            assert_eq!(made, expected, "{creation:?} {until:?}");
        }
    }
}
