use proptest::prelude::*;

use super::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// The content of names, each of which is written in one way.
fn content(
    names: &[ListedName],
    others: &BTreeSet<IpAddr>,
    present: &BTreeSet<IpAddr>,
    most: usize,
) -> Content {
    let mut names = names.to_vec();
    for (place, name) in names.iter_mut().enumerate() {
        let text = name.texts.pop_first().unwrap().1;
        name.texts = [(place, text)].into();
    }
    let kept = KeptAddresses {
        addresses: others.clone(),
        ..KeptAddresses::default()
    };
    super::content(&names, &kept, present, most)
}

fn name(text: &str, addresses: impl IntoIterator<Item = u8>) -> ListedName {
    ListedName {
        texts: [(0, text.to_owned())].into(),
        is_wildcard: text.starts_with("*."),
        addresses: addresses.into_iter().map(ip).collect(),
    }
}

fn none() -> BTreeSet<IpAddr> {
    BTreeSet::new()
}

#[test]
fn each_name_has_its_addresses_as_blocks_in_order() {
    let names = [
        name("WWW.Example.com", [2, 1]),
        name("empty.example.com.", []),
    ];
    let got = content(&names, &none(), &none(), MAX_ADDRESSES);
    let map = serde_json::to_value(got.ip_map()).unwrap();
    let expected = serde_json::json!({"domains": [
        {"name": "WWW.Example.com", "ips": ["192.0.2.1/32", "192.0.2.2/32"]},
        {"name": "empty.example.com.", "ips": []},
    ]});
    assert_eq!(map, expected);
    assert_eq!(got.nets(), ["192.0.2.1/32", "192.0.2.2/32"]);
}

#[test]
fn at_the_limit_present_addresses_stay_and_wildcards_go_last() {
    let names = [
        name("*.example.com", 0..4),
        name("a.example.com", 10..14),
        name("b.example.com", [20]),
    ];
    let new = content(&names, &none(), &none(), 4);
    // In turns of the regular names.
    assert_eq!(new.addresses, [10, 20, 11, 12].map(ip).into());
    assert_eq!(
        new.left_out,
        [
            ("*.example.com".to_owned(), 4),
            ("a.example.com".to_owned(), 1)
        ]
        .into()
    );
    let present = [ip(3), ip(13)].into();
    let later = content(&names, &none(), &present, 4);
    assert_eq!(later.addresses, [3, 13, 10, 20].map(ip).into());
}

#[test]
fn all_texts_of_a_name_have_its_addresses_and_count_in_the_map() {
    let many = ListedName {
        texts: (0..200)
            .map(|place| (place, format!("{place}.example.com")))
            .collect(),
        is_wildcard: false,
        addresses: (0..200).map(ip).collect(),
    };
    let got = super::content(&[many], &KeptAddresses::default(), &none(), MAX_ADDRESSES);
    assert_eq!(got.names.len(), 200);
    assert!(got.names.iter().all(|(_, addresses)| addresses.len() == 25));
    assert_eq!(
        (got.addresses.len(), &got.left_out["0.example.com"]),
        (25, &175)
    );
}

#[test]
fn kept_addresses_go_before_new_ones_at_the_limit() {
    let names = [name("a.example.com", 0..5), name("b.example.com", [])];
    let mut names = names.to_vec();
    names[1].texts = [(1, "b.example.com".to_owned())].into();
    let kept: BTreeSet<_> = (10..14).map(ip).collect();
    let kept = KeptAddresses {
        addresses: kept.clone(),
        by_place: [(1, kept)].into(),
    };
    let got = super::content(&names, &kept, &none(), 5);
    assert_eq!(got.addresses, [0, 10, 11, 12, 13].map(ip).into());
    assert_eq!(got.names[0].1, [ip(0)].into());
    assert_eq!(got.names[1].1, kept.by_place[&1]);
}

proptest! {
    #[test]
    fn the_map_and_the_policy_have_the_same_addresses_within_the_limits(
        lists in proptest::collection::vec(proptest::collection::btree_set(0_u8..50, 0..30), 0..6),
        present in proptest::collection::btree_set(0_u8..60, 0..30),
        others in proptest::collection::btree_set(50_u8..60, 0..5),
        most in 0_usize..40,
    ) {
        let names: Vec<_> = lists.iter().enumerate().map(|(i, list)| {
            let wild = if i % 2 == 0 { "*." } else { "" };
            name(&format!("{wild}n{i}.example.com"), list.iter().copied())
        }).collect();
        let (present, others): (BTreeSet<_>, BTreeSet<_>) =
            (present.into_iter().map(ip).collect(), others.into_iter().map(ip).collect());
        let got = content(&names, &others, &present, most);
        let in_map: BTreeSet<_> = got.names.iter().flat_map(|(_, list)| list).copied().collect();
        let in_policy: BTreeSet<_> = got.addresses.difference(&others).copied().collect();
        prop_assert!(got.addresses.len() <= most);
        prop_assert!(in_policy.is_subset(&in_map));
        prop_assert!(in_map.is_subset(&got.addresses));
        for (listed, (_, admitted)) in names.iter().zip(&got.names) {
            prop_assert!(admitted.is_subset(&listed.addresses));
        }
        // Nothing is left out while there is room.
        if got.left_out.is_empty() {
            let all: BTreeSet<_> = names.iter().flat_map(|it| &it.addresses).copied().collect();
            prop_assert!(all.is_subset(&got.addresses));
        } else {
            let entries: usize = got.names.iter().map(|(_, list)| list.len()).sum();
            prop_assert!(got.addresses.len() == most || entries == most);
        }
        // The same again changes nothing.
        let again = content(&names, &others, &got.addresses, most);
        prop_assert_eq!(again.addresses, got.addresses);
    }
}
