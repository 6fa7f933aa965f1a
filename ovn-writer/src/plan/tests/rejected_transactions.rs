//! Transactions that the server refuses.

use super::{world::set_name, *};
use crate::plan::rejected_transactions::{FIRST_WAIT, LONGEST_WAIT};

/// A set of another client with the name of this one.
fn clash(name: &str, family: Family) -> ModelRow {
    ModelRow {
        name: set_name(DEFAULT_NETWORK_CONTROLLER, name, family),
        ..ModelRow::default()
    }
}

fn many(count: usize) -> Event<DnsNameResolver> {
    let object = |n| {
        let name = format!("n{n}.example.");
        object(&format!("dns-{n}"), &name, &[&["10.0.0.1"]])
    };
    Event::Synced((0..count).map(object).collect())
}

/// Does all due work. Returns how many transactions were refused, and how many done.
fn ends(world: &mut World) -> (usize, usize) {
    let (mut refused, mut done) = (0, 0);
    while let Some(finished) = world.step() {
        match finished {
            Finished::Done(_) => done += 1,
            Finished::Refused(_) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    (refused, done)
}

/// How many names are refused, and how many sets have a name conflict.
fn faults(world: &World) -> (usize, usize) {
    let name_conflicts = &world.sync.state().name_conflicts;
    (world.sync.refused(), name_conflicts.names().count())
}

#[test]
fn a_clash_of_names_costs_that_set_alone() {
    let mut world = World::new();
    let taken = clash("n7.example.", Family::V4);
    world.model.insert(taken.clone());
    world.store(many(20));
    ends(&mut world);
    assert_eq!(world.model.rows.len(), 1 + 19 * 2 + 1);
    assert_eq!(world.rows("n7.example.", "v6").len(), 1, "the other family");
    assert_eq!(world.model.rows.values().next(), Some(&taken), "left alone");
    assert_eq!(faults(&world), (1, 1));
    let expected = Differences {
        name_clashes: 1,
        ..Differences::default()
    };
    assert_eq!(world.sync.state().differences, expected);
    assert!(world.sync.is_idle());
    // The waits double, and end with the conflict.
    let mut waits = Vec::new();
    for _ in 0..9 {
        let retry = world.sync.next_timer().unwrap();
        waits.push(retry - world.now);
        world.now = retry;
        assert_eq!(ends(&mut world), (1, 0));
        assert_eq!(world.sync.state().differences, expected);
    }
    assert_eq!(
        (waits[0], waits[3], waits[8]),
        (FIRST_WAIT, FIRST_WAIT * 8, LONGEST_WAIT)
    );
    world.model.rows.remove(&Uuid::from_u128(1));
    world.settle();
    assert_eq!(world.model.rows.len(), 40);
    assert_eq!(faults(&world), (0, 0));
    assert_eq!(world.sync.state().differences, Differences::default());
}

#[test]
fn a_name_whose_changes_are_refused_waits_alone() {
    let mut world = World::new();
    world.store(many(3));
    world.settle();
    for n in 0..3 {
        let name = format!("n{n}.example.");
        let object = object(&format!("dns-{n}"), &name, &[&["10.0.0.2"]]);
        world.store(Event::Applied(object));
    }
    for times in 0..3 {
        let operations = world.next().unwrap();
        assert_eq!(operations.len(), if times == 0 { 3 } else { 1 });
        let outcome = super::model::refused(Some(0), "not allowed");
        assert!(matches!(world.finish(outcome), Finished::Refused(_)));
        if times == 0 {
            assert!(matches!(world.step(), Some(Finished::Done(_))));
        }
        assert!(world.next().is_none());
        assert_eq!(faults(&world), (1, 0));
        assert_eq!(world.sync.state().differences.missing_addresses, 1);
        let retry = world.sync.next_timer().unwrap();
        assert_eq!(retry - world.now, FIRST_WAIT * (1 << times));
        world.now = retry;
    }
    world.settle();
    assert_eq!(world.sync.refused(), 0);
}

#[test]
fn a_creation_that_is_refused_as_a_whole_is_tried_once_more_and_then_waits() {
    let mut world = World::new();
    world.store(many(1));
    for waits in [false, true] {
        assert!(world.next().is_some());
        world.finish(super::model::refused(None, "constraint violation"));
        assert_eq!(world.sync.is_idle(), waits);
    }
}
