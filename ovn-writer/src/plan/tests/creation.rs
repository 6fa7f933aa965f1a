//! The creation of rows.

use super::{
    model::Model,
    world::{namespace_set, set_name},
    *,
};
use crate::desired::Filter;

/// A database of ovn-kubernetes, in which the name is used but has no sets.
fn managed() -> World {
    let mut model = Model::default();
    model.insert(namespace_set());
    let mut world = World::on(policy(), model);
    world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
    world
}

#[test]
fn a_missing_set_that_a_rule_refers_to_is_created_with_its_addresses() {
    for controller in [DEFAULT_NETWORK_CONTROLLER, "blue-network-controller"] {
        let mut world = managed();
        world.refer_as_ovn_kubernetes(controller, W);
        world.tell();
        match world.step() {
            Some(Finished::Done(done)) => {
                assert_eq!((done.created, done.inserted_addresses), (2, 2));
            }
            other => panic!("{other:?}"),
        }
        assert!(world.sync.state().is_managed(), "the rule says so");
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
        let row = world.rows(W, "v4")[0];
        assert_eq!(row.name, set_name(controller, W, Family::V4));
        assert_eq!(row.id("k8s.ovn.org/owner-controller"), controller);
        assert_eq!(row.id("ovn-writer/managed"), "true");
        assert_eq!(world.settle(), 0);
        // A set deleted by ovn-kubernetes' clean-up is created again.
        world
            .model
            .rows
            .retain(|_, row| row.id("ip-family") != "v4");
        world.work();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
        // A writer that starts later recognises the database by that row alone.
        world.model.acls.clear();
        world.model.rows.retain(|_, row| row.name != "a77");
        let mut again = World::on(policy(), world.model);
        again.store(Event::Synced(vec![object("dns-2", "b.example.", &[])]));
        assert_eq!(again.work(), 0);
        assert!(again.sync.state().is_managed());
    }
}

#[test]
fn a_set_that_ovn_kubernetes_makes_in_time_is_left_to_it() {
    let mut world = managed();
    world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, W);
    world.tell();
    let operations = world.next().unwrap();
    // ovn-kubernetes creates them while the transaction is pending.
    for (family, address) in [(Family::V4, "10.0.0.1"), (Family::V6, "2001:db8::1")] {
        let row = world::foreign(DEFAULT_NETWORK_CONTROLLER, W, family, &[address]);
        world.model.insert(row);
    }
    let outcome = world.model.transact(&operations);
    world.tell();
    assert!(matches!(world.finish(outcome), Finished::Refused(_)));
    assert_eq!(world.settle(), 0);
    assert_eq!(
        (
            world.model.rows.len(),
            world.sync.state().name_conflicts.names().count()
        ),
        (3, 0)
    );
    // It deletes them and the rule too: no set is missing.
    world.model.rows.retain(|_, row| row.name == "a77");
    world.model.acls.clear();
    assert_eq!(world.settle(), 0);
    assert_eq!(world.model.rows.len(), 1);
}

#[test]
fn of_many_missing_sets_a_few_wait_and_the_index_protects_the_others() {
    let name = |n: usize| format!("n{n}.example.");
    let mut world = managed();
    let objects = (0..100).map(|n| object(&format!("dns-{n}"), &name(n), &[&["10.0.0.1"]]));
    world.store(Event::Synced(objects.collect()));
    for n in 0..100 {
        world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, &name(n));
    }
    world.tell();
    let operations = world.next().unwrap();
    let is_wait = |operation: &&Operation| matches!(operation, Operation::Wait { .. });
    assert_eq!(operations.iter().filter(is_wait).count(), 20);
    assert_eq!(operations.len(), 20 + 200);
    // ovn-kubernetes creates one of the others while the transaction is pending.
    let taken = world::foreign(
        DEFAULT_NETWORK_CONTROLLER,
        &name(99),
        Family::V4,
        &["10.0.0.1"],
    );
    world.model.insert(taken);
    let outcome = world.model.transact(&operations);
    world.tell();
    assert!(matches!(world.finish(outcome), Finished::Refused(_)));
    world.work();
    for n in 0..100 {
        assert_eq!(world.addresses(&name(n), "v4"), ["10.0.0.1"], "{n}");
    }
    assert_eq!(world.sync.state().name_conflicts.names().count(), 0);
}

#[test]
fn a_managed_database_that_is_wiped_is_left_to_ovn_kubernetes() {
    let told = Policy {
        is_managed: true,
        ..policy()
    };
    let seen = {
        let mut world = managed();
        world.settle();
        world
    };
    for mut world in [World::with(told), seen] {
        world.model = Model::default();
        world.read();
        world.store(whole(&[&["10.0.0.1"]]));
        assert_eq!(world.settle(), 0);
        assert!(world.model.rows.is_empty());
        // A missing set that a rule refers to is created.
        world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, W);
        world.work();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    }
}

#[test]
fn only_families_in_use_have_rows_unless_a_rule_names_one() {
    let filter = Filter::new(vec!["10.128.0.0/14".parse().unwrap()]);
    let mut world = World::with(Policy::new(world::STORE, filter));
    world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    assert!(world.rows(W, "v6").is_empty());
    // Without the set the whole rule would have no effect.
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.work();
    assert!(world.addresses(W, "v6").is_empty());
}

#[test]
fn a_manager_that_comes_later_is_noticed_before_anything_is_made() {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    assert!(!world.sync.state().is_managed());
    world.model.insert(namespace_set());
    world.store(Event::Applied(object("dns-2", "b.example.", &[])));
    assert_eq!(world.settle(), 0);
    assert!(world.sync.state().is_managed() && world.rows("b.example.", "v4").is_empty());
    // Existing sets are kept right.
    world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
}
