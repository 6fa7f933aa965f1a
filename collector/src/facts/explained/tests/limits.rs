//! What caps leave out.

use super::*;

#[test]
fn namespaces_at_a_cap_are_named_and_to_a_namespace_only_itself() {
    let at_cap = |namespace: &str, names_left_out| CapView {
        namespace: namespace.into(),
        names_left_out,
        addresses: 20_000,
    };
    let regular = |over_limit| {
        let mut known = known(vec![NameFacts {
            over_limit,
            at_cap: vec![at_cap("team", 7), at_cap("other", 9)],
            ..facts("a.example.com.", Vec::new())
        }]);
        rule(&mut known, "a.example.com.");
        known
    };
    let words = |known: &KnownFacts, namespace: Option<&str>| {
        let asked = Asked::new("a.example.com", namespace.map(str::to_owned));
        let found = Explanation::new(&asked, known, &PeerIds::default()).reasons;
        let found = found.into_iter().filter(|it| it.reason == "LimitExceeded");
        let words: Vec<_> = found.map(|it| it.words).collect();
        words.join("\n")
    };
    let [team, other] = [("team", 7), ("other", 9)].map(|(namespace, count)| {
        format!("{namespace} has 20000 addresses of names in rules, and {count} names are left out")
    });
    for over_limit in [false, true] {
        let all = words(&regular(over_limit), None);
        assert!(all.contains(&team) && all.contains(&other), "{all}");
        let own = words(&regular(over_limit), Some("team"));
        assert!(own.contains(&team) && !own.contains(&other), "{own}");
    }
    assert_eq!(words(&regular(false), Some("third")), "");
    assert!(words(&regular(true), Some("third")).contains("it is left out"));
}
