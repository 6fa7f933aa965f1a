//! Objects that are absent or do not speak. No set that a rule uses loses an address because of them.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);
const MILLI: Duration = Duration::from_millis(1);

/// A writer that created the sets of [`W`], which a rule uses.
fn in_use() -> World {
    let mut world = World::new();
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
    world.settle();
    world
}

fn has_all(world: &World) -> bool {
    world.addresses(W, "v4") == ["10.0.0.1"] && world.addresses(W, "v6") == ["2001:db8::1"]
}

#[test]
fn object_and_rules_must_both_be_absent_for_a_minute_unbroken() {
    let mut world = in_use();
    world.store(Event::Deleted(key("dns-1")));
    world.pass(MINUTE * 10);
    world.model.acls.clear();
    world.pass(MINUTE - MILLI);
    let again = world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.pass(MILLI);
    world.model.acls.remove(&again);
    world.pass(MINUTE - MILLI);
    assert!(has_all(&world));
    world.pass(MILLI);
    assert!(world.model.rows.is_empty());
    let names = world.sync.state().desired.names().count();
    assert_eq!(names, 0, "it is forgotten");
    // A later rule names no name of the store.
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    assert_eq!(world.settle(), 0);
}

#[test]
fn a_row_that_is_no_longer_ours_is_not_deleted() {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    world.store(Event::Deleted(key("dns-1")));
    world.work();
    world.now += MINUTE;
    let operations = world.next().unwrap();
    // Another installation takes the rows over before the transaction arrives.
    for row in world.model.rows.values_mut() {
        row.external_ids.remove("ovn-writer/created");
    }
    let outcome = world.model.transact(&operations);
    world.tell();
    assert!(matches!(world.finish(outcome), Finished::Done(_)));
    assert_eq!(world.settle(), 0);
    assert_eq!(world.model.rows.len(), 2);
}
