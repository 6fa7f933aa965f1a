use std::sync::LazyLock;

use proptest::{collection::vec, prelude::*};
use regex::Regex;

use super::*;

/// The deployed CRD's pattern for `spec.name`; it does not limit the length.
static PATTERN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\*\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.){2,}$").unwrap());

fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

fn wire(text: &str) -> dns::Name {
    dns::Name::from_text(text).unwrap()
}

#[test]
fn names_are_those_of_ovn_kubernetes() {
    for (name, expected) in [
        (
            "www.example.com.",
            ["dns-5dd68c7c99", "dns-65454994bb", "dns-6cdfc4cf48"],
        ),
        (
            "*.example.com.",
            ["dns-86b778d444", "dns-7dd75d6b9c", "dns-75f896fd5f"],
        ),
        (
            "*.s3.amazonaws.com.",
            ["dns-5cf7d8d459", "dns-cb89f5c9d", "dns-58976889fb"],
        ),
    ] {
        let name = DnsName::parse(name).unwrap();
        assert_eq!(
            [0, 1, 256].map(|collisions| object_name(&name, collisions)),
            expected
        );
    }
    let set = |family| {
        address_set_name(&address_set_id(
            DEFAULT_NETWORK_CONTROLLER,
            "www.example.com.",
            family,
        ))
    };
    assert_eq!(set(Family::V4), "a4029995183407368296");
    assert_eq!(set(Family::V6), "a4029997382430624718");
    let hasher = AddressSetHasher::new(DEFAULT_NETWORK_CONTROLLER);
    let numbers = [4_029_995_183_407_368_296, 4_029_997_382_430_624_718];
    assert_eq!(
        hasher.numbers("www.example.com."),
        [(Family::V4, numbers[0]), (Family::V6, numbers[1])]
    );
}

#[test]
fn a_name_that_no_object_can_bear_is_refused_with_the_reason() {
    let long = "a".repeat(64);
    let label = |text: &str| NameError::Label(text.to_owned());
    for (text, error) in [
        ("", NameError::Empty),
        (".", NameError::Empty),
        ("192.0.2.7", NameError::Address),
        ("192.0.2.7.", NameError::Address),
        ("2001:db8::1", NameError::Address),
        ("com", NameError::SingleLabel),
        ("*.com.", NameError::SingleLabel),
        ("*", NameError::SingleLabel),
        ("*.*.example.com", NameError::Wildcard),
        ("www.*.com", NameError::Wildcard),
        ("*a.example.com", NameError::Wildcard),
        ("..", label("")),
        (".example.com", label("")),
        ("www..com", label("")),
        ("a_b.example.com", label("a_b")),
        ("-a.example.com", label("-a")),
        ("a-.example.com", label("a-")),
        ("a b.example.com", label("a b")),
        ("b\u{fc}cher.example.", label("b\\xc3\\xbccher")),
        (&format!("{long}.com"), label(&long)),
        (&"a.".repeat(128), NameError::TooLong(256)),
    ] {
        assert_eq!(DnsName::parse(text), Err(error), "{text}");
    }
}

#[test]
fn a_wildcard_stands_for_exactly_one_label() {
    let wildcard = name("*.example.com");
    for (other, matches) in [
        ("a.example.com", true),
        ("*.example.com", true),
        ("example.com", false),
        ("a.b.example.com", false),
        ("*.a.example.com", false),
        ("a.example.org", false),
        ("aexample.com", false),
    ] {
        assert_eq!(wildcard.matches(&name(other)), matches, "{other}");
    }
    assert!(name("a.example.com").matches(&name("A.example.com.")));
    assert!(!name("a.example.com").matches(&wildcard));
    assert_eq!(name("a.example.com").wildcard(), Some(wildcard.clone()));
    for without in [wildcard, name("example.com")] {
        assert_eq!(without.wildcard(), None, "{without:?}");
    }
}

proptest! {
    #[test]
    fn names_are_accepted_as_the_pattern_does(
        text in prop_oneof![
            "[a-cA-C0*_.-]{0,12}",
            r"(\*\.)?([a-z0-9-]{1,64}\.){1,6}",
            r"(\*\.)?([a-z]\.){120,128}",
            any::<String>(),
        ],
    ) {
        let mut full = text.to_ascii_lowercase();
        if !full.ends_with('.') {
            full.push('.');
        }
        let is_address = full.trim_end_matches('.').parse::<IpAddr>().is_ok();
        let accepted = full.len() <= 254 && PATTERN.is_match(&full) && !is_address;
        match DnsName::parse(&text) {
            Ok(name) => {
                prop_assert!(accepted, "{} is accepted", text);
                prop_assert_eq!(name.as_str(), full);
                prop_assert_eq!(dns::Name::from(&name), wire(name.as_str()));
                prop_assert_eq!(DnsName::from_wire(&dns::Name::from(&name)), Ok(name));
            }
            Err(error) => prop_assert!(!accepted, "{}: {}", text, error),
        }
    }

    #[test]
    fn the_wire_and_the_text_of_a_name_are_judged_alike(
        labels in vec(prop_oneof!["[a-c*_-]{1,3}", "[a-c]"], 0..5),
    ) {
        let name = wire(&labels.join("."));
        let from_text = DnsName::parse(&name.to_string());
        prop_assert_eq!(DnsName::from_wire(&name).ok(), from_text.ok());
    }
}
