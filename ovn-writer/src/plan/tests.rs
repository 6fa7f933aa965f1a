//! Whole sequences of a writer's work, against a model of the database.

mod absence;
mod creation;
mod drift;
mod explain;
mod model;
mod random;
mod rejected_transactions;
mod world;

use std::time::Duration;

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family};
use uuid::Uuid;

use self::{
    model::ModelRow,
    world::{World, policy},
};
use super::*;
use crate::testing::{key, object};

const W: &str = "www.example.com.";

/// The store has only this object of [`W`].
fn whole(entries: &[&[&str]]) -> Event<DnsNameResolver> {
    Event::Synced(vec![object("dns-1", W, entries)])
}

#[test]
fn nothing_is_done_before_the_store_was_read() {
    let mut model = model::Model::default();
    model.insert(world::made_for(world::STORE, W, Family::V4, &["10.0.0.1"]));
    let mut world = World::on(policy(), model);
    world.store(Event::OutOfSync("not yet".into()));
    assert_eq!(world.settle(), 0);
    assert_eq!(world.sync.state().differences, Differences::default());
}

#[test]
fn of_a_burst_a_second_transaction_is_sent_before_the_first_is_answered() {
    let limits = BatchLimits {
        rows: 4,
        bytes: 1 << 20,
    };
    let mut world = World::with(Policy { limits, ..policy() });
    let objects = (0..8).map(|n| object(&format!("dns-{n}"), &format!("n{n}.example."), &[]));
    world.store(Event::Synced(objects.collect()));
    let first = world.next().unwrap();
    // A change of a name in a pending transaction waits for its outcome.
    world.store(Event::Applied(object(
        "dns-0",
        "n0.example.",
        &[&["10.0.0.1"]],
    )));
    let second = world.next().unwrap();
    assert!(world.next().is_none(), "and no third one");
    for operations in [first, second] {
        let outcome = world.model.transact(&operations);
        world.tell();
        match world.finish(outcome) {
            Finished::Done(done) => assert_eq!((done.created, done.mutated), (4, 0)),
            other => panic!("{other:?}"),
        }
    }
    world.settle();
    assert_eq!(world.model.rows.len(), 16);
    assert_eq!(world.addresses("n0.example.", "v4"), ["10.0.0.1"]);
    assert!(world.sync.is_idle());
}

#[test]
fn batches_are_bounded_and_complete() {
    for (limits, transactions) in [
        (
            BatchLimits {
                rows: 10,
                bytes: 1 << 20,
            },
            10,
        ),
        (
            BatchLimits {
                rows: 1000,
                bytes: 1,
            },
            50,
        ),
    ] {
        let mut world = World::with(Policy { limits, ..policy() });
        let objects = (0..50).map(|n| object(&format!("dns-{n}"), &format!("n{n}.example."), &[]));
        world.store(Event::Synced(objects.collect()));
        assert_eq!(world.settle(), transactions);
        assert_eq!(world.model.rows.len(), 100);
    }
}

#[test]
fn a_row_that_only_the_replica_has_starts_over() {
    let mut world = World::new();
    world.store(whole(&[&["10.0.0.1"]]));
    world.settle();
    world.store(Event::Applied(object("dns-1", W, &[&["10.0.0.2"]])));
    let operations = world.next().unwrap();
    world.model.rows.clear();
    let outcome = world.model.transact(&operations);
    assert!(matches!(
        world.finish(outcome),
        Finished::StartOver(StartOver::ReplicaMismatch(_))
    ));
}
