//! The status of all names, in the publisher.

use proto::facts::{Query, Severity};

use super::{World, at, name};
use crate::publish::{ManageObjects, NamesStatus};
use names::{Failure, FamilyOutcome};

fn status(world: &World) -> NamesStatus {
    world.publisher.status(&Query::all(), at(world.now))
}

/// The code of each name without an address, and the problems of it.
fn reasons(status: &NamesStatus) -> Vec<(&str, &str)> {
    let names = status.facts.names.iter();
    let without = names.filter_map(|it| {
        let why = it.facts.no_address.as_ref()?;
        Some((it.facts.name.as_str(), why.code.as_str()))
    });
    without.collect()
}

#[test]
fn name_without_an_address_has_the_reason_of_the_last_failure() {
    let mut world = World::with(ManageObjects::Auto, |config| config.limits.lookups = true);
    let failures = [
        (
            "a.test",
            FamilyOutcome::Failed(Failure::NXDOMAIN),
            "NXDOMAIN",
        ),
        (
            "b.test",
            FamilyOutcome::Failed(Failure::Rcode(2)),
            "SERVFAIL",
        ),
        (
            "c.test",
            FamilyOutcome::Failed(Failure::Rcode(5)),
            "REFUSED",
        ),
        ("d.test", FamilyOutcome::Failed(Failure::Timeout), "Timeout"),
        ("e.test", FamilyOutcome::NoData, "NoData"),
        (
            "f.test",
            FamilyOutcome::Addresses {
                addresses: [("127.0.0.1".parse().unwrap(), 60)].into_iter().collect(),
                at: at(0),
                complete: true,
            },
            "Guarded",
        ),
    ];
    let mut wanted: Vec<&str> = failures.iter().map(|(name, ..)| *name).collect();
    wanted.extend(["new.test", "*.w.test"]);
    world.want(&wanted);
    world.settle();
    world.due();
    for (asked, outcome, _) in &failures {
        world.look_up(asked, outcome.clone(), outcome.clone());
    }
    let status = status(&world);
    let expected = failures
        .iter()
        .map(|(name, _, code)| (format!("{name}."), *code));
    let mut expected: Vec<_> = expected.collect();
    expected.insert(0, ("*.w.test.".to_owned(), "NotAsked"));
    expected.push(("new.test.".to_owned(), "NotLookedUp"));
    let found: Vec<_> = reasons(&status);
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, code)| (name.as_str(), *code))
        .collect();
    assert_eq!(found, expected);
    // Each is a problem with the same sentence, and a wildcard that no pod asked for is none.
    let problems = &status.problems.listed;
    for listed in &status.facts.names {
        let why = listed.facts.no_address.as_ref().unwrap();
        let problem = problems
            .iter()
            .find(|it| it.subject == listed.facts.name.as_str());
        match &*why.code {
            "NotAsked" => assert_eq!(problem, None),
            code => {
                let problem = problem.unwrap();
                assert_eq!(problem.sentence, format!("no address: {}", why.sentence));
                let is_passing = problem.severity == Severity::Warning;
                assert_eq!(is_passing, code == "NotLookedUp", "{problem:?}");
            }
        }
    }
}

#[test]
fn name_whose_rule_went_is_one_without_a_rule() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["a.test", "b.test"]);
    world.observe("a.test", "192.0.2.1");
    world.observe("b.test", "192.0.2.2");
    world.settle();
    assert_eq!(status(&world).facts.names_without_rule, []);
    world.want(&["b.test"]);
    world.settle();
    let found = status(&world);
    assert_eq!(found.facts.names_without_rule, [name("a.test")]);
    assert_eq!(found.facts.name_count, 2);
}
