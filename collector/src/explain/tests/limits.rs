//! What limits leave out.

use super::*;

#[test]
fn a_name_that_was_left_out_as_its_client_asked_for_too_many_is_explained() {
    let mut known = known(Vec::new());
    rule(&mut known, "*.example.com.");
    assert_eq!(
        reasons("a.example.com", &known),
        ["NoAddress", "OnlyWildcard"]
    );
    known.refused = Some(RefusedAnswers {
        answers: 7,
        last: known.at,
    });
    let found = reasons("a.example.com", &known);
    assert_eq!(found, ["NoAddress", "NewNamesRefused", "OnlyWildcard"]);
    assert!(text("a.example.com", &known).contains(": 7 answers, the last at "));
}

#[test]
fn the_limits_of_a_namespace_are_told_and_to_a_namespace_only_its_own() {
    let share = |namespace: &str, addresses| NamespaceShare {
        namespace: namespace.into(),
        used: NamespaceQuota {
            addresses,
            names: 2,
        },
        quota: NamespaceQuota {
            addresses: 500,
            names: 7,
        },
        is_closed: true,
    };
    let wildcard = |over_limit| {
        let mut known = known(vec![NameFacts {
            over_limit,
            shares: vec![share("team", 499), share("other", 498)],
            ..facts("*.example.com.", Vec::new())
        }]);
        rule(&mut known, "*.example.com.");
        known
    };
    let words = |known: &KnownFacts, namespace: Option<&str>| {
        let asked = Asked::new("a.example.com", namespace.map(str::to_owned));
        let found = Explanation::new(&asked, known, &PeerIds::default()).reasons;
        let found = found.into_iter().filter(|it| it.reason == "LimitExceeded");
        let words: Vec<_> = found.map(|it| it.words).collect();
        words.join("\n")
    };
    let [team, other] = [
        "team has 499 of 500 addresses and 2 of 7 names",
        "other has 498 of 500 addresses and 2 of 7 names",
    ];
    for over_limit in [false, true] {
        let all = words(&wildcard(over_limit), None);
        assert!(all.contains(team) && all.contains(other), "{all}");
        let own = words(&wildcard(over_limit), Some("team"));
        assert!(own.contains(team) && !own.contains(other), "{own}");
    }
    assert_eq!(words(&wildcard(false), Some("third")), "");
    let left_out = words(&wildcard(true), Some("third"));
    assert!(
        left_out.contains("it is left out") && !left_out.contains(" of 500 "),
        "{left_out}"
    );
}
