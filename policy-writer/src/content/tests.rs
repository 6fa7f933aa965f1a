use proptest::prelude::*;

use super::*;

const NO_LIMIT: Limits = Limits {
    addresses: 10_000,
    bytes: 1 << 20,
    new_bytes: usize::MAX,
};

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// The content of names, each of which is written in one way.
fn content(
    names: &[ListedName],
    others: &BTreeSet<IpAddr>,
    present: &BTreeSet<IpAddr>,
    limits: Limits,
) -> Content {
    let mut names = names.to_vec();
    for (place, name) in names.iter_mut().enumerate() {
        let text = name.texts.pop_first().unwrap().1;
        name.texts = [(place, text)].into();
    }
    super::content(&names, others, present, limits)
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
    let got = content(&names, &none(), &none(), NO_LIMIT);
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
    let limits = Limits {
        addresses: 4,
        ..NO_LIMIT
    };
    let new = content(&names, &none(), &none(), limits);
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
    let later = content(&names, &none(), &present, limits);
    assert_eq!(later.addresses, [3, 13, 10, 20].map(ip).into());
}

#[test]
fn an_object_has_at_most_so_many_bytes() {
    let names = [name("a.example.com", 0..100), name("b.example.com", 0..100)];
    let limits = Limits {
        bytes: 1_000,
        ..NO_LIMIT
    };
    let got = content(&names, &none(), &none(), limits);
    assert!(serde_json::to_vec(&got.ip_map()).unwrap().len() <= 1_000);
    let policy = crate::egress::egress(&got.addresses, None);
    assert!(serde_json::to_vec(&policy).unwrap().len() <= 1_000 + 16);
    assert!(got.left_out["a.example.com"] > 0);
}

#[test]
fn all_texts_of_a_name_have_its_addresses_and_count() {
    let texts: BTreeMap<_, _> = (0..200)
        .map(|place| (2 * place, format!("{place}\u{1}.example.com")))
        .collect();
    let many = ListedName {
        texts: texts.clone(),
        is_wildcard: false,
        addresses: (0..200).map(ip).collect(),
    };
    let other = ListedName {
        texts: [(1, "other.example.com".to_owned())].into(),
        ..name("", [250])
    };
    let limits = Limits {
        bytes: 40_000,
        ..NO_LIMIT
    };
    let got = super::content(&[many, other], &none(), &none(), limits);
    assert!(serde_json::to_vec(&got.ip_map()).unwrap().len() <= 40_000);
    assert_eq!(got.names.len(), 201);
    assert_eq!(
        got.names[1],
        ("other.example.com".to_owned(), [ip(250)].into())
    );
    assert_eq!(got.names[0].1, got.names[400 / 2].1);
    let admitted = got.names[0].1.len();
    assert!((1..20).contains(&admitted), "{admitted}");
    // It is counted once, and named by its first text.
    assert_eq!(got.left_out, [(texts[&0].clone(), 200 - admitted)].into());
}

#[test]
fn only_new_addresses_stay_out_when_the_namespace_is_full() {
    let names = [name("a.example.com", 0..10)];
    let present = (0..5).map(ip).collect();
    let limits = |new_bytes| Limits {
        new_bytes,
        ..NO_LIMIT
    };
    let full = content(&names, &none(), &present, limits(0));
    assert_eq!((&full.addresses, full.is_full), (&present, true));
    // An address takes its text, 24 bytes of the policy and 3 of the IPMap.
    let text = 2 * "192.0.2.1/32".len();
    let more = content(&names, &none(), &present, limits(2 * (text + 27)));
    assert_eq!(more.addresses.len(), 7);
    let all = content(&names, &none(), &present, limits(5 * (text + 27)));
    assert_eq!((all.addresses.len(), all.is_full), (10, false));
}

proptest! {
    #[test]
    fn the_map_and_the_policy_have_the_same_addresses_within_the_limits(
        lists in proptest::collection::vec(proptest::collection::btree_set(0_u8..50, 0..30), 0..6),
        present in proptest::collection::btree_set(0_u8..60, 0..30),
        others in proptest::collection::btree_set(50_u8..60, 0..5),
        most in 0_usize..40,
        bytes in 0_usize..2_000,
    ) {
        let names: Vec<_> = lists.iter().enumerate().map(|(i, list)| {
            let wild = if i % 2 == 0 { "*." } else { "" };
            name(&format!("{wild}n{i}.example.com"), list.iter().copied())
        }).collect();
        let (present, others): (BTreeSet<_>, BTreeSet<_>) =
            (present.into_iter().map(ip).collect(), others.into_iter().map(ip).collect());
        let limits = Limits { addresses: most, bytes, ..NO_LIMIT };
        let got = content(&names, &others, &present, limits);
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
        } else if got.addresses.len() < most && bytes > 1_900 {
            prop_assert!(serde_json::to_vec(&got.ip_map()).unwrap().len() + 30 > bytes);
        }
        // The same again changes nothing.
        let again = content(&names, &others, &got.addresses, limits);
        prop_assert_eq!(again.addresses, got.addresses);
    }
}
