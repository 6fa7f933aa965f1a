//! The table of decisions, line by line.

use std::borrow::Cow;

use super::*;
use crate::{
    ovsdb::{Datum, Record, Row},
    testing::dns,
};

const W: &str = "www.example.com.";
const STORE: &str = "kube/ns";

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

fn terms() -> Terms {
    Terms::new(STORE, Filter::default())
}

/// A name of the store.
#[derive(Clone, Copy)]
struct Name {
    standing: Standing,
    seen: bool,
    resolved: bool,
}

const PRESENT: Name = Name {
    standing: Standing::Present,
    seen: true,
    resolved: true,
};

impl Name {
    fn in_state(standing: Standing, resolved: bool) -> Self {
        Self {
            standing,
            resolved,
            ..PRESENT
        }
    }
}

/// What becomes of one IPv4 row that holds 10.0.0.1 (wanted), 10.0.0.2 (left), 10.0.0.3 (foreign) and x.
fn fate(
    name: &str,
    store: Option<&str>,
    of: Option<Name>,
    is_referred_to: bool,
    idle: Duration,
) -> String {
    let members = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "x"];
    let set = row(name, Family::V4, store, &members);
    let other = row(name, Family::V6, store, &[]);
    let rows = [(1, &set), (2, &other)].map(|(n, set)| SetRow {
        uuid: Uuid::from_u128(n),
        set,
        is_referred_to,
    });
    let left = [if of.is_some_and(|of| of.resolved) {
        "10.0.0.2"
    } else {
        "10.9.9.9"
    }
    .parse()
    .unwrap()];
    let left = left.into();
    let wanted = of.map(|of| {
        let addresses: &[&str] = match of.standing {
            Standing::Present | Standing::Leaving if of.resolved => &["10.0.0.1", "10.0.0.4"],
            _ => &[],
        };
        Wanted {
            standing: of.standing,
            seen: of.seen,
            resolved: of.resolved,
            addresses: Cow::Owned(addresses.iter().map(|text| text.parse().unwrap()).collect()),
            left: &left,
        }
    });
    let name = dns(W);
    let case = Case {
        name: &name,
        wanted: wanted.as_ref(),
        rows: &rows,
        missed: &[],
        taken: &[],
        creation: Creation::AtOnce,
    };
    let (mut clocks, now) = (Clocks::default(), Instant::now());
    plan(case, &terms(), &mut clocks, now);
    let planned = plan(case, &terms(), &mut clocks, now + idle);
    let Some(finding) = planned.findings.first() else {
        return "as it is".to_owned();
    };
    match (&finding.change, finding.verdict) {
        (_, Verdict::Left(_)) => "as it is".to_owned(),
        (Change::Create { .. }, _) => "another".to_owned(),
        (Change::Delete { .. }, _) => "deleted".to_owned(),
        (Change::Mutate { insert, delete, .. }, _) => {
            let insert = insert.iter().map(|a| format!("+{a}"));
            let delete = delete.iter().map(|a| format!("-{a}"));
            insert.chain(delete).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn the_table_of_decisions_holds() {
    use Standing::{Gone, Leaving, Present};
    let equal = "+10.0.0.4 -10.0.0.2 -10.0.0.3 -x";
    let emptied = "-10.0.0.1 -10.0.0.2 -10.0.0.3 -x";
    let (nobody, ours, others) = (None, Some(STORE), Some("kube/other"));
    let of = |standing, resolved| Some(Name::in_state(standing, resolved));
    let adopted = |standing| {
        Some(Name {
            standing,
            seen: false,
            resolved: false,
        })
    };
    for (store, name, expected) in [
        // It is there, and its status had an address.
        (nobody, of(Present, true), equal),
        (ours, of(Present, true), equal),
        // It was there until a moment ago.
        (nobody, of(Leaving, true), equal),
        // Its status never had one.
        (nobody, of(Present, false), "as it is"),
        (ours, of(Present, false), "as it is"),
        (ours, of(Leaving, false), "as it is"),
        // It was seen to go.
        (nobody, of(Gone, true), emptied),
        (nobody, of(Gone, false), emptied),
        (others, of(Gone, false), emptied),
        (ours, of(Gone, false), emptied),
        // It was never seen, but has rows of ours.
        (ours, adopted(Leaving), "as it is"),
        (ours, adopted(Gone), emptied),
        (nobody, adopted(Gone), "as it is"),
        (others, adopted(Gone), "as it is"),
        // It was never seen.
        (nobody, None, "as it is"),
        (ours, None, "as it is"),
    ] {
        for referred in [false, true] {
            let short = Duration::from_millis(59_999);
            assert_eq!(fate(W, store, name, referred, short), expected);
            let is_deleted = expected == emptied && store == ours && !referred;
            let expected = if is_deleted { "deleted" } else { expected };
            assert_eq!(
                fate(W, store, name, referred, Duration::from_secs(60)),
                expected
            );
        }
    }
    for (name, expected) in [
        (of(Present, true), "+10.0.0.4 -10.0.0.2"),
        (of(Leaving, true), "+10.0.0.4 -10.0.0.2"),
        (of(Present, false), "as it is"),
        (of(Gone, true), "-10.0.0.2"),
        (of(Gone, false), "as it is"),
        (None, "as it is"),
    ] {
        let fate = fate(
            "WWW.example.com",
            ours,
            name,
            false,
            Duration::from_secs(60),
        );
        assert_eq!(fate, expected, "under the name as written");
    }
}

/// The sets that are made, or will be, with how long that takes.
fn made(
    creation: Creation,
    standing: Standing,
    rows: &[SetRow<'_>],
    missed: &[SetOf],
) -> Vec<String> {
    made_beside(creation, standing, rows, missed, &[])
}

/// The same where others have sets of the name.
fn made_beside(
    creation: Creation,
    standing: Standing,
    rows: &[SetRow<'_>],
    missed: &[SetOf],
    taken: &[Taken],
) -> Vec<String> {
    let (name, left) = (dns(W), BTreeSet::new());
    let addresses = ["10.0.0.1", "2001:db8::1"].map(|a| a.parse::<IpAddr>().unwrap());
    let wanted = Wanted {
        standing,
        seen: true,
        resolved: true,
        addresses: if standing == Standing::Gone {
            Cow::default()
        } else {
            Cow::Owned(addresses.into_iter().collect())
        },
        left: &left,
    };
    let case = Case {
        name: &name,
        wanted: Some(&wanted),
        rows,
        missed,
        taken,
        creation,
    };
    let now = Instant::now();
    let plan = plan(case, &terms(), &mut Clocks::default(), now);
    let made = plan.findings.iter().map(|finding| {
        let Change::Create { set, addresses, .. } = &finding.change else {
            panic!("{finding:?}");
        };
        let when = match finding.verdict {
            Verdict::Now => "now".to_owned(),
            Verdict::At(at) => format!("{:?}", at - now),
            Verdict::Left(reason) => reason.as_str().to_owned(),
        };
        assert_eq!(
            finding.is_taken,
            taken.iter().any(|taken| taken.set == *set)
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
fn rows_are_made_at_once_or_when_they_are_missed() {
    use Creation::{AtOnce, Never, WhenMissed};
    use Standing::{Gone, Leaving, Present};
    let blue = |family| SetOf {
        controller: "blue".into(),
        family,
    };
    let defaults = Family::ALL.map(SetOf::default_network);
    let now = ["defa v4 [10.0.0.1] now", "defa v6 [2001:db8::1] now"];
    assert_eq!(made(AtOnce, Present, &[], &[]), now);
    assert_eq!(made(AtOnce, Present, &[], &defaults), now);
    assert_eq!(
        made(AtOnce, Present, &[], &[blue(Family::V4)])[0],
        "blue v4 [10.0.0.1] 2s"
    );
    assert_eq!(made(AtOnce, Leaving, &[], &defaults), now);
    assert_eq!(made(AtOnce, Leaving, &[], &[]), [""; 0]);
    assert_eq!(made(AtOnce, Gone, &[], &defaults[..1]), ["defa v4 [] now"]);
    assert_eq!(made(AtOnce, Gone, &[], &[]), [""; 0]);
    assert_eq!(made(WhenMissed, Present, &[], &[]), [""; 0]);
    assert_eq!(
        made(WhenMissed, Present, &[], &defaults[1..]),
        ["defa v6 [2001:db8::1] 2s"]
    );
    assert_eq!(made(WhenMissed, Gone, &[], &defaults), [""; 0]);
    assert_eq!(
        made(Never, Present, &[], &[blue(Family::V6)]),
        ["blue v6 [2001:db8::1] sets are not to be made"]
    );
    // A row under the name as written will do, as long as nobody misses another.
    let written = row("WWW.example.com", Family::V4, None, &["10.0.0.1"]);
    let rows = [SetRow {
        uuid: Uuid::nil(),
        set: &written,
        is_referred_to: true,
    }];
    assert_eq!(made(AtOnce, Present, &rows, &[]), now[1..]);
    assert_eq!(made(AtOnce, Present, &rows, &defaults[..1]), now);
}

#[test]
fn a_clock_begins_anew_when_what_it_measures_was_interrupted() {
    let (name, left) = (dns(W), BTreeSet::new());
    let wanted = Wanted {
        standing: Standing::Present,
        seen: true,
        resolved: true,
        addresses: Cow::default(),
        left: &left,
    };
    let missed = [SetOf::default_network(Family::V4)];
    let (mut clocks, start) = (Clocks::default(), Instant::now());
    let mut at = |millis, missed: &[SetOf]| {
        let case = Case {
            name: &name,
            wanted: Some(&wanted),
            rows: &[],
            missed,
            taken: &[],
            creation: Creation::WhenMissed,
        };
        let now = start + Duration::from_millis(millis);
        let plan = plan(case, &terms(), &mut clocks, now);
        let due = plan.due.map(|due| (due - start).as_millis());
        (
            plan.findings
                .first()
                .map(|finding| finding.verdict == Verdict::Now),
            due,
        )
    };
    assert_eq!(at(0, &missed), (Some(false), Some(2000)));
    assert_eq!(at(1999, &missed), (Some(false), Some(2000)));
    assert_eq!(at(1999, &[]), (None, None));
    assert_eq!(at(1999, &missed), (Some(false), Some(3999)));
    assert_eq!(at(3999, &missed), (Some(true), None));
}

#[test]
fn every_row_of_a_name_is_kept() {
    let (name, left) = (dns(W), BTreeSet::new());
    let wanted = Wanted {
        standing: Standing::Present,
        seen: true,
        resolved: true,
        addresses: Cow::Owned(
            ["10.0.0.1".parse::<IpAddr>().unwrap()]
                .into_iter()
                .collect(),
        ),
        left: &left,
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
        })
        .collect();
    let case = Case {
        name: &name,
        wanted: Some(&wanted),
        rows: &rows,
        missed: &[],
        taken: &[],
        creation: Creation::AtOnce,
    };
    let plan = plan(case, &terms(), &mut Clocks::default(), Instant::now());
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
fn a_row_whose_name_is_taken_is_left_until_it_is_time_to_try_again() {
    let defaults = Family::ALL.map(SetOf::default_network);
    let [v4, v6] = ["[10.0.0.1]", "[2001:db8::1]"];
    let later = Instant::now() + Duration::from_secs(3600);
    let left = "somebody else has a set of its name";
    for (creation, until, of_v4, of_v6) in [
        (Creation::AtOnce, None, left, "now"),
        (Creation::AtOnce, Some(later), left, "now"),
        (Creation::AtOnce, Some(Instant::now()), "now", "now"),
        (Creation::WhenMissed, None, left, "2s"),
        (Creation::WhenMissed, Some(Instant::now()), "2s", "2s"),
    ] {
        let set = defaults[0].clone();
        let taken = [Taken { set, until }];
        let made = made_beside(creation, Standing::Present, &[], &defaults, &taken);
        let expected = [
            format!("defa v4 {v4} {of_v4}"),
            format!("defa v6 {v6} {of_v6}"),
        ];
        assert_eq!(made, expected, "{creation:?} {until:?}");
    }
}
