//! Objects that are absent or do not speak. No set that a rule uses loses an address because of them.

use super::{
    model::Model,
    world::{STORE, foreign, made_for},
    *,
};
use crate::testing::{dns, without_addresses};

const MINUTE: Duration = Duration::from_secs(60);
const MILLI: Duration = Duration::from_millis(1);

#[test]
fn a_status_that_says_nothing_takes_nothing_out() {
    let rows = [
        foreign(DEFAULT_NETWORK_CONTROLLER, W, Family::V4, &["10.0.0.1"]),
        foreign(DEFAULT_NETWORK_CONTROLLER, W, Family::V6, &["2001:db8::1"]),
    ];
    for first in [
        vec![],
        vec![object("dns-1", W, &[])],
        vec![object("dns-1", W, &[&["garbage"]])],
    ] {
        let mut world = World::new();
        rows.iter().for_each(|row| world.model.insert(row.clone()));
        world.store(Event::Synced(first));
        assert_eq!(world.settle(), 0);
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
        // The status arrives, and is complete.
        world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
        world.settle();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
        assert!(world.addresses(W, "v6").is_empty());
        // The object is written again without a statement, as after a restore.
        world.store(Event::Applied(object("dns-1", W, &[&[]])));
        world.settle();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
        // It states that there is no address.
        world.store(Event::Applied(without_addresses("dns-1", W, "NXDOMAIN")));
        world.settle();
        assert!(world.addresses(W, "v4").is_empty());
    }
}

#[test]
fn a_status_that_lost_its_last_address_while_no_writer_ran_is_believed() {
    let mut model = Model::default();
    model.insert(made_for(STORE, W, Family::V4, &["10.0.0.1"]));
    let mut world = World::on(policy(), model);
    world.refer(DEFAULT_NETWORK_CONTROLLER, W);
    world.store(Event::Synced(vec![without_addresses(
        "dns-1", W, "NXDOMAIN",
    )]));
    world.settle();
    assert!(world.addresses(W, "v4").is_empty());
}

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
fn a_set_in_use_whose_object_is_absent_keeps_its_addresses() {
    for is_restarted in [false, true] {
        for is_managed in [false, true] {
            for event in [Event::Deleted(key("dns-1")), Event::Synced(vec![])] {
                let mut world = in_use();
                if is_managed {
                    world.refer_as_ovn_kubernetes(DEFAULT_NETWORK_CONTROLLER, W);
                }
                if is_restarted {
                    world = World::on(policy(), world.model);
                    world.store(Event::Synced(vec![]));
                } else {
                    world.store(event);
                }
                assert_eq!(world.pass(MINUTE * 600), 0);
                assert!(has_all(&world), "{is_restarted} {is_managed}");
                let state = world.sync.state();
                assert_eq!(state.absent().iter().collect::<Vec<_>>(), [&dns(W)]);
                assert_eq!(state.differences, Differences::default());
                // The last addresses stay desired: other clients take none out, and delete no set.
                for row in world.model.rows.values_mut() {
                    row.addresses.clear();
                }
                world.settle();
                assert!(has_all(&world), "{is_restarted} {is_managed}");
                world.model.rows.clear();
                world.work();
                assert!(has_all(&world), "{is_restarted} {is_managed}");
                // The object is back, and speaks.
                world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
                world.settle();
                assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
                assert!(world.sync.state().absent().is_empty());
            }
        }
    }
}

