//! When rows are made.

use super::{
    model::Model,
    world::{namespace_set, set_name},
    *,
};
use crate::desired::{Filter, Options};

const MISSED: Duration = Duration::from_secs(2);

/// A database of ovn-kubernetes, in which the name is used but has no sets.
fn managed(create: CreateSets) -> World {
    let mut model = Model::default();
    model.insert(namespace_set());
    let mut world = World::on(Policy { create, ..policy() }, model);
    world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
    world
}

#[test]
fn nothing_is_made_in_a_managed_database_that_nobody_misses() {
    let mut world = managed(CreateSets::Auto);
    assert!(matches!(world.step(), Some(Finished::Managed)));
    assert_eq!(world.settle(), 0);
    assert_eq!(world.model.rows.len(), 1);
    assert!(world.sync.is_managed());
    assert_eq!(world.sync.differences(), Differences::default());
}

#[test]
fn a_set_that_was_forgotten_is_made_after_two_seconds() {
    for controller in [DEFAULT_NETWORK_CONTROLLER, "blue-network-controller"] {
        let mut world = managed(CreateSets::Auto);
        world.refer_as_ovn_kubernetes(controller, W);
        world.work();
        assert!(world.sync.is_managed(), "the rule says so");
        assert_eq!(world.sync.differences().missing_rows, 2);
        world.pass(MISSED - Duration::from_millis(1));
        assert_eq!(world.model.rows.len(), 1);
        world.pass(Duration::from_millis(1));
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
        let row = world.rows(W, "v4")[0];
        assert_eq!(row.name, set_name(controller, W, Family::V4));
        assert_eq!(row.id("k8s.ovn.org/owner-controller"), controller);
        assert_eq!(world.settle(), 0);
        // Deleted by its clean-up, it is missed anew.
        world
            .model
            .rows
            .retain(|_, row| row.id("ip-family") != "v4");
        world.pass(MISSED - Duration::from_millis(1));
        assert!(world.rows(W, "v4").is_empty());
        world.pass(Duration::from_millis(1));
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    }
}

#[test]
fn a_set_that_its_owner_makes_in_time_is_left_to_it() {
    let mut world = managed(CreateSets::Auto);
    world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, W);
    world.pass(MISSED - Duration::from_millis(1));
    for (family, address) in [(Family::V4, "10.0.0.1"), (Family::V6, "2001:db8::1")] {
        let row = world::foreign(DEFAULT_NETWORK_CONTROLLER, W, family, &[address]);
        world.model.insert(row);
    }
    assert_eq!(world.settle(), 0);
    // It takes them away, and the clock starts anew; it takes the rule away, and nothing is missed.
    world.model.rows.retain(|_, row| row.name == "a77");
    world.pass(MISSED - Duration::from_millis(1));
    world.model.acls.clear();
    assert_eq!(world.settle(), 0);
    assert_eq!(world.model.rows.len(), 1);
}

#[test]
fn how_long_a_set_was_missed_before_a_gap_does_not_count() {
    let mut world = managed(CreateSets::Auto);
    world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, W);
    world.pass(MISSED - Duration::from_millis(1));
    world.read();
    world.pass(MISSED - Duration::from_millis(1));
    assert_eq!(world.model.rows.len(), 1);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.model.rows.len(), 3);
}

#[test]
fn a_set_of_no_name_in_the_store_is_not_made() {
    let mut world = managed(CreateSets::Auto);
    world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, "other.example.");
    assert_eq!(world.settle(), 0);
    // Its object comes later than its rule.
    world.store(Event::Applied(object("dns-2", "other.example.", &[])));
    world.pass(MISSED - Duration::from_millis(1));
    assert_eq!(world.model.rows.len(), 1);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.rows("other.example.", "v4").len(), 1);
}

#[test]
fn a_rule_that_comes_after_the_object_is_found() {
    for controller in [DEFAULT_NETWORK_CONTROLLER, "blue-network-controller"] {
        let mut world = managed(CreateSets::Auto);
        world.settle();
        world.refer_as_ovn_kubernetes(controller, W);
        world.settle();
        assert_eq!(world.rows(W, "v4").len(), 1, "{controller}");
    }
}

#[test]
fn always_makes_them_at_once_and_never_none() {
    let mut world = managed(CreateSets::Always);
    world.work();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    let mut world = managed(CreateSets::Never);
    world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, W);
    assert_eq!(world.settle(), 0);
    assert_eq!(world.sync.differences().missing_rows, 2);
}

#[test]
fn only_families_in_use_have_rows_unless_a_rule_names_one() {
    let options = Options {
        filter: Filter::new(vec!["10.128.0.0/14".parse().unwrap()]),
        ..Options::default()
    };
    let mut world = World::with(Policy::new(world::STORE, options, CreateSets::Auto));
    world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    assert!(world.rows(W, "v6").is_empty());
    // Without the set the whole rule would be of no effect.
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.work();
    assert!(world.addresses(W, "v6").is_empty());
}

#[test]
fn a_manager_that_comes_later_is_noticed_before_anything_is_made() {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    assert!(!world.sync.is_managed());
    world.model.insert(namespace_set());
    world.store(Event::Applied(object("dns-2", "b.example.", &[])));
    assert_eq!(world.settle(), 0);
    assert!(world.sync.is_managed() && world.rows("b.example.", "v4").is_empty());
    // What is there is kept right.
    world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
}
