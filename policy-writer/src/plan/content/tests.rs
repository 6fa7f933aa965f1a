use proptest::prelude::*;

use super::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn name(text: &str, addresses: impl IntoIterator<Item = u8>) -> ListedName {
    ListedName {
        text: text.to_owned(),
        is_wildcard: text.starts_with("*."),
        addresses: addresses.into_iter().map(ip).collect(),
        kept: BTreeSet::new(),
    }
}

fn none() -> BTreeSet<IpAddr> {
    BTreeSet::new()
}

#[test]
fn stored_addresses_stay_at_the_limit_and_wildcards_go_last() {
    let names = [
        name("*.example.com", 0..4),
        name("a.example.com", 10..14),
        name("b.example.com", [20]),
    ];
    let new = content(&names, &none(), &none(), 4);
    assert_eq!(new.addresses, [10, 11, 12, 13].map(ip).into());
    let left_out = [("*.example.com", 4), ("b.example.com", 1)];
    let left_out = left_out.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(new.left_out, left_out.into());
    let present = [ip(3), ip(20)].into();
    let later = content(&names, &none(), &present, 4);
    assert_eq!(later.addresses, [3, 10, 11, 20].map(ip).into());
}

#[test]
fn kept_addresses_go_before_new_ones_at_the_limit() {
    let mut names = [name("a.example.com", 0..5), name("b.example.com", [])];
    let kept: BTreeSet<_> = (10..14).map(ip).collect();
    names[1].kept = kept.clone();
    let got = content(&names, &kept, &none(), 5);
    assert_eq!(got.addresses, [0, 10, 11, 12, 13].map(ip).into());
    assert_eq!(got.names[0].1, [ip(0)].into());
    assert_eq!(got.names[1].1, kept);
}

proptest! {
    #[test]
    fn map_and_policy_have_the_same_addresses_in_the_limit(
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
        prop_assert!(got.addresses.len() <= most);
        prop_assert!(in_map.is_subset(&got.addresses));
        let of_names = |it: &IpAddr| names.iter().any(|name| name.addresses.contains(it));
        let is_known = |it: &IpAddr| in_map.contains(it) || others.contains(it) || of_names(it);
        prop_assert!(got.addresses.iter().all(is_known));
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
