//! Whole lives of a writer, played against a model of the database.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id, address_set_name};
use uuid::Uuid;

mod model;

use self::model::{ModelRow, World, foreign};
use super::*;
use crate::{
    ovsdb::Error,
    testing::{dns, key, object},
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
    world.sync = Sync::new(BatchLimits {
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
        assert_eq!(world.settle(), usize::from(!took_effect));
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

/// Something that happens.
#[derive(Clone, Debug)]
enum Happening {
    Applied {
        object: usize,
        addresses: Vec<u8>,
    },
    Deleted {
        object: usize,
    },
    Synced {
        objects: Vec<usize>,
    },
    ForeignRow {
        controller: usize,
        name: usize,
        family: Family,
    },
    ForeignAddress {
        row: usize,
        address: u8,
    },
    ForeignDeletion {
        row: usize,
    },
    Transaction,
    /// The connection is lost in the middle of a transaction.
    Loss {
        took_effect: bool,
    },
}

const NAMES: [&str; 3] = ["a.example.", "b.example.", "*.c.example."];

fn happening() -> impl Strategy<Value = Happening> {
    let addresses = || prop::collection::vec(0..8_u8, 0..5);
    let family = || prop::sample::select(Family::ALL.to_vec());
    prop_oneof![
        4 => (0..4_usize, addresses()).prop_map(|(object, addresses)| Happening::Applied { object, addresses }),
        1 => (0..4_usize).prop_map(|object| Happening::Deleted { object }),
        1 => prop::collection::vec(0..4_usize, 0..4).prop_map(|objects| Happening::Synced { objects }),
        1 => (0..2_usize, 0..3_usize, family()).prop_map(|(controller, name, family)| Happening::ForeignRow { controller, name, family }),
        2 => (0..9_usize, 0..8_u8).prop_map(|(row, address)| Happening::ForeignAddress { row, address }),
        1 => (0..9_usize).prop_map(|row| Happening::ForeignDeletion { row }),
        4 => Just(Happening::Transaction),
        1 => any::<bool>().prop_map(|took_effect| Happening::Loss { took_effect }),
    ]
}

fn address(n: u8) -> String {
    if n.is_multiple_of(2) {
        format!("10.0.0.{n}")
    } else {
        format!("2001:db8::{n}")
    }
}

/// Object 3 has the same name as object 0.
fn status(number: usize, addresses: &[u8]) -> DnsNameResolver {
    let texts: Vec<_> = addresses.iter().map(|n| address(*n)).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    object(&format!("dns-{number}"), NAMES[number % 3], &[&texts])
}

proptest! {
    #[test]
    fn whatever_happens_the_rows_end_as_the_statuses_say(
        happenings in prop::collection::vec(happening(), 0..40),
    ) {
        let mut world = World::new();
        let mut store = BTreeMap::new();
        world.store(Event::Synced(vec![]));
        for happening in happenings {
            match happening {
                Happening::Applied { object, addresses } => {
                    world.store(Event::Applied(status(object, &addresses)));
                    store.insert(object, addresses);
                }
                Happening::Deleted { object } => {
                    world.store(Event::Deleted(key(&format!("dns-{object}"))));
                    store.remove(&object);
                }
                Happening::Synced { objects } => {
                    store.retain(|object, _| objects.contains(object));
                    let whole = store.iter().map(|(object, addresses)| status(*object, addresses));
                    world.store(Event::Synced(whole.collect()));
                }
                Happening::ForeignRow { controller, name, family } => {
                    let controller = [DEFAULT_NETWORK_CONTROLLER, "blue-network-controller"][controller];
                    let row = foreign(controller, NAMES[name], family, &[]);
                    if world.model.rows.values().all(|other| other.name != row.name) {
                        world.model.insert(row);
                    }
                }
                Happening::ForeignAddress { row, address: n } => {
                    if let Some(row) = world.model.rows.values_mut().nth(row) {
                        row.addresses.insert(address(n));
                    }
                }
                Happening::ForeignDeletion { row } => {
                    if let Some(uuid) = world.model.rows.keys().nth(row).copied() {
                        world.model.rows.remove(&uuid);
                    }
                }
                Happening::Transaction => drop(world.step()),
                Happening::Loss { took_effect } => {
                    if let Some(operations) = world.next() && took_effect {
                        world.model.transact(&operations);
                    }
                    world.sync.database_lost();
                    world.read();
                }
            }
        }
        world.settle();
        prop_assert!(world.sync.is_idle() && world.sync.refused() == 0);

        for (index, name) in NAMES.iter().enumerate() {
            let of_name = store.iter().filter(|(object, _)| *object % 3 == index);
            let mut present = false;
            let mut union = BTreeSet::new();
            for (_, addresses) in of_name {
                present = true;
                union.extend(addresses.iter().map(|n| address(*n)));
            }
            for family in Family::ALL {
                let rows = world.rows(name, family.as_str());
                prop_assert!(!present || !rows.is_empty(), "{} {}", name, family);
                let resolved = world.sync.desired().wanted(&dns(name)).is_some_and(|w| w.resolved);
                let wanted: BTreeSet<_> =
                    union.iter().filter(|a| a.contains(':') == (family == Family::V6)).cloned().collect();
                for row in rows {
                    if present && resolved {
                        prop_assert_eq!(&row.addresses, &wanted);
                    } else if world.sync.desired().wanted(&dns(name)).is_some_and(|w| !w.present) {
                        prop_assert!(row.addresses.is_empty() && !row.external_ids.contains_key("ovn-writer/created"));
                    }
                }
            }
        }
        // All is said, and a new reading of everything has nothing to add.
        world.read();
        prop_assert_eq!(world.settle(), 0);
    }
}