#[test]
fn an_unused_set_without_an_object_is_deleted_after_a_minute_if_it_is_ours() {
    let mut world = World::new();
    world.model.insert(foreign(
        DEFAULT_NETWORK_CONTROLLER,
        W,
        Family::V4,
        &["10.0.0.1"],
    ));
    world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
    world.settle();
    for _ in 0..2 {
        world.store(Event::Deleted(key("dns-1")));
        assert_eq!(world.pass(MINUTE - MILLI), 0);
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
        world.pass(MILLI);
        assert!(world.rows(W, "v6").is_empty(), "deleted, as it is ours");
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"], "it is not ours");
        assert_eq!(world.settle(), 0);
        assert_eq!(world.sync.state().differences, Differences::default());
        world.store(whole(&[&["10.0.0.1", "2001:db8::1"]]));
        world.settle();
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
    }
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

#[test]
fn a_row_that_a_nat_row_refers_to_stays_and_holds_nothing_else_up() {
    let mut world = World::new();
    world.store(Event::Synced(vec![
        object("dns-1", W, &[&["10.0.0.1"]]),
        object("dns-2", "b.example.", &[&["10.0.0.1"]]),
    ]));
    world.settle();
    world.model.pinned = world.model.rows.keys().copied().collect();
    world.store(Event::Deleted(key("dns-1")));
    world.work();
    world.now += MINUTE;
    // A change at the same moment is in another transaction.
    world.store(Event::Applied(object(
        "dns-2",
        "b.example.",
        &[&["10.0.0.2"]],
    )));
    world.work();
    assert_eq!(world.addresses("b.example.", "v4"), ["10.0.0.2"]);
    world.pass(MINUTE * 10);
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    assert_eq!(world.sync.refused(), 0, "it is no fault");
    world.model.pinned.clear();
    world.pass(MINUTE);
    assert_eq!(world.model.rows.len(), 2);
}

#[test]
fn an_object_that_is_made_again_takes_nothing_out() {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    world.store(Event::Deleted(key("dns-1")));
    world.pass(Duration::from_millis(20));
    let mut again = object("dns-1", W, &[]);
    again.metadata.uid = Some("2".into());
    world.store(Event::Applied(again));
    // ovn-kubernetes empties the set meanwhile.
    for row in world.model.rows.values_mut() {
        row.addresses.clear();
    }
    world.work();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
}

#[test]
fn a_database_that_is_restored_loses_no_address_of_a_set_in_use() {
    let restored = in_use().model;
    for (first, later) in [
        // The store is empty, or gets empty.
        (vec![], vec![]),
        (vec![object("dns-1", W, &[&["10.0.0.9"]])], vec![]),
    ] {
        let mut world = World::new();
        world.store(Event::Synced(first.clone()));
        world.settle();
        world.store(Event::Synced(later));
        world.model = restored.clone();
        world.read();
        world.pass(MINUTE * 60);
        assert!(world.addresses(W, "v4").contains(&"10.0.0.1"));
        assert_eq!(
            world.addresses(W, "v4").contains(&"10.0.0.9"),
            !first.is_empty()
        );
    }
}

#[test]
fn rows_of_another_store_lose_only_what_this_program_added() {
    let mut model = Model::default();
    for (name, address) in [(W, "10.0.0.1"), ("b.example.", "10.0.0.2")] {
        model.insert(made_for("kube/other", name, Family::V4, &[address]));
    }
    let mut world = World::on(policy(), model);
    let b = |addresses: &[&str]| object("dns-2", "b.example.", &[addresses]);
    world.store(Event::Synced(vec![b(&["10.0.0.3"])]));
    world.settle();
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    let both = ["10.0.0.2", "10.0.0.3"];
    assert_eq!(world.addresses("b.example.", "v4"), both);
    let state = world.sync.state();
    let others = [("kube/other".to_owned(), 2)].into();
    assert_eq!(state.other_stores(&world.replica), others);
    let differences = Differences {
        foreign_addresses: 1,
        ..Differences::default()
    };
    assert_eq!(state.differences, differences);
    world.store(Event::Applied(b(&["10.0.0.4"])));
    world.settle();
    let both = ["10.0.0.2", "10.0.0.4"];
    assert_eq!(world.addresses("b.example.", "v4"), both);
    world.store(Event::Deleted(key("dns-2")));
    world.settle();
    assert_eq!(world.addresses("b.example.", "v4"), both);
}
