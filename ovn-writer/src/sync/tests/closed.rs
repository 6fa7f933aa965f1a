//! The consequences of closed sets, and events that close none.

use super::{
    removal::{full, in_use, is_suspect, many},
    *,
};
use crate::testing::without_addresses;

const DELAY: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

/// Two names in use. The rule of the first ended, and its set was emptied though an ACL refers to it.
fn closed() -> World {
    let mut world = in_use(&many(2));
    let ended = without_addresses("dns-0", "n0.example.", "NoRule");
    world.store(Event::Applied(ended));
    world.store(Event::Deleted(key("dns-0")));
    world.pass(DELAY);
    assert!(world.addresses("n0.example.", "v4").is_empty());
    world
}

fn fill(world: &mut World, name: &str, addresses: &[&str]) {
    let rows = world.model.rows.values_mut();
    let mut row = rows
        .filter(|row| row.id("k8s.ovn.org/name") == name && row.id("ip-family") == "v4")
        .collect::<Vec<_>>();
    row[0].addresses = addresses.iter().map(|it| (*it).to_owned()).collect();
    world.tell();
}

#[test]
fn what_another_client_puts_into_a_closed_set_stays() {
    let mut world = closed();
    // Another installation may have the name.
    fill(&mut world, "n0.example.", &["10.0.0.1"]);
    world.pass(MINUTE * 60);
    assert_eq!(world.addresses("n0.example.", "v4"), ["10.0.0.1"]);
    assert!(world.sync.state().absence(world.now).names.is_empty());
    // When the name returns, the set is made equal again.
    let back = object("dns-0", "n0.example.", &[&["10.0.0.2"]]);
    world.store(Event::Applied(back));
    world.settle();
    assert_eq!(world.addresses("n0.example.", "v4"), ["10.0.0.2"]);
}

#[test]
fn a_name_that_returns_after_it_was_closed_is_no_repair() {
    let mut world = closed();
    let back = object("dns-0", "n0.example.", &[&["10.0.0.1"]]);
    world.store(Event::Applied(back));
    match world.step() {
        Some(Finished::Done(done)) => {
            assert_eq!(done.inserted_addresses, 1);
            assert_eq!(done.repaired, Repaired::default());
        }
        other => panic!("{other:?}"),
    }
    world.settle();
    // A later change of another client is one.
    fill(&mut world, "n0.example.", &[]);
    match world.step() {
        Some(Finished::Done(done)) => assert_ne!(done.repaired, Repaired::default()),
        other => panic!("{other:?}"),
    }
}

/// The object is created again while the transaction that empties its sets is pending.
#[test]
fn an_object_that_returns_during_emptying_is_no_repair_and_keeps_no_old() {
    let addresses = &[&["10.0.0.1"][..]][..];
    for (status, expected) in [(&[][..], &[][..]), (addresses, &["10.0.0.1"])] {
        let mut world = in_use(&many(2));
        let ended = without_addresses("dns-0", "n0.example.", "NoRule");
        world.store(Event::Applied(ended));
        world.store(Event::Deleted(key("dns-0")));
        world.work();
        world.now += DELAY;
        let operations = world.next().unwrap();
        let back = object("dns-0", "n0.example.", status);
        world.store(Event::Applied(back));
        let outcome = world.model.transact(&operations);
        world.tell();
        assert!(matches!(world.finish(outcome), Finished::Done(_)));
        while let Some(finished) = world.step() {
            match finished {
                Finished::Done(done) => assert_eq!(done.repaired, Repaired::default()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(world.addresses("n0.example.", "v4"), expected);
    }
}

#[test]
fn a_permission_is_used_up_when_the_sets_are_empty() {
    let all = many(40);
    let mut world = in_use(&all);
    let before = world.model.clone();
    world.store(Event::Synced(all[20..].to_vec()));
    world.pass(DELAY);
    assert_eq!(world.sync.allow_empty().len(), 20);
    world.work();
    assert_eq!(full(&world), 20);
    // A backup of the database is restored.
    world.model = before;
    world.read();
    world.pass(MINUTE * 60);
    assert_eq!(full(&world), 40);
    assert!(is_suspect(&world));
}

#[test]
fn nothing_is_closed_right_after_the_program_was_held_up() {
    let mut world = in_use(&many(2));
    let acls = std::mem::take(&mut world.model.acls);
    world.store(Event::Deleted(key("dns-0")));
    world.work();
    // The process is suspended. Meanwhile the rule returns, which it does not know when it continues.
    world.now += DELAY * 2;
    world.sync.handle(SyncEvent::HeldUp, world.now);
    assert_eq!(world.work(), 0);
    world.model.acls = acls;
    world.tell();
    world.pass(MINUTE);
    assert_eq!(world.addresses("n0.example.", "v4"), ["10.0.0.1"]);
    // Without the rule the delay continues.
    world.model.acls.clear();
    world.tell();
    world.pass(DELAY);
    assert!(world.addresses("n0.example.", "v4").is_empty());
}
