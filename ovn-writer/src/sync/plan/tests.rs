//! The table of decisions, line by line.

use super::*;
use crate::{ovsdb::Record, testing::dns};

const W: &str = "www.example.com.";

fn row(name: &str, family: Family, created_here: bool, members: &[&str]) -> AddressSet {
    let mut ids = vec![
        ("k8s.ovn.org/owner-controller", "default-network-controller"),
        ("k8s.ovn.org/owner-type", "EgressFirewallDNS"),
        ("k8s.ovn.org/name", name),
        ("ip-family", family.as_str()),
    ];
    ids.extend(created_here.then_some(("ovn-writer/created", "true")));
    let members = members.iter().copied();
    AddressSet::read(Row::from([
        (ADDRESSES.to_owned(), Datum::strings(members)),
        (EXTERNAL_IDS.to_owned(), Datum::string_map(ids)),
    ]))
    .unwrap()
}

/// What becomes of one IPv4 row that holds 10.0.0.1 (wanted), 10.0.0.2 (left) and 10.0.0.3 (foreign).
fn fate(name: &str, created_here: bool, present: bool, resolved: bool) -> String {
    let members = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "x"];
    let rows = [
        (
            Uuid::from_u128(1),
            &row(name, Family::V4, created_here, &members),
        ),
        (
            Uuid::from_u128(2),
            &row(name, Family::V6, created_here, &[]),
        ),
    ];
    let wanted: &[&str] = if present && resolved {
        &["10.0.0.1", "10.0.0.4"]
    } else {
        &[]
    };
    let left = if resolved { "10.0.0.2" } else { "10.9.9.9" };
    let wanted = Wanted {
        present,
        resolved,
        addresses: wanted.iter().map(|text| text.parse().unwrap()).collect(),
        left: &[left.parse().unwrap()].into(),
    };
    match plan(&dns(W), Some(&wanted), &rows).first() {
        None => "as it is".to_owned(),
        Some(Change::Create { .. }) => "another".to_owned(),
        Some(Change::Delete { .. }) => "deleted".to_owned(),
        Some(Change::Mutate { insert, delete, .. }) => {
            let insert = insert.iter().map(|a| format!("+{a}"));
            let delete = delete.iter().map(|a| format!("-{a}"));
            insert.chain(delete).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn the_table_of_decisions_holds() {
    let foreign = |present, resolved| fate(W, false, present, resolved);
    let own = |present, resolved| fate(W, true, present, resolved);
    let as_written = |present, resolved| fate("WWW.example.com", false, present, resolved);
    let equal = "+10.0.0.4 -10.0.0.2 -10.0.0.3 -x";
    let emptied = "-10.0.0.1 -10.0.0.2 -10.0.0.3 -x";
    // The object is there, and its status had an address.
    assert_eq!(foreign(true, true), equal);
    assert_eq!(own(true, true), equal);
    assert_eq!(as_written(true, true), "+10.0.0.4 -10.0.0.2");
    // The object is there, and its status never had one.
    assert_eq!(foreign(true, false), "as it is");
    assert_eq!(own(true, false), "as it is");
    assert_eq!(as_written(true, false), "as it is");
    // The object was seen to go.
    assert_eq!(foreign(false, true), emptied);
    assert_eq!(foreign(false, false), emptied);
    assert_eq!(own(false, true), "deleted");
    assert_eq!(own(false, false), "deleted");
    assert_eq!(as_written(false, true), "-10.0.0.2");
    assert_eq!(as_written(false, false), "as it is");
}

#[test]
fn a_name_that_the_store_never_had_is_left_alone() {
    let row = row(W, Family::V4, true, &["10.0.0.1"]);
    assert_eq!(plan(&dns(W), None, &[(Uuid::nil(), &row)]), []);
}

#[test]
fn an_object_that_is_there_has_a_row_of_each_family() {
    let left = BTreeSet::new();
    let addresses: Vec<IpAddr> = ["10.0.0.1", "2001:db8::1"]
        .iter()
        .map(|a| a.parse().unwrap())
        .collect();
    let mut wanted = Wanted {
        present: true,
        resolved: true,
        addresses: addresses.into(),
        left: &left,
    };
    let create = |family, address: &str| Change::Create {
        family,
        addresses: vec![address.parse().unwrap()],
    };
    let both = [
        create(Family::V4, "10.0.0.1"),
        create(Family::V6, "2001:db8::1"),
    ];
    assert_eq!(plan(&dns(W), Some(&wanted), &[]), both);
    // One as somebody wrote it will do.
    let v6 = row("WWW.example.com", Family::V6, false, &["2001:db8::1"]);
    assert_eq!(
        plan(&dns(W), Some(&wanted), &[(Uuid::nil(), &v6)]),
        both[..1]
    );
    wanted.present = false;
    assert_eq!(plan(&dns(W), Some(&wanted), &[]), []);
    wanted = Wanted {
        present: true,
        resolved: false,
        addresses: vec![].into(),
        left: &left,
    };
    assert_eq!(
        plan(&dns(W), Some(&wanted), &[]).len(),
        2,
        "before the first status too"
    );
}

#[test]
fn every_row_of_a_name_is_kept() {
    let left = BTreeSet::new();
    let addresses = vec!["10.0.0.1".parse().unwrap()];
    let wanted = Wanted {
        present: true,
        resolved: true,
        addresses: addresses.into(),
        left: &left,
    };
    let (one, other) = (
        row(W, Family::V4, true, &[]),
        row(W, Family::V4, false, &["10.0.0.2"]),
    );
    let v6 = row(W, Family::V6, true, &[]);
    let uuids = [1, 2, 3].map(Uuid::from_u128);
    let changes = plan(
        &dns(W),
        Some(&wanted),
        &[(uuids[0], &one), (uuids[1], &other), (uuids[2], &v6)],
    );
    let insert = vec!["10.0.0.1".parse().unwrap()];
    assert_eq!(
        changes,
        [
            Change::Mutate {
                uuid: uuids[0],
                insert: insert.clone(),
                delete: vec![]
            },
            Change::Mutate {
                uuid: uuids[1],
                insert,
                delete: vec!["10.0.0.2".into()]
            },
        ]
    );
}

#[test]
fn a_mutation_says_only_what_changes() {
    let change = Change::Mutate {
        uuid: Uuid::nil(),
        insert: vec!["10.0.0.1".parse().unwrap()],
        delete: vec![],
    };
    let operations = serde_json::to_value(change.operations(&dns(W))).unwrap();
    let mutations = serde_json::json!([["addresses", "insert", ["set", ["10.0.0.1"]]]]);
    assert_eq!(operations[0]["mutations"], mutations);
}
