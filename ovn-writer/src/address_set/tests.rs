//! Rows written by ovn-kubernetes, by this program and by others.

use super::*;

fn row(json: serde_json::Value) -> AddressSet {
    AddressSet::read(serde_json::from_value(json).unwrap()).unwrap()
}

fn with_ids(pairs: &[(&str, &str)]) -> AddressSet {
    row(serde_json::json!({"name": "a1", "external_ids": ["map", pairs]}))
}

#[test]
fn rows_are_known_by_their_external_ids_whoever_owns_them() {
    let mut ids = vec![
        (
            "k8s.ovn.org/owner-controller",
            "blue_net-network-controller",
        ),
        ("k8s.ovn.org/owner-type", "EgressFirewallDNS"),
        ("k8s.ovn.org/name", "WWW.Example.com"),
        ("ip-family", "v6"),
    ];
    let row = with_ids(&ids);
    assert_eq!(row.controller(), Some("blue_net-network-controller"));
    assert!(!row.is_made_for("kube/ovn-kubernetes"));
    let identity = row.identity().cloned().unwrap();
    assert_eq!(identity.name.as_str(), "www.example.com.");
    assert_eq!(
        (identity.family, identity.form),
        (Family::V6, NameForm::AsWritten)
    );
    for (index, value) in [
        (1, "EgressFirewall"),
        (2, "a_b.example."),
        (2, "*"),
        (3, "v5"),
    ] {
        let whole = std::mem::replace(&mut ids[index].1, value);
        assert_eq!(with_ids(&ids).identity(), None, "{value}");
        ids[index].1 = whole;
    }
    for index in 1..ids.len() {
        let pair = ids.remove(index);
        assert_eq!(with_ids(&ids).identity(), None, "without {}", pair.0);
        ids.insert(index, pair);
    }
}

#[test]
fn members_that_are_not_written_our_way_are_kept_as_they_are() {
    let members = [
        "10.0.0.1",
        "2001:db8::1",
        "2001:DB8::2",
        "10.0.0.0/8",
        "x",
        "::ffff:1.2.3.4",
    ];
    let mut set = row(serde_json::json!({"addresses": ["set", members]}));
    let addresses: Vec<_> = set
        .addresses()
        .iter()
        .map(|address| address.to_string())
        .collect();
    assert_eq!(addresses, ["10.0.0.1", "::ffff:1.2.3.4", "2001:db8::1"]);
    let others: Vec<_> = set.others().iter().map(|text| &**text).collect();
    assert_eq!(others, ["10.0.0.0/8", "2001:DB8::2", "x"]);
    let difference = serde_json::json!({"addresses": ["set", members]});
    set.modify(serde_json::from_value(difference).unwrap())
        .unwrap();
    assert!(set.is_empty());
}
