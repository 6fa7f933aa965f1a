//! Random lives: whatever happens, the rows end as the statuses say.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;
use proto::api::{DEFAULT_NETWORK_CONTROLLER, DnsNameResolver, Family};
use runtime::store::Event;

use super::world::{World, foreign, policy, set_name};
use crate::{
    desired::Standing,
    sync::{BatchLimits, Policy},
    testing::{dns, key, object},
};

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
    /// A rule names the sets of a name, or no longer does.
    Reference {
        name: usize,
    },
    NoReference,
    Wait {
        millis: u64,
    },
    Transaction,
    /// If they are as large as may be, one is sent before the last is answered.
    Transactions,
    /// The connection is lost in the middle of a transaction.
    Loss {
        took_effect: bool,
    },
    /// The writer ends, this happens to the store while nobody looks, and it starts again.
    Restart {
        deleted: Vec<usize>,
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
        1 => (0..3_usize).prop_map(|name| Happening::Reference { name }),
        1 => Just(Happening::NoReference),
        2 => (1..70_000_u64).prop_map(|millis| Happening::Wait { millis }),
        4 => Just(Happening::Transaction),
        3 => Just(Happening::Transactions),
        1 => any::<bool>().prop_map(|took_effect| Happening::Loss { took_effect }),
        1 => prop::collection::vec(0..4_usize, 0..4).prop_map(|deleted| Happening::Restart { deleted }),
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
        rows in prop::sample::select(vec![1, 2, 1000]),
    ) {
        let limits = BatchLimits { rows, ..BatchLimits::default() };
        let policy = || Policy { limits, ..policy() };
        let mut world = World::with(policy());
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
                // A list of nothing that was known is not believed, which is a story of its own.
                Happening::Synced { objects }
                    if !store.is_empty() && !objects.iter().any(|o| store.contains_key(o)) => {}
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
                Happening::Reference { name } => {
                    world.refer(DEFAULT_NETWORK_CONTROLLER, NAMES[name]);
                }
                Happening::NoReference => drop(world.model.acls.pop_first()),
                Happening::Wait { millis } => drop(world.pass(Duration::from_millis(millis))),
                Happening::Transaction => drop(world.step()),
                Happening::Transactions => world.step_in_two(),
                Happening::Loss { took_effect } => {
                    while let Some(operations) = world.next() {
                        if took_effect {
                            world.model.transact(&operations);
                        }
                    }
                    world.read();
                }
                Happening::Restart { deleted } => {
                    store.retain(|object, _| !deleted.contains(object));
                    world = World::on(policy(), world.model);
                    let whole = store.iter().map(|(object, addresses)| status(*object, addresses));
                    world.store(Event::Synced(whole.collect()));
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
            let standing = world.sync.desired().wanted(&dns(name)).map(|w| (w.standing, w.resolved, w.seen));
            let is_gone = standing.is_some_and(|(standing, ..)| standing == Standing::Gone);
            for family in Family::ALL {
                let rows = world.rows(name, family.as_str());
                prop_assert!(!present || !rows.is_empty(), "{} {}", name, family);
                let wanted: BTreeSet<_> =
                    union.iter().filter(|a| a.contains(':') == (family == Family::V6)).cloned().collect();
                let set = set_name(DEFAULT_NETWORK_CONTROLLER, name, family);
                let is_named = world.model.acls.values().any(|acl| acl.expression.contains(&set));
                for row in rows {
                    if present && standing.is_some_and(|(_, resolved, _)| resolved) {
                        prop_assert_eq!(&row.addresses, &wanted);
                    } else if is_gone {
                        let is_ours = row.external_ids.contains_key("ovn-writer/created");
                        // What others left when nobody looked is theirs.
                        let is_theirs = !is_ours && standing.is_some_and(|(.., seen)| !seen);
                        prop_assert!(is_theirs || row.addresses.is_empty() && (is_named || !is_ours));
                    } else if !present && row.external_ids.contains_key("ovn-writer/created") {
                        // It went while nobody looked. If it stays there is a reason, and it is told.
                        prop_assert!(row.addresses.is_empty() || world.sync.doubt().is_some());
                    }
                }
                prop_assert!(!(is_gone && is_named && world.rows(name, family.as_str()).is_empty()));
            }
        }
        // All is said, and a new reading of everything has nothing to add.
        world.read();
        prop_assert_eq!(world.settle(), 0);
    }
}
