//! Whole lives of a writer, played against a model of the database.

mod model;
mod random;
mod world;

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id, address_set_name};
use uuid::Uuid;

use self::{
    model::ModelRow,
    world::{World, foreign},
};
use super::*;
use crate::{
    ovsdb::Error,
    testing::{key, object},
};

const W: &str = "www.example.com.";

#[test]
fn a_status_becomes_two_rows_in_one_transaction() {
    let mut world = World::new();
    world.store(Event::Synced(vec![object(
        "dns-1",
        W,
        &[&["10.0.0.1", "2001:db8::1"]],
    )]));
    match world.step() {
        Some(Finished::Done(done)) => {
            assert_eq!(
                (done.created, done.inserted_addresses, done.lags.len()),
                (2, 2, 1)
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
    assert_eq!(world.settle(), 0);
    assert!(world.sync.is_idle());
}

#[test]
fn a_change_of_times_alone_makes_no_transaction() {
    let mut world = World::new();
    world.store(Event::Synced(vec![object("dns-1", W, &[&["10.0.0.1"]])]));
    world.settle();
    let mut later = object("dns-1", W, &[&["10.0.0.1"]]);
    later.status.as_mut().unwrap().resolved_names[0].resolved_addresses[0].ttl_seconds = 1;
    world.store(Event::Applied(later));
    assert!(world.next().is_none());
}

#[test]
fn changes_gather_while_a_transaction_is_under_way() {
    let mut world = World::new();
    world.store(Event::Synced(vec![object("dns-1", W, &[&["10.0.0.1"]])]));
    let operations = world.next().unwrap();
    for addresses in [
        &["10.0.0.2"][..],
        &["10.0.0.2", "10.0.0.3"],
        &["10.0.0.1", "10.0.0.3"],
    ] {
        world.store(Event::Applied(object("dns-1", W, &[addresses])));
        assert!(world.next().is_none());
    }
    let outcome = world.model.transact(&operations);
    world.tell();
    assert!(matches!(world.finish(outcome), Finished::Done(_)));
    assert_eq!(world.settle(), 1);
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1", "10.0.0.3"]);
}

#[test]
fn a_first_reading_of_the_store_takes_nothing_out() {
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
        // The status comes, and is complete.
        world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
        world.settle();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.2"]);
        assert!(world.addresses(W, "v6").is_empty());
        // It loses its last address.
        world.store(Event::Applied(object("dns-1", W, &[&[]])));
        world.settle();
        assert!(world.addresses(W, "v4").is_empty());
    }
}

#[test]
fn rows_follow_an_object_that_goes_and_comes_back() {
    let mut world = World::new();
    world.model.insert(foreign(
        DEFAULT_NETWORK_CONTROLLER,
        W,
        Family::V4,
        &["10.0.0.1"],
    ));
    let whole = object("dns-1", W, &[&["10.0.0.1", "2001:db8::1"]]);
    for gone in [Event::Deleted(key("dns-1")), Event::Synced(vec![])] {
        world.store(Event::Synced(vec![whole.clone()]));
        world.settle();
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
        assert_eq!(world.addresses(W, "v6"), ["2001:db8::1"]);
        world.store(gone);
        world.settle();
        assert!(
            world.addresses(W, "v4").is_empty(),
            "emptied, as it is not ours"
        );
        assert!(world.rows(W, "v6").is_empty(), "deleted, as it is ours");
    }
}

#[test]
fn nothing_is_remembered_of_a_name_without_object_and_rows() {
    let mut world = World::new();
    world.store(Event::Synced(vec![object("dns-1", W, &[&["10.0.0.1"]])]));
    world.settle();
    world.store(Event::Deleted(key("dns-1")));
    world.settle();
    assert_eq!(world.sync.desired().names().count(), 0);
}

#[test]
fn what_somebody_else_does_to_a_row_is_undone() {
    let mut world = World::new();
    world.store(Event::Synced(vec![object(
        "dns-1",
        W,
        &[&["10.0.0.1", "10.0.0.2"]],
    )]));
    world.settle();
    let uuid = *world.model.rows.keys().next().unwrap();
    let row = world.model.rows.get_mut(&uuid).unwrap();
    row.addresses = ["10.0.0.2".to_owned(), "10.6.6.6".to_owned(), "x".to_owned()].into();
    assert_eq!(world.settle(), 1);
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1", "10.0.0.2"]);
    world.model.rows.clear();
    assert_eq!(world.settle(), 1);
    assert_eq!(world.addresses(W, "v4"), ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn batches_are_bounded_and_complete() {
    let mut world = World::new();
    world.sync = Reconciler::new(BatchLimits {
        rows: 10,
        bytes: 1 << 20,
    });
    let objects = (0..50).map(|n| object(&format!("dns-{n}"), &format!("n{n}.example."), &[]));
    world.store(Event::Synced(objects.collect()));
    assert_eq!(world.settle(), 10);
    assert_eq!(world.model.rows.len(), 100);

    world.sync.limits = BatchLimits {
        rows: 1000,
        bytes: 1,
    };
    let changed = (0..3).map(|n| {
        object(
            &format!("dns-{n}"),
            &format!("n{n}.example."),
            &[&["10.0.0.1"]],
        )
    });
    changed.for_each(|object| world.store(Event::Applied(object)));
    assert_eq!(world.settle(), 3);
}

#[test]
fn a_clash_of_names_costs_that_name_alone() {
    let mut world = World::new();
    let id = address_set_id(DEFAULT_NETWORK_CONTROLLER, "n7.example.", Family::V4);
    let clash = ModelRow {
        name: address_set_name(&id),
        ..ModelRow::default()
    };
    world.model.insert(clash.clone());
    let objects = (0..20).map(|n| {
        object(
            &format!("dns-{n}"),
            &format!("n{n}.example."),
            &[&["10.0.0.1"]],
        )
    });
    world.store(Event::Synced(objects.collect()));
    while world.step().is_some() {}
    assert_eq!(world.model.rows.len(), 1 + 19 * 2);
    assert_eq!(world.model.rows.values().next(), Some(&clash), "left alone");
    assert_eq!(world.sync.refused(), 1);
    assert!(world.sync.is_idle());
    // The waits double; and when the clash is gone, so is the trouble.
    let mut waits = Vec::new();
    for _ in 0..9 {
        let retry = world.sync.next_retry().unwrap();
        waits.push(retry - world.now());
        world.now = Some(retry);
        assert!(matches!(world.step(), Some(Finished::Refused(_))));
        assert!(world.step().is_none());
    }
    assert_eq!(
        (waits[0], waits[3], waits[8]),
        (FIRST_WAIT, FIRST_WAIT * 8, LONGEST_WAIT)
    );
    world.model.rows.remove(&Uuid::from_u128(1));
    world.settle();
    assert_eq!((world.model.rows.len(), world.sync.refused()), (40, 0));
}

#[test]
fn what_was_refused_together_is_tried_alone_and_after_a_new_reading_at_once() {
    let mut world = World::new();
    let id = address_set_id(DEFAULT_NETWORK_CONTROLLER, W, Family::V4);
    world.model.insert(ModelRow {
        name: address_set_name(&id),
        ..ModelRow::default()
    });
    let objects = vec![object("dns-1", W, &[]), object("dns-2", "b.example.", &[])];
    world.store(Event::Synced(objects));
    let operations = world.next().unwrap();
    // It comes while the others are under way, and is ahead of them when they are refused.
    world.store(Event::Applied(object("dns-3", "c.example.", &[])));
    let outcome = world.model.transact(&operations);
    assert!(matches!(world.finish(outcome), Finished::Refused(_)));
    let mut ends = Vec::new();
    while let Some(finished) = world.step() {
        ends.push(match finished {
            Finished::Done(done) => done.created,
            _ => 0,
        });
    }
    ends.sort_unstable();
    assert_eq!(ends, [0, 2, 2], "one name a transaction");
    assert!(world.next().is_none());
    world.read();
    assert!(world.next().is_some());
}

#[test]
fn a_row_that_is_no_longer_what_it_was_is_not_deleted() {
    let mut world = World::new();
    world.store(Event::Synced(vec![object("dns-1", W, &[&["10.0.0.1"]])]));
    world.settle();
    world.store(Event::Deleted(key("dns-1")));
    let operations = world.next().unwrap();
    // Somebody takes the IPv4 row over before the transaction arrives.
    let uuid = world.rows(W, "v4")[0].name.clone();
    let row = world
        .model
        .rows
        .values_mut()
        .find(|row| row.name == uuid)
        .unwrap();
    row.external_ids.remove("ovn-writer/created");
    match world.model.transact(&operations) {
        Outcome::Refused(refusal) => assert!(refusal.operation.is_some()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unknown_outcome_starts_over_whatever_it_was() {
    for took_effect in [true, false] {
        let mut world = World::new();
        world.store(Event::Synced(vec![object("dns-1", W, &[&["10.0.0.1"]])]));
        let operations = world.next().unwrap();
        if took_effect {
            world.model.transact(&operations);
        }
        let unknown = Outcome::Unknown(Error::Lagged);
        assert!(matches!(
            world.finish(unknown),
            Finished::StartOver(StartOver::Unknown(_))
        ));
        world.read();
        match world.step() {
            None => assert!(took_effect),
            Some(Finished::Done(done)) => {
                assert!(!took_effect);
                assert_eq!(
                    done.lags.len(),
                    1,
                    "the change has waited since it was made"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(world.addresses(W, "v4"), ["10.0.0.1"]);
    }
}

#[test]
fn a_row_that_only_the_replica_has_starts_over() {
    let mut world = World::new();
    world.store(Event::Synced(vec![object("dns-1", W, &[&["10.0.0.1"]])]));
    world.settle();
    world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
    let operations = world.next().unwrap();
    world.model.rows.clear();
    let outcome = world.model.transact(&operations);
    assert!(matches!(
        world.finish(outcome),
        Finished::StartOver(StartOver::Ghost(_))
    ));
}
